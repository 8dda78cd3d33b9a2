{{ config(alias='show_revenue') }}

with played as (
    select show_id, count(*) as performances
    from {{ source('box_office', 'performances') }}
    group by show_id
),

bands as (
    select show_id, seat_band, sum(seats) as seats, sum(amount) as amount
    from {{ ref('stg_ticket_sales') }}
    group by show_id, seat_band
),

sold as (
    select
        show_id,
        sum(seats) as seats,
        sum(amount) as amount,
        arg_max(seat_band, amount) as best_band
    from bands
    group by show_id
)

select
    s.show_id,
    s.title,
    s.genre,
    coalesce(p.performances, 0) as performances,
    coalesce(t.seats, 0) as seats_sold,
    cast(coalesce(t.amount, 0) as double) as revenue,
    round(cast(t.amount as double) / p.performances, 2) as revenue_per_performance,
    t.best_band
from {{ source('box_office', 'shows') }} as s
left join played as p using (show_id)
left join sold as t using (show_id)
