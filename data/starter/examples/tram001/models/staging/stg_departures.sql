{{ config(materialized='view') }}

select
    departure_id,
    line_code,
    stop_code,
    planned_at,
    actual_at,
    cast(planned_at as date) as service_day,
    actual_at is null as is_cancelled,
    date_diff('second', planned_at, actual_at) as delay_s
from {{ source('tram', 'departures') }}
