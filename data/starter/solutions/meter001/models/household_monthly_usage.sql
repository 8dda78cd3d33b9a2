select
    m.household,
    m.district,
    cast(date_trunc('month', u.usage_date) as date) as month,
    count(*) as days_measured,
    sum(u.litres) as litres,
    sum(case when u.origin = 'corrected' then 1 else 0 end) as corrected_days
from {{ ref('daily_usage') }} as u
join {{ source('water', 'meters') }} as m using (meter_id)
group by m.household, m.district, cast(date_trunc('month', u.usage_date) as date)
