select
    stay_id,
    berth_code,
    vessel,
    tonnage,
    arrived_on,
    left_on
from {{ source('harbour', 'berth_stays') }}
