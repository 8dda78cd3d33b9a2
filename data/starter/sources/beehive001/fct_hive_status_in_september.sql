select
    h.hive_id,
    h.hive_name,
    h.apiary,
    max(case when a.inspections = 1 then a.day end) as last_inspected_on,
    date_diff('day', max(case when a.inspections = 1 then a.day end), date '2023-09-15')
        as days_since_inspection,
    cast(sum(a.inspections) as bigint) as inspections,
    round(sum(a.honey_kg), 1) as honey_kg,
    round(sum(case when a.day >= date '2023-06-17' then a.honey_kg else 0 end), 1) as honey_90d_kg
from hive_daily_activity as a
join hives as h using (hive_id)
group by h.hive_id, h.hive_name, h.apiary
order by h.hive_id
