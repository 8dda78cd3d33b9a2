select
    month,
    count(*) as leases_billed,
    sum(rent_due) as rent_due,
    coalesce(sum(case when balance > 0 then balance end), 0) as open_balance,
    date_diff('month', month, current_date) as months_ago
from {{ ref('lease_monthly_balance') }}
group by month
order by month
