select
    loan_id,
    object_id,
    lent_on,
    returned_on,
    date_diff('day', lent_on, current_date) as days_since_lent,
    date_diff('day', lent_on, coalesce(returned_on, current_date)) as days_on_loan,
    greatest(0, date_diff('day', due_back_on, coalesce(returned_on, current_date))) as days_late
from {{ source('museum', 'loans') }}
order by loan_id
