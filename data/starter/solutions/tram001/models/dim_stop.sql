select
    s.stop_code,
    s.stop_name,
    s.zone,
    count(distinct d.line_code) as lines_serving
from {{ source('tram', 'stops') }} as s
left join {{ ref('stg_departures') }} as d using (stop_code)
group by s.stop_code, s.stop_name, s.zone
