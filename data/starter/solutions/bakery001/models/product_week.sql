select
    p.product_id,
    cast(date_trunc('week', d.day) as date) as week,
    sum(d.baked - d.sold) as wasted,
    cast(sum((d.baked - d.sold) * p.unit_price) as double) as lost_revenue
from {{ ref('product_days') }} as d
join {{ source('bakery', 'products') }} as p using (product_id)
group by p.product_id, cast(date_trunc('week', d.day) as date)
