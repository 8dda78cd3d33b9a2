"""Statements that a gateway must refuse, or cut short."""

from __future__ import annotations

from typing import NamedTuple


class Hostile(NamedTuple):
    """One statement, how it has to end, and what the answer says."""

    sql: str
    outcome: str = "refused"
    says: str = ""


WRITES = [
    "INSERT INTO orders VALUES (1, 1, 1, DATE '2024-01-01')",
    "INSERT OR REPLACE INTO orders SELECT * FROM orders",
    "INSERT INTO orders BY NAME SELECT 1 AS order_id RETURNING *",
    "UPDATE orders SET amount = 0",
    "DELETE FROM orders",
    "DELETE FROM orders RETURNING *",
    "TRUNCATE orders",
    "MERGE INTO orders USING customers ON orders.customer_id = customers.id "
    "WHEN MATCHED THEN DELETE",
    "SELECT * INTO copy_of_orders FROM orders",
    "SELECT nextval('some_sequence')",
    "SELECT setseed(0.5)",
]

DEFINITIONS = [
    "CREATE TABLE t (a INTEGER)",
    "CREATE TABLE t AS SELECT 1 AS a",
    "CREATE OR REPLACE TABLE orders AS SELECT 1 AS a",
    "CREATE TEMP TABLE t AS SELECT 1 AS a",
    "CREATE VIEW v AS SELECT 1 AS a",
    "CREATE SCHEMA s",
    "CREATE SEQUENCE s",
    "CREATE TYPE mood AS ENUM ('a')",
    "CREATE INDEX i ON orders (order_id)",
    "CREATE MACRO m() AS 1",
    "CREATE TEMP MACRO m() AS TABLE FROM read_csv('/etc/passwd')",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "DROP TABLE orders",
    "DROP SCHEMA main CASCADE",
    "ALTER TABLE orders RENAME TO others",
    "ALTER TABLE orders ADD COLUMN a INTEGER",
    "COMMENT ON TABLE orders IS 'x'",
]

ENVIRONMENT = [
    "ATTACH 'other.duckdb' AS other",
    "ATTACH ':memory:' AS other",
    "ATTACH IF NOT EXISTS 'other.duckdb' (READ_ONLY)",
    "DETACH shop",
    "USE memory",
    "COPY orders TO 'orders.csv'",
    "COPY (SELECT 1) TO 'one.parquet' (FORMAT parquet)",
    "COPY orders FROM 'orders.csv'",
    "COPY FROM DATABASE shop TO memory",
    "EXPORT DATABASE 'folder'",
    "IMPORT DATABASE 'folder'",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM community",
    "LOAD httpfs",
    "LOAD 'some/extension.duckdb_extension'",
    "UPDATE EXTENSIONS",
    "SET enable_external_access = true",
    "SET GLOBAL memory_limit = '100GB'",
    "SET VARIABLE a = 1",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "PRAGMA table_info('orders')",
    "PRAGMA enable_profiling = 'json'",
    "PRAGMA memory_limit = '100GB'",
    "CALL pragma_version()",
    "CALL checkpoint()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "VACUUM ANALYZE orders",
    "ANALYZE",
    "BEGIN TRANSACTION",
    "COMMIT",
    "ROLLBACK",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "EXPLAIN ANALYZE INSERT INTO orders SELECT * FROM orders",
    "EXPLAIN ANALYZE SELECT 1",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('orders')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
]

READERS = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_parquet('x.parquet')",
    "SELECT * FROM parquet_scan('x.parquet')",
    "SELECT * FROM parquet_metadata('x.parquet')",
    "SELECT * FROM read_json('x.json')",
    "SELECT * FROM read_ndjson_objects('x.json')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "FROM glob('*')",
    "SELECT (SELECT content FROM read_text('/etc/passwd')) AS secret",
    "WITH a AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM a",
    "SELECT 1 WHERE EXISTS (FROM read_text('dbt_project.yml'))",
    "SELECT * FROM orders, LATERAL (SELECT * FROM read_text('dbt_project.yml'))",
    "SELECT * FROM 'dbt_project.csv'",
    "SELECT * FROM '/etc/passwd'",
    'SELECT * FROM "data/orders.parquet"',
    "FROM 'https://example.com/x.parquet'",
    "FROM 's3://bucket/*.parquet'",
    "SELECT * FROM '../other.duckdb'",
    "SELECT * FROM orders JOIN 'x.json' USING (order_id)",
    "SELECT count(*) FROM (FROM 'x.csv' UNION ALL FROM 'y.csv')",
    "SUMMARIZE SELECT * FROM 'x.csv'",
    "DESCRIBE SELECT * FROM read_csv('/etc/passwd')",
]

