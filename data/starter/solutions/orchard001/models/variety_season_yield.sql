with picked as (
    select
        t.variety,
        t.tree_id,
        h.kilograms,
        {{ season_tools.season_year('h.picked_on') }} as season_year,
        s.season_number,
        s.season
    from {{ source('orchard', 'harvests') }} as h
    join {{ source('orchard', 'trees') }} as t using (tree_id)
    join {{ ref('season_tools', 'season_months') }} as s
        on s.month = extract('month' from h.picked_on)
),

totals as (
    select
        variety,
        season_year,
        season_number,
        season,
        count(distinct tree_id) as trees_picked,
        sum(kilograms) as kilograms
    from picked
    group by variety, season_year, season_number, season
)

select
    variety,
    season_year,
    season_number,
    season,
    trees_picked,
    round(kilograms, 1) as kilograms,
    round(kilograms / sum(kilograms) over (partition by season_year, season_number), 4)
        as share_of_season
from totals
