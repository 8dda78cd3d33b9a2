select
    line_code,
    service_day,
    count(*) as planned,
    sum(case when is_cancelled then 1 else 0 end) as cancelled,
    sum(case when delay_s <= 180 then 1 else 0 end) as on_time,
    round(
        sum(case when delay_s <= 180 then 1 else 0 end) * 1.0
            / nullif(sum(case when is_cancelled then 0 else 1 end), 0),
        4
    ) as on_time_share,
    round(avg(delay_s), 1) as mean_delay_s
from {{ ref('stg_departures') }}
group by line_code, service_day
