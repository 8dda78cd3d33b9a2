select
    cast(month as integer) as month,
    case
        when month in (12, 1, 2) then 'winter'
        when month <= 5 then 'spring'
        when month <= 8 then 'summer'
        else 'autumn'
    end as season,
    cast(1 + (month % 12) // 3 as integer) as season_number
from range(1, 13) as months(month)
