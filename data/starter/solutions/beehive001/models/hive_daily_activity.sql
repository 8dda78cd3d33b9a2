with bounds as (
    select min(inspected_on) as first_day
    from {{ source('bees', 'inspections') }}
),

days as (
    select
        cast(
            unnest(
                generate_series(
                    cast(first_day as timestamp),
                    cast(current_date as timestamp) - interval 1 day,
                    interval 1 day
                )
            ) as date
        ) as day
    from bounds
)

select
    h.hive_id,
    h.hive_name,
    d.day,
    case when i.inspection_id is null then 0 else 1 end as inspections,
    coalesce(i.honey_kg, 0) as honey_kg
from days as d
cross join {{ source('bees', 'hives') }} as h
left join {{ source('bees', 'inspections') }} as i
    on i.hive_id = h.hive_id and i.inspected_on = d.day
order by h.hive_id, d.day
