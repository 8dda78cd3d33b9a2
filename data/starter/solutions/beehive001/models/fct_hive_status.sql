with totals as (
    select
        hive_id,
        max(inspected_on) as last_inspected_on,
        count(*) as inspections,
        sum(honey_kg) as honey_kg
    from {{ source('bees', 'inspections') }}
    group by hive_id
),

recent as (
    select hive_id, sum(honey_kg) as honey_kg
    from {{ ref('hive_daily_activity') }}
    where date_diff('day', day, current_date) <= 90
    group by hive_id
)

select
    h.hive_id,
    h.hive_name,
    h.apiary,
    t.last_inspected_on,
    date_diff('day', t.last_inspected_on, current_date) as days_since_inspection,
    t.inspections,
    round(t.honey_kg, 1) as honey_kg,
    round(r.honey_kg, 1) as honey_90d_kg
from {{ source('bees', 'hives') }} as h
join totals as t using (hive_id)
join recent as r using (hive_id)
order by h.hive_id
