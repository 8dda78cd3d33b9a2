"""Which statements an agent may run: one, and one that reads the database and nothing else.

Two parsers judge: sqlglot, and DuckDB's own, whose reading is the one that would run. What
sqlglot cannot parse is judged by DuckDB's syntax tree alone; what DuckDB cannot parse does
not run. Below both lies the connection, which is read-only and has no access to files.
"""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import exp

from stages.common.files import Record
from stages.gateway.models import failed, refused
from stages.gateway.parse import READING_NODES, EngineParse, engine_parse

LONGEST = 100_000
"""Characters of a statement."""

TABLE_FUNCTIONS = frozenset(
    [
        "range",
        "generate_series",
        "unnest",
        "repeat",
        "repeat_row",
        "json_each",
        "json_tree",
        "summary",
        "duckdb_columns",
        "duckdb_constraints",
        "duckdb_databases",
        "duckdb_functions",
        "duckdb_indexes",
        "duckdb_keywords",
        "duckdb_schemas",
        "duckdb_sequences",
        "duckdb_settings",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "pragma_table_info",
        "pragma_storage_info",
        "pragma_version",
        "pg_timezone_names",
        "icu_calendar_names",
        "test_all_types",
    ]
)
"""Table functions that read the database or nothing; every other is taken for a file reader."""

WRITING_FUNCTIONS = frozenset({"nextval", "setval", "setseed", "write_log"})

READS = (
    exp.Query,
    exp.Values,
    exp.Describe,
    exp.Summarize,
    exp.Show,
    exp.Pivot,
    exp.Table,
    exp.Paren,
)
WRITES = (
    exp.DML,
    exp.DDL,
    exp.Drop,
    exp.Alter,
    exp.Copy,
    exp.Attach,
    exp.Detach,
    exp.Set,
    exp.Use,
    exp.Pragma,
    exp.Into,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Export,
    exp.Install,
    exp.TruncateTable,
    exp.Comment,
    exp.Kill,
    exp.Execute,
)

PATH = re.compile(
    r"[/\\*?]|://|\.(csv|tsv|txt|parquet|json|jsonl|ndjson|geojson|xlsx?|db|duckdb|sqlite3?|"
    r"avro|arrow|feather|orc|vortex|gz|zst|bz2|zip)$",
    re.IGNORECASE,
)
"""Table names that DuckDB would take for a file, if no table has that name."""

READ_ONLY = (
    "This connection only reads the task's database: write SELECT (or FROM, VALUES, DESCRIBE, "
    "SUMMARIZE, SHOW). Data is written by dbt models."
)


class Allowed(Record):
    """A statement that may run, unless one of its names turns out to be a file's."""

    sql: str
    """The statement without a trailing semicolon."""
    path_like: frozenset[str] = frozenset()
    """Tables that are to exist in the database, since their names read as paths."""
    unknown_functions: frozenset[str] = frozenset()
    """Table functions that are to be macros of the database."""


def judge(sql: str) -> Allowed:
    """Decide whether a statement may run.

    Raises:
        CallError: `refused` where the rules forbid it, `failed` where it does not parse.
    """
    if len(sql) > LONGEST:
        raise refused(
            f"the statement has {len(sql)} characters; the limit is {LONGEST}", "split it"
        )
    if "\x00" in sql:
        raise refused("the statement holds a NUL character")
    parsed = engine_parse(sql)
    _judge_by_engine(parsed)
    _judge_by_sqlglot(sql)
    return Allowed(
        sql=_without_semicolon(sql),
        path_like=frozenset(name for name in parsed.tables if PATH.search(name)),
        unknown_functions=parsed.table_functions - TABLE_FUNCTIONS - {""},
    )


def _judge_by_sqlglot(sql: str) -> None:
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="duckdb") if tree is not None]
    except (sqlglot.ParseError, sqlglot.TokenError, RecursionError):
        return
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if len(trees) > 1:
        raise refused(f"{len(trees)} statements in one call", "send one statement a call")
    for tree in trees:
        found = next((node for node in tree.walk() if isinstance(node, WRITES)), None)
        if found is not None:
            raise refused(f"{_verb(sql)}: {found.key.upper()} is not allowed", READ_ONLY)
        # A `Command` is what sqlglot could not parse.
        if not isinstance(tree, (*READS, exp.Command)):
            raise refused(f"{_verb(sql)} is not allowed", READ_ONLY)


def _judge_by_engine(parsed: EngineParse) -> None:
    if not parsed.kinds:
        if parsed.error:
            raise failed(f"DuckDB cannot parse the statement: {parsed.error}")
        raise failed("there is no statement", "send one SELECT statement")
    if parsed.kinds in (("MULTI",), ("CREATE", "SELECT")):
        raise refused(
            "a PIVOT without its values listed has to create a type",
            "list the values: PIVOT t ON c IN ('a', 'b') USING sum(x)",
        )
    if len(parsed.kinds) > 1:
        raise refused(f"{len(parsed.kinds)} statements in one call", "send one statement a call")
    if parsed.kinds != ("SELECT",):
        remedy = "use the tool explain_query" if parsed.kinds == ("EXPLAIN",) else READ_ONLY
        raise refused(f"{parsed.kinds[0]} statements are not allowed", remedy)
    if parsed.error:
        raise refused(f"this is no plain query for DuckDB: {parsed.error}", READ_ONLY)
    if writes := parsed.nodes - READING_NODES:
        raise refused(f"the query holds {', '.join(sorted(writes))}", READ_ONLY)
    if writes := parsed.functions & WRITING_FUNCTIONS:
        raise refused(f"the function {', '.join(sorted(writes))} is not allowed", READ_ONLY)


def _verb(sql: str) -> str:
    found = re.search(r"[A-Za-z]+", re.sub(r"/\*.*?\*/|--[^\n]*", " ", sql, flags=re.DOTALL))
    return found.group(0).upper() if found else "the statement"


def _without_semicolon(sql: str) -> str:
    """Drop the last semicolon and what follows it, which can only be comments."""
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb") if ";" in sql else []
    except sqlglot.TokenError:
        return sql.rstrip().rstrip(";")
    if tokens and tokens[-1].text == ";":
        return sql[: tokens[-1].start]
    return sql
