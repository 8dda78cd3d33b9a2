{{ config(alias='ticket_sales') }}

select
    t.sale_id,
    p.show_id,
    p.performance_id,
    p.played_on,
    t.seat_band,
    case when t.status = 'refunded' then -t.seats else t.seats end as seats,
    case when t.status = 'refunded' then -t.seats else t.seats end * t.seat_price as amount
from {{ source('box_office', 'ticket_sales') }} as t
join {{ source('box_office', 'performances') }} as p using (performance_id)
