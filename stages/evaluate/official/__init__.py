"""The official Spider2-DBT comparison of two tables, case for case, made fast."""
