"""The gateway as an agent meets it: the MCP client over a real process, on both stacks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from stages.common.files import digest_file, write_text
from tests.functional.gateway_client import (
    DAY,
    REPOSITORY,
    STACKS,
    Client,
    Place,
    make_place,
    talk,
)

CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "dbt_project_map": ({}, r"2 complete, 1 stub, 3 missing"),
    "schema_overview": ({}, "customers (10 rows): id INTEGER, name VARCHAR"),
    "list_tables": ({}, "| my schema | order | table | 1 | 1 |"),
    "describe_table": ({"table_name": "ORDERS"}, "| 4 | ordered_on | DATE |"),
    "schema_ddl": ({"tables": "orders, my schema.order"}, "CREATE TABLE orders("),
    "schema_link": ({"question": "the amount of each order"}, "| orders | order_id, amount |"),
    "find_join_path": (
        {"left": "orders", "right": "customers"},
        "| orders.customer_id = customers.id | 10 of 12 | yes |",
    ),
    "explore_table": ({"table_name": "customers"}, "| note | VARCHAR | 4 | 1 | x\\|y | x\\|y |"),
    "explore_column": ({"table_name": "orders", "column": "Amount"}, "| mean | 74.25 |"),
    "get_date_boundaries": (
        {},
        "| orders | ordered_on | DATE | 2024-01-01 | 2024-03-10 | 70 | 0 |",
    ),
    "analyze_grain": (
        {"table_name": "orders", "columns": "customer_id"},
        "NOT UNIQUE, 8.33 rows per key",
    ),
    "compare_join_types": (
        {
            "left": "customers",
            "right": "orders",
            "left_columns": "id",
            "right_columns": "customer_id",
        },
        "FAN-OUT: a row of customers can meet 9 rows of orders",
    ),
    "query_database": ({"sql": 'FROM "select"; -- none'}, "(no rows)"),
    "validate_sql": (
        {"sql": "SELECT id, note FROM customers WHERE note = NULL"},
        "`note = NULL` is never true",
    ),
    "explain_query": ({"sql": "SELECT * FROM orders WHERE amount > 3"}, "orders"),
    "debug_cte_query": (
        {
            "sql": "WITH a AS (SELECT * FROM orders), b AS (SELECT * FROM a WHERE amount > 100) "
            "SELECT count(*) AS n FROM b -- end"
        },
        "| b | 33 |",
    ),
    "query_history": ({}, "| debug_cte_query |"),
    "generate_sql_skeleton": (
        {"model": "customer_totals"},
        "cast(null as varchar) as customer_name,  -- TODO The name, trimmed.",
    ),
    "check_model_schema": ({"model": "stg_orders"}, "| placed_at |  |  | MISSING |"),
    "validate_model_output": ({"model": "stg_orders"}, "gone is NULL in every row"),
    "audit_model_sources": ({"model": "stg_orders"}, "| source raw.orders |"),
    "dbt_error_parser": (
        {
            "output": "12:00:01  Database Error in model report (models/report.sql)\n"
            "12:00:01    Catalog Error: Table with name customer_totals does not exist!\n"
        },
        "customer_totals is not built yet",
    ),
}
"""Every tool, with arguments and a part of its answer."""


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


def test_every_tool_is_listed_with_its_schema_and_answers(place: Place, stack: str) -> None:
    before = digest_file(place.database)

    async def scene(client: Client) -> None:
        assert client.name == "shop"
        tools = {tool.name: tool for tool in (await client.session.list_tools()).tools}
        assert set(tools) == set(CALLS)
        for name, (arguments, part) in CALLS.items():
            tool = tools[name]
            assert tool.description and tool.description[0].isupper()
            assert set(arguments) <= set(tool.input_schema["properties"])
            assert set(tool.input_schema.get("required", [])) <= set(arguments)
            answered = await client.call(name, **arguments)
            assert not answered.error, (name, answered.text)
            assert part in answered.text, (name, answered.text)
            assert len(answered.text.encode()) < 25_000, name

    talk(place, stack, scene)
    assert [call["tool"] for call in place.calls()] == list(CALLS)
    assert digest_file(place.database) == before


def test_the_project_map_orders_the_work_and_warns(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        text = (await client.call("dbt_project_map")).text
        todo = text.split("TO DO")[1].split("WARNINGS")[0]
        assert "| customer_totals | missing | ? | report | 3 | no |" in todo
        assert "| orders_by_day | stub |" in todo and "| half | missing |" in todo
        assert "models/broken.yml: invalid YAML in line 3" in text
        assert "current_date: the clock is pinned" in text
        assert "row_number() ORDER BY ordered_on: unstable where values tie" in text

    talk(place, stack, scene)


def test_answers_keep_to_their_limits_and_say_what_they_cut(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        rows = await client.query("SELECT * FROM orders ORDER BY order_id")
        assert "CUT after 7 rows" in rows.text and "| 6 |" in rows.text and "| 7 |" not in rows.text
        fewer = await client.call("query_database", sql="FROM orders", rows=2)
        assert "CUT after 2 rows" in fewer.text
        wide = await client.query("SELECT repeat('é', 500) AS a, repeat('b', 5000) AS b")
        assert "2 values are shortened to 50 characters" in wide.text
        for name, (arguments, _) in CALLS.items():
            answered = await client.call(name, **arguments)
            assert len(answered.text.encode()) <= 1_500 + 600, name

    talk(place, stack, scene, rows=7, bytes=1_500, cell=50)


def test_odd_names_are_quoted_everywhere(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        for name in ("select", '"select"', "main.select", "my schema.order", "weekly/orders.csv"):
            for tool in ("describe_table", "explore_table", "analyze_grain"):
                answered = await client.call(tool, table_name=name)
                assert not answered.error, (tool, name, answered.text)
        column = await client.call("explore_column", table_name="select", column='a "b')
        assert not column.error, column.text
        for sql in (
            'SELECT week FROM "weekly/orders.csv"',
            "FROM twice(21)",
            "FROM shop.main.clock",
        ):
            answered = await client.query(sql)
            assert not answered.error, answered.text

    talk(place, stack, scene)


def test_a_name_that_does_not_exist_is_answered_with_the_nearest(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        for tool, arguments, near in (
            ("describe_table", {"table_name": "ordrs"}, "nearest: orders"),
            ("explore_column", {"table_name": "orders", "column": "amout"}, "nearest: amount"),
            ("query_database", {"sql": "FROM custmers"}, "nearest: customers"),
            ("check_model_schema", {"model": "customer_total"}, "nearest: customer_totals"),
            ("generate_sql_skeleton", {"model": "stg_order"}, "nearest: stg_orders"),
        ):
            answered = await client.call(tool, **arguments)
            assert answered.error and near in answered.text, answered.text
        missing = await client.call("validate_model_output", model="customer_totals")
        assert "not in the database (missing)" in missing.text

    talk(place, stack, scene)


def test_the_current_date_is_the_task_s(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        answered = await client.query(
            "SELECT current_date AS day, now()::DATE = today AS same FROM clock"
        )
        assert f"| {DAY} | true |" in answered.text

    talk(place, stack, scene)
    assert place.calls()[0]["time"].startswith(f"{DAY}T12:00:")


def test_a_missing_and_a_corrupt_database_are_answers(place: Place, stack: str) -> None:
    content = place.database.read_bytes()

    async def scene(client: Client) -> None:
        place.database.unlink()
        gone = await client.query("SELECT 1")
        assert gone.error and "there is no database shop.duckdb" in gone.text
        assert not place.database.exists()
        for broken in (b"", b"not a database\n" * 1000, content[:5000]):
            place.database.write_bytes(broken)
            answered = await client.call("schema_overview")
            # DuckDB takes an empty file for an empty database, in some versions.
            assert answered.error or not broken, answered.text
            assert (await client.call("dbt_project_map")).text.startswith("6 models")
        place.database.write_bytes(content)
        assert not (await client.query("FROM orders")).error

    talk(place, stack, scene)


def test_a_folder_without_a_project_is_taken(place: Place, stack: str) -> None:
    for path in place.project.rglob("*"):
        if path.suffix in (".yml", ".sql"):
            path.unlink()
    write_text(place.project / "dbt_project.yml", "a: b: c")

    async def scene(client: Client) -> None:
        answered = await client.call("dbt_project_map")
        assert "dbt_project.yml: invalid YAML" in answered.text and "0 models" in answered.text

    talk(place, stack, scene)


def test_the_log_has_one_line_a_call(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        await client.query("SELECT 1 AS a")
        await client.query("DROP TABLE orders")
        await client.query("FROM nowhere")
        await client.query("FROM range(1000)")
        await client.query("SELECT count(*) FROM range(9999999) a, range(9999999) b")
        await client.call("no_such_tool", x=1)
        await client.call("query_database", statement="SELECT 1")
        await client.call("explore_table", table_name="customers")

    talk(place, stack, scene, query_s=3)
    calls = place.calls()
    assert [call["outcome"] for call in calls] == [
        *("ok", "refused", "failed", "cut", "timeout", "failed", "failed", "ok")
    ]
    assert calls[0]["sql"] == "SELECT 1 AS a" and calls[0]["rows"] == 1
    assert calls[1]["error"].startswith("DROP statements are not allowed")
    assert calls[4]["ms"] >= 3000
    assert calls[5]["tool"] == "no_such_tool" and calls[5]["arguments"] == {"x": 1}
    assert 'FROM "main"."customers"' in calls[7]["sql"]
    assert set(calls[0]) == {
        *("time", "tool", "arguments", "sql", "rows", "ms", "outcome", "error")
    }


def test_a_worker_that_dies_is_replaced(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        await client.query("SELECT 1")
        asked = asyncio.create_task(
            client.query("SELECT count(*) FROM range(9999999) a, range(9999999) b")
        )
        await asyncio.sleep(1)
        server = next(
            process
            for process in psutil.Process().children(recursive=True)
            if str(place.database) in process.cmdline()
        )
        for child in server.children():
            if "multiprocessing.spawn" in " ".join(child.cmdline()):
                os.kill(child.pid, signal.SIGKILL)
        answered = await asked
        assert answered.error and "took the process" in answered.text
        assert "| 1 |" in (await client.query("SELECT 1 AS a")).text

    talk(place, stack, scene, query_s=30)


HOLD = (
    "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); "
    "print('held', flush=True); time.sleep(float(sys.argv[2]))"
)
WRITE = (
    "import duckdb, sys; c = duckdb.connect(sys.argv[1]); "
    "c.execute('INSERT INTO customers VALUES (99, ?, NULL)', [sys.argv[2]])"
)


@contextmanager
def writer(place: Place, stack: str, seconds: float) -> Iterator[None]:
    """Another process that has the database open for writing."""
    python = REPOSITORY / ".stacks" / stack / "bin" / "python"
    with subprocess.Popen(
        [python, "-c", HOLD, place.database, str(seconds)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.kill()


def test_a_query_waits_for_another_process_s_lock(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        await client.query("SELECT 1")
        with writer(place, stack, 2):
            started = time.monotonic()
            answered = await client.query("SELECT count(*) AS n FROM orders")
            assert time.monotonic() - started > 1
        assert not answered.error and "| 100 |" in answered.text
        assert "for another process's lock)" in answered.text.splitlines()[0]

    talk(place, stack, scene)


def test_a_lock_that_stays_is_told_after_the_limit(place: Place, stack: str) -> None:
    async def scene(client: Client) -> None:
        with writer(place, stack, 60):
            answered = await client.query("SELECT 1")
            assert answered.error and answered.text.startswith("locked: another process")

    talk(place, stack, scene, lock_s=1)
    assert place.calls()[0]["outcome"] == "locked"


@pytest.mark.parametrize(
    "turns", [10, pytest.param(200, marks=pytest.mark.heavy)], ids="{}_turns".format
)
def test_queries_and_writes_in_turn_never_meet_a_lock(place: Place, stack: str, turns: int) -> None:
    python = REPOSITORY / ".stacks" / stack / "bin" / "python"

    async def scene(client: Client) -> None:
        for turn in range(turns):
            answered = await client.query("SELECT count(*) AS n FROM customers")
            assert f"| {10 + turn} |" in answered.text
            assert "waited" not in answered.text
            done = await asyncio.to_thread(
                subprocess.run,
                [python, "-c", WRITE, place.database, f"turn {turn}"],
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr

    talk(place, stack, scene)
    assert len(place.calls()) == turns


def test_dbt_s_own_results_are_read(place: Place, stack: str) -> None:
    results = [
        {"unique_id": "model.shop.a", "status": "success", "message": "OK"},
        {
            "unique_id": "model.shop.b",
            "status": "error",
            "message": 'Runtime Error in model b\n  Binder Error: Referenced column "x" not found',
        },
    ]
    write_text(place.project / "target/run_results.json", json.dumps({"results": results}))

    async def scene(client: Client) -> None:
        text = (await client.call("dbt_error_parser")).text
        assert "1 errors in target/run_results.json" in text and "x is not a column there" in text
        write_text(place.project / "target/run_results.json", "{")
        assert "cannot be read" in (await client.call("dbt_error_parser")).text

    talk(place, stack, scene)
