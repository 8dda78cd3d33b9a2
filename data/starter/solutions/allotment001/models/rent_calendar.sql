with bounds as (
    select date_trunc('month', min(started_on)) as first_month
    from {{ ref('lease_terms') }}
),

months as (
    select
        cast(
            unnest(
                generate_series(
                    cast(first_month as timestamp),
                    cast(date_trunc('month', current_date) as timestamp),
                    interval 1 month
                )
            ) as date
        ) as month
    from bounds
)

select
    month,
    extract('year' from month) as year,
    extract('month' from month) as month_number
from months
order by month