TRICKS = [
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE orders",
    "SELECT 1;;; DROP TABLE orders;",
    "/* SELECT 1 */ DROP TABLE orders",
    "-- SELECT 1\nDROP TABLE orders",
    "SELECT 1 -- \n; DELETE FROM orders",
    "dRoP/**/tAbLe/**/orders",
    "\tDrOp\n\nTABLE\r\norders",
    "\u00a0DROP TABLE orders",
    "\u2003DELETE\u2003FROM\u2003orders",
    "SELECT * FROM READ_csv('/etc/passwd')",
    "SELECT * FROM \"read_csv\"('/etc/passwd')",
    "SELECT * FROM main.read_csv('/etc/passwd')",
    "SELECT * FROM system.main.read_text('/etc/passwd')",
    "SELECT * FROM read_text/* hidden */ ('/etc/passwd')",
    "SELECT * FROM orders WHERE 1 = 1; ATTACH 'x' AS y; --",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "WITH more AS (INSERT INTO orders SELECT * FROM orders RETURNING *) SELECT * FROM more",
    "SELECT ';'; SELECT $$;$$",
    "PIVOT orders ON customer_id USING sum(amount)",
    "SELECT 1\x00; DROP TABLE orders",
]

BROKEN = [
    "",
    "   ",
    ";",
    "-- nothing",
    "/* nothing",
    "SELEC 1",
    "SELECT",
    "SELECT 'open",
    'SELECT "open',
    "SELECT (1",
    "SELECT $$open",
    "SELECT * FROM nowhere",
    "SELECT nothing FROM orders",
    "SELECT no_such_function(1)",
    "SELECT sum(note) FROM customers",
    "SELECT 1 + DATE",
    "SELECT CAST('x' AS INTEGER)",
    "SELECT * FROM orders GROUP BY customer_id",
    "ＳＥＬＥＣＴ 1",
    "DROP TABLE оrders сascade; сascade",
    "EXEC xp_cmdshell 'ls'",
    "{{ ref('orders') }}",
    "select * from {{ source('raw', 'orders') }}",
    "SELECT " + "abs(" * 5_000 + "1" + ")" * 5_000,
    "SELECT " + " + ".join(["1"] * 20_000),
]

LONG = "SELECT '" + "x" * 200_000 + "'"

COSTLY = [
    Hostile(
        "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(1000) c "
        "WHERE a.range + b.range + c.range = -1",
        "timeout",
        "time limit|by force",
    ),
    Hostile(
        "SELECT a.order_id FROM orders a, orders b, orders c, orders d, orders e, orders f "
        "ORDER BY random()",
        "(timeout|failed)",
        "time limit|memory",
    ),
    Hostile(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
        "(timeout|failed)",
        "time limit|memory|by force",
    ),
    Hostile("SELECT list(range) FROM range(3000000000)", "(timeout|failed)", "memory|time limit"),
    Hostile(
        "SELECT string_agg(repeat('x', 1000000), '') FROM range(100000)",
        "(timeout|failed)",
        "memory|time limit|taken|took|large|limit",
    ),
    Hostile(
        "SELECT a.range, count(DISTINCT b.range) FROM range(100000) a, range(100000) b "
        "GROUP BY ALL",
        "(timeout|failed)",
        "memory|time limit",
    ),
    Hostile("SELECT length(repeat('x', 40000000000))", "(timeout|failed)", ""),
    Hostile("SELECT range(20000000000)", "(timeout|failed)", ""),
]
"""A join without end, a recursion without end, and memory bombs."""

CUT = [
    Hostile("SELECT range AS n FROM range(10000000)", "cut", "CUT after 100 rows"),
    Hostile("SELECT * FROM range(1000000000000)", "cut", "CUT after"),
    Hostile("SELECT repeat('x', 1000000) AS wide FROM range(50)", "cut", "shortened to"),
    Hostile("SELECT * FROM orders a, orders b, orders c", "cut", "CUT after"),
]
"""Large results, of which the beginning is shown."""

NOT_ALLOWED = "not allowed|statements in one call|the query holds|no plain query"
HOSTILE: list[Hostile] = [
    *(Hostile(sql, "(refused|failed)", f"{NOT_ALLOWED}|cannot parse") for sql in WRITES),
    *(Hostile(sql, "(refused|failed)", f"{NOT_ALLOWED}|cannot parse") for sql in DEFINITIONS),
    *(Hostile(sql, "(refused|failed)", f"{NOT_ALLOWED}|cannot parse") for sql in ENVIRONMENT),
    *(Hostile(sql, "refused", "reading files is not allowed|table function") for sql in READERS),
    *(
        Hostile(sql, "(refused|failed)", f"{NOT_ALLOWED}|cannot parse|PIVOT|NUL character")
        for sql in TRICKS
    ),
    *(
        Hostile(sql, "failed", "Error|there is no statement|cannot parse|does not exist")
        for sql in BROKEN
    ),
    Hostile(LONG, "refused", "characters"),
    *COSTLY,
    *CUT,
]
