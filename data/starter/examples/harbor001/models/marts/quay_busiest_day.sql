-- The day with most tonnage at each quay; needs berth_daily_occupancy.
with by_quay as (
    select quay, day, sum(tonnage_moored) as tonnage
    from {{ ref('berth_daily_occupancy') }}
    group by quay, day
)
select quay, day, tonnage
from by_quay
qualify row_number() over (partition by quay order by tonnage desc, day) = 1
order by quay
