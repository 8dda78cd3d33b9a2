select
    g.group_id,
    g.party_name,
    g.size as party_size,
    count(o.order_id) as orders,
    cast(coalesce(sum(o.total), 0) as double) as total_spent,
    round(cast(coalesce(sum(o.total), 0) as double) / g.size, 2) as spent_per_head,
    cast(min(o.ordered_at) as date) as first_order_on
from {{ source('till', 'group') }} as g
left join {{ ref('paid_orders') }} as o using (group_id)
group by g.group_id, g.party_name, g.size
