with last_checkup as (
    select animal_id, checked_on, weight_kg
    from {{ source('shelter', 'checkups') }}
    qualify row_number() over (
        partition by animal_id order by checked_on desc, checkup_id desc
    ) = 1
)

select
    a.animal_id,
    a.name,
    a.species,
    date_sub('year', a.born_on, current_date) as age_years,
    s.intake_on,
    date_diff('day', s.intake_on, current_date) as days_since_intake,
    c.checked_on as last_checkup_on,
    date_diff('day', c.checked_on, current_date) as days_since_checkup,
    c.weight_kg as last_weight_kg,
    c.checked_on is null or date_diff('day', c.checked_on, current_date) > 30 as needs_checkup
from {{ ref('current_stays') }} as s
join {{ source('shelter', 'animals') }} as a using (animal_id)
left join last_checkup as c using (animal_id)
order by a.animal_id
