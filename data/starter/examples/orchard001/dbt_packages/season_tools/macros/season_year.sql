{% macro season_year(column) %}
    (extract('year' from {{ column }}) + case when extract('month' from {{ column }}) = 12 then 1 else 0 end)
{% endmacro %}
