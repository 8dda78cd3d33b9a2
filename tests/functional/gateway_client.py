"""The official MCP client over a real gateway process, for tests."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from mcp import ClientSession, StdioServerParameters, stdio_client

from stages.common.files import write_text
from stages.stack.clock import clock_environment

REPOSITORY = Path(__file__).resolve().parents[2]
STACKS = ("current", "spider2")
DAY = datetime.date(2024, 2, 29)


@dataclass(frozen=True)
class Answered:
    """What the client received."""

    text: str
    error: bool


@dataclass(frozen=True)
class Place:
    """A task's folder: database, project and log."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "project" / "shop.duckdb"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def log(self) -> Path:
        return self.root / "queries" / "queries.jsonl"

    def calls(self) -> list[dict[str, Any]]:
        """The lines of the query log."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


class Client:
    """Calls tools of one gateway."""

    def __init__(self, session: ClientSession, name: str) -> None:
        self.session = session
        self.name = name

    async def call(self, tool: str, **arguments: Any) -> Answered:
        """Call a tool."""
        result = await self.session.call_tool(tool, arguments)
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        return Answered(text, bool(result.is_error))

    async def query(self, sql: str) -> Answered:
        """Call query_database."""
        return await self.call("query_database", sql=sql)


@asynccontextmanager
async def gateway(place: Place, stack: str, **limits: float) -> AsyncIterator[Client]:
    """Start a gateway under a stack's Python, at the tests' day."""
    prefix = REPOSITORY / ".stacks" / stack
    options = [
        text
        for name, value in limits.items()
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]
    parameters = StdioServerParameters(
        command=str(prefix / "bin" / "python"),
        args=[
            *("-m", "stages.gateway", "--database", str(place.database)),
            *("--project", str(place.project), "--log", str(place.log), *options),
        ],
        env={
            **clock_environment(prefix, DAY),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONSAFEPATH": "1",
            "HOME": str(place.root),
        },
        cwd=place.project,
    )
    with Path(os.devnull).open("w") as sink:
        async with (
            stdio_client(parameters, errlog=sink) as streams,
            ClientSession(*streams) as session,
        ):
            hello = await session.initialize()
            yield Client(session, hello.server_info.name)


def talk(
    place: Place, stack: str, scene: Callable[[Client], Awaitable[None]], **limits: float
) -> None:
    """Run a conversation with a fresh gateway."""

    async def run() -> None:
        async with gateway(place, stack, **limits) as client:
            await scene(client)

    asyncio.run(run())


PROJECT = {
    "dbt_project.yml": "name: shop\nprofile: shop\nmodel-paths: [models]\n",
    "models/staging/sources.yml": """
version: 2
sources:
  - name: raw
    schema: main
    tables:
      - name: customers
      - name: orders
""",
    "models/staging/stg_orders.sql": """
select order_id, customer_id, amount, ordered_on,
       row_number() over (partition by customer_id order by ordered_on) as nth
from {{ source('raw', 'orders') }}
where ordered_on <= current_date
""",
    "models/marts/orders_by_day.sql": """
{{ config(materialized='table') }}
-- TODO: one row a day
""",
    "models/marts/report.sql": "select * from {{ ref('customer_totals') }}\n",
    "models/marts/marts.yml": """
version: 2
models:
  - name: customer_totals
    description: One row a customer.
    columns:
      - name: customer_id
        data_type: integer
        tests: [unique, not_null]
      - name: customer_name
        description: The name, trimmed.
      - name: total
  - name: customer_ranks
    columns: [{name: customer_id}, {name: rank_no}]
  - name: orders_by_day
    columns: [{name: ordered_on}, {name: orders}]
  - name: stg_orders
    columns:
      - name: order_id
        tests: [unique]
      - name: customer_id
      - name: amount
        data_type: double
      - name: placed_at
""",
    "models/broken.yml": "models:\n  - name: half\n    description: a: b: c\n    columns:\n"
    "      - name: whole\n",
}
"""A project with two models described and missing, one stub, and one YAML file that is none."""


def make_place(root: Path) -> Place:
    """A small shop: its database in a format that both stacks read, and its dbt project."""
    place = Place(root)
    for name, text in PROJECT.items():
        write_text(place.project / name, text)
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{place.database}' AS shop (STORAGE_VERSION 'v1.0.0')")
        connection.execute("USE shop")
        connection.execute(
            "CREATE TABLE customers AS SELECT range::INTEGER AS id, 'Customer ' || range AS name, "
            "CASE WHEN range % 3 = 0 THEN NULL ELSE 'x|y' END AS note FROM range(10)"
        )
        connection.execute(
            "CREATE TABLE orders AS SELECT range::INTEGER AS order_id, "
            "(range % 12)::INTEGER AS customer_id, (range * 1.5)::DOUBLE AS amount, "
            "DATE '2024-01-01' + (range % 70)::INTEGER AS ordered_on FROM range(100)"
        )
        connection.execute(
            "CREATE TABLE stg_orders AS SELECT *, 1 AS nth, NULL::INTEGER AS gone FROM orders"
        )
        connection.execute('CREATE TABLE "select" ("from" INTEGER, "a ""b" VARCHAR)')
        connection.execute('CREATE SCHEMA "my schema"')
        connection.execute('CREATE TABLE "my schema"."order" AS SELECT 7 AS "group"')
        connection.execute('CREATE TABLE "weekly/orders.csv" AS SELECT 1 AS week')
        connection.execute("CREATE VIEW clock AS SELECT current_date AS today")
        connection.execute("CREATE MACRO twice(n) AS TABLE SELECT n * 2 AS doubled")
    return place
