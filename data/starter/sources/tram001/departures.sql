-- Fourteen days of departures on three lines. The noise is modular arithmetic, not hash() or
-- random(), which differ between engines.
with planned as (
    select
        row_number() over (order by day, line, run) as departure_id,
        line,
        run,
        cast(timestamp '2021-11-08 05:30:00' + to_days(cast(day as integer)) + to_minutes(run * 22 + line * 7) as timestamp) as planned_at
    from range(14) as d(day)
    cross join range(1, 4) as l(line)
    cross join range(48) as r(run)
)

select
    cast(departure_id as integer) as departure_id,
    'L' || line as line_code,
    'T' || lpad(cast(1 + (departure_id * 5 + line * 3) % (5 + line) as varchar), 2, '0') as stop_code,
    planned_at,
    case
        when (departure_id * 31 + line * 17) % 43 = 0 then null
        else planned_at + to_seconds(((departure_id * 7919 + line * 101) % 420) - 40)
    end as actual_at
from planned
order by departure_id
