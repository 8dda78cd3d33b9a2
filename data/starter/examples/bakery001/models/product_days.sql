with sold as (
    select product_id, sold_on, sum(pieces) as pieces
    from {{ source('bakery', 'sales') }}
    group by product_id, sold_on
)

select
    b.product_id,
    b.baked_on as day,
    b.pieces as baked,
    coalesce(s.pieces, 0) as sold
from {{ source('bakery', 'bakes') }} as b
left join sold as s on s.product_id = b.product_id and s.sold_on = b.baked_on
