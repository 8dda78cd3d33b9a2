with line_cost as (
    select
        l.recipe_id,
        i.ingredient,
        l.quantity * f.factor * i.price_per_base_unit as cost
    from {{ source('kitchen', 'recipe_lines') }} as l
    join {{ source('kitchen', 'ingredients') }} as i using (ingredient_id)
    join {{ ref('unit_factors') }} as f on f.unit = l.unit and f.base_unit = i.base_unit
),

totals as (
    select
        recipe_id,
        count(*) as ingredient_count,
        case when count(cost) = count(*) then sum(cost) end as total_cost,
        arg_max(ingredient, cost) as priciest_ingredient
    from line_cost
    group by recipe_id
)

select
    r.recipe_id,
    r.title,
    r.servings,
    t.ingredient_count,
    round(t.total_cost, 4) as total_cost,
    round(t.total_cost / r.servings, 4) as cost_per_serving,
    t.priciest_ingredient
from {{ source('kitchen', 'recipes') }} as r
join totals as t using (recipe_id)
order by r.recipe_id
