select inspected_on, sum(honey_kg) as honey_kg
from main.inspections
group by inspected_on
order by honey_kg desc, inspected_on
limit 1
