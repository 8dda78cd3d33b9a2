{{ config(materialized='incremental') }}

with usage as (
    select
        meter_id,
        read_on as usage_date,
        litres_total - lag(litres_total) over (partition by meter_id order by read_on) as litres
    from {{ source('water', 'readings') }}
)

select meter_id, usage_date, litres, 'meter' as origin
from usage
where litres is not null
{% if is_incremental() %}
    and usage_date > (select max(usage_date) from {{ this }})
{% endif %}
