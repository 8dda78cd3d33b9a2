with priced as (
    select
        p.parcel_id,
        p.depot,
        p.zone,
        p.sent_on,
        p.surcharge_reason,
        min(r.up_to_g) as weight_step_g,
        cast(arg_min(r.price, r.up_to_g) as double) as price
    from {{ source('courier', 'parcels') }} as p
    left join {{ source('tariffs', 'zone_rates') }} as r
        on r.zone = p.zone
        and p.weight_g <= r.up_to_g
        and p.sent_on >= r.valid_from
        and (r.valid_to is null or p.sent_on <= r.valid_to)
    group by p.parcel_id, p.depot, p.zone, p.sent_on, p.surcharge_reason
)

select
    p.parcel_id,
    p.depot,
    p.zone,
    p.sent_on,
    p.weight_step_g,
    p.price,
    cast(coalesce(s.amount, 0) as double) as surcharge,
    p.price + cast(coalesce(s.amount, 0) as double) as charge
from priced as p
left join {{ source('tariffs', 'surcharges') }} as s on s.reason = p.surcharge_reason
