"""The stack: dbt, its adapter and DuckDB in an environment of their own, and what runs in it."""
