with bounds as (
    select min(arrived_on) as first_day
    from {{ ref('stg_berth_stays') }}
),

calendar as (
    select
        cast(
            unnest(
                generate_series(
                    cast(first_day as timestamp), cast(current_date as timestamp), interval 1 day
                )
            ) as date
        ) as day
    from bounds
)

select
    c.day,
    b.berth_code,
    b.quay,
    count(s.stay_id) as vessels_moored,
    coalesce(sum(s.tonnage), 0) as tonnage_moored,
    count(s.stay_id) > 0 as is_occupied
from calendar as c
cross join {{ source('harbour', 'berths') }} as b
left join {{ ref('stg_berth_stays') }} as s
    on s.berth_code = b.berth_code
    and s.arrived_on <= c.day
    and (s.left_on is null or s.left_on > c.day)
group by c.day, b.berth_code, b.quay
