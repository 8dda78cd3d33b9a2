{{ config(materialized='view') }}

select
    l.loan_id,
    o.title,
    l.borrower,
    l.due_back_on,
    date_diff('day', current_date, l.due_back_on) as days_until_due,
    case
        when l.due_back_on < current_date then 'overdue'
        when date_diff('day', current_date, l.due_back_on) <= 30 then 'this month'
        else 'later'
    end as urgency,
    cast(o.insured_value as double) as insured_value
from {{ source('museum', 'loans') }} as l
join {{ source('museum', 'objects') }} as o using (object_id)
where l.returned_on is null
