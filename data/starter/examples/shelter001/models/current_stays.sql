select stay_id, animal_id, intake_on
from {{ source('shelter', 'stays') }}
where left_on is null
