with months as (
    select
        lease_id,
        holder,
        plot_code,
        monthly_rent,
        cast(
            unnest(
                generate_series(
                    cast(date_trunc('month', started_on) as timestamp),
                    cast(date_trunc('month', coalesce(ended_on, current_date)) as timestamp),
                    interval 1 month
                )
            ) as date
        ) as month
    from {{ ref('lease_terms') }}
),

paid as (
    select
        lease_id,
        cast(date_trunc('month', paid_on) as date) as month,
        sum(amount) as amount
    from {{ source('allotments', 'payments') }}
    group by all
)

select
    m.lease_id,
    m.holder,
    m.plot_code,
    m.month,
    cast(m.monthly_rent as double) as rent_due,
    cast(coalesce(p.amount, 0) as double) as rent_paid,
    cast(
        sum(m.monthly_rent - coalesce(p.amount, 0))
            over (partition by m.lease_id order by m.month) as double
    ) as balance
from months as m
left join paid as p on p.lease_id = m.lease_id and p.month = m.month
