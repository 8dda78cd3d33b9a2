select
    h.apiary,
    min(i.inspected_on) as season_from,
    max(i.inspected_on) as season_to,
    sum(i.honey_kg) as honey_kg
from {{ source('bees', 'inspections') }} as i
join {{ source('bees', 'hives') }} as h using (hive_id)
group by h.apiary
