select
    h.hive_id,
    h.hive_name,
    cast(d.day as date) as day,
    case when i.inspection_id is null then 0 else 1 end as inspections,
    coalesce(i.honey_kg, 0) as honey_kg
from range(timestamp '2023-04-04', timestamp '2023-09-15', interval 1 day) as d(day)
cross join hives as h
left join inspections as i on i.hive_id = h.hive_id and i.inspected_on = d.day
order by h.hive_id, d.day
