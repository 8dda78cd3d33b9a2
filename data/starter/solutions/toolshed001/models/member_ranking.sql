with totals as (
    select
        m.member_id,
        m.full_name,
        count(*) as loans,
        coalesce(sum(l.days_lent), 0) as days_lent
    from {{ ref('stg_loans') }} as l
    join {{ source('toolshed', 'members') }} as m using (member_id)
    group by m.member_id, m.full_name
)

select
    row_number() over (order by loans desc, days_lent desc, member_id) as rank,
    member_id,
    full_name,
    loans,
    days_lent
from totals
order by rank
