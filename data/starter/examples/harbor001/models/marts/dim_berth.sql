-- One row per berth, with the last vessel that left it.
with last_stays as (
    select berth_code, vessel, left_on
    from {{ ref('stg_berth_stays') }}
    where left_on is not null
    qualify row_number() over (partition by berth_code order by left_on desc, stay_id desc) = 1
)

select
    b.berth_code,
    b.quay,
    b.max_length_m,
    s.vessel as last_vessel,
    s.left_on as last_left_on,
    date_diff('day', s.left_on, current_date) as days_since_last_vessel
from {{ source('harbour', 'berths') }} as b
left join last_stays as s using (berth_code)
