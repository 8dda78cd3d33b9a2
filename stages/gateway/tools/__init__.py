"""The tools, by subject. Each is a function of a desk and of what the client asks."""

from __future__ import annotations

from stages.gateway.registry import Tool, by_name
from stages.gateway.tools import (
    builds,
    catalog,
    columns,
    grain,
    joins,
    linking,
    models,
    queries,
    traces,
)

TOOLS: dict[str, Tool] = by_name(
    [
        models.dbt_project_map,
        catalog.schema_overview,
        catalog.list_tables,
        catalog.describe_table,
        catalog.schema_ddl,
        linking.schema_link,
        linking.find_join_path,
        columns.explore_table,
        columns.explore_column,
        columns.get_date_boundaries,
        grain.analyze_grain,
        joins.compare_join_types,
        queries.query_database,
        queries.validate_sql,
        queries.explain_query,
        traces.debug_cte_query,
        traces.query_history,
        models.generate_sql_skeleton,
        builds.check_model_schema,
        builds.validate_model_output,
        models.audit_model_sources,
        builds.dbt_error_parser,
    ]
)
