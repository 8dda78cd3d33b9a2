select
    depot,
    cast(date_trunc('month', sent_on) as date) as month,
    count(*) as parcels,
    sum(case when price is null then 1 else 0 end) as unpriced,
    round(sum(charge), 2) as charge
from {{ ref('parcel_charge') }}
group by depot, cast(date_trunc('month', sent_on) as date)
