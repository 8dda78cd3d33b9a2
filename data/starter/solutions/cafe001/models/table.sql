with totals as (
    select
        s.table_no,
        s.room,
        s.seats,
        count(distinct o.group_id) as groups,
        cast(coalesce(sum(o.total), 0) as double) as revenue
    from {{ source('till', 'seating') }} as s
    left join {{ ref('paid_orders') }} as o using (table_no)
    group by s.table_no, s.room, s.seats
)

select
    table_no,
    room,
    seats,
    groups,
    revenue,
    row_number() over (order by revenue desc, table_no) as revenue_rank
from totals
