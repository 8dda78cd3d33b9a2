select visit_id, patient_id, visit_on
from {{ source('clinic', 'visits') }}
where status = 'kept'
