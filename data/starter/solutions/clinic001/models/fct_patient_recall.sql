with last_visits as (
    select patient_id, count(*) as visits_kept, max(visit_on) as last_visit_on
    from {{ ref('kept_visits') }}
    group by patient_id
),

due as (
    select
        p.patient_id,
        p.full_name,
        coalesce(v.visits_kept, 0) as visits_kept,
        v.last_visit_on,
        cast(v.last_visit_on + to_months(p.recall_months) as date) as due_on
    from {{ source('clinic', 'patients') }} as p
    left join last_visits as v using (patient_id)
)

select
    patient_id,
    full_name,
    visits_kept,
    last_visit_on,
    date_diff('day', last_visit_on, current_date) as days_since_last_visit,
    due_on,
    case
        when due_on < current_date then date_diff('day', due_on, current_date)
        when due_on is not null then 0
    end as days_overdue,
    case
        when due_on is null then 'new'
        when due_on < current_date then 'overdue'
        when date_diff('day', current_date, due_on) <= 30 then 'due soon'
        else 'ok'
    end as recall_state
from due
