select
    t.tool_id,
    t.tool_name,
    t.category,
    t.bought_for,
    count(l.loan_id) as times_lent,
    coalesce(sum(l.days_lent), 0) as days_lent,
    max(l.lent_on) as last_lent_on,
    round(cast(t.bought_for as double) / nullif(count(l.loan_id), 0), 2) as cost_per_loan
from {{ source('toolshed', 'tools') }} as t
left join {{ ref('stg_loans') }} as l using (tool_id)
group by t.tool_id, t.tool_name, t.category, t.bought_for
