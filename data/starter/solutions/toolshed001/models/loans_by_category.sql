select
    t.category,
    cast(date_trunc('month', l.lent_on) as date) as month,
    count(*) as loans,
    count(distinct l.member_id) as members,
    sum(case when l.returned_on is null then 1 else 0 end) as still_out
from {{ ref('stg_loans') }} as l
join {{ source('toolshed', 'tools') }} as t using (tool_id)
group by all
