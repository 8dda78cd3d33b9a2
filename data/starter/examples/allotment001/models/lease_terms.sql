{{ config(materialized='view') }}

select
    l.lease_id,
    l.holder,
    p.plot_code,
    p.monthly_rent,
    l.started_on,
    l.ended_on
from {{ source('allotments', 'leases') }} as l
join {{ source('allotments', 'plots') }} as p using (plot_id)
