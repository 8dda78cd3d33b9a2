select
    p.product_id,
    p.product_name,
    isodow(d.day) as weekday,
    sum(d.baked) as baked,
    sum(d.sold) as sold,
    sum(d.baked) - sum(d.sold) as wasted,
    round((sum(d.baked) - sum(d.sold)) * 1.0 / sum(d.baked), 4) as waste_share
from {{ ref('product_days') }} as d
join {{ source('bakery', 'products') }} as p using (product_id)
group by p.product_id, p.product_name, isodow(d.day)
