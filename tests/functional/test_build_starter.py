"""The bundled suite, built: graded tables are there, unsolved at the start, alike on each stack.

The repository's own cache is used, so that what a run has built is not built again.
"""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path

import duckdb
import pytest

from stages.common.params import SuiteParams
from stages.suite.build import build_databases
from stages.suite.models import Evaluation
from stages.suite.sources import BuildSources, read_sources

Rows = list[tuple[object, ...]]
RESOLVED = {"fct_line_punctuality": "fact_line_punctuality"}
"""What tram001's evaluation config says, and what gold has."""


class Starter:
    """The suite as built with one stack."""

    def __init__(self, suite: SuiteParams) -> None:
        self.suite = suite
        build_databases(suite)
        lines = (suite.gold / "spider2_eval.jsonl").read_text().splitlines()
        self.evaluations = [
            Evaluation.model_validate({"instance_id": line["instance_id"]} | parameters)
            for line in map(json.loads, lines)
            for parameters in [line["evaluation"]["parameters"]]
        ]

    def sources(self, task: str) -> BuildSources:
        return read_sources(self.suite.root / "sources" / task)

    def gold(self, task: str) -> Path:
        return self.suite.built / "gold" / task / self.sources(task).gold_name

    def start(self, task: str) -> Path:
        return self.suite.built / "start" / task / self.sources(task).database


def _build(repository: Path, built: Path, stack: str) -> Starter:
    return Starter(
        SuiteParams(
            name="starter",
            root=repository / "data" / "starter",
            built=built,
            sources=True,
            gold_stack=stack,
        )
    )


@pytest.fixture(scope="module")
def starter(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Starter:
    return _build(repository, tmp_path_factory.mktemp("current"), "current")


def _read(path: Path, table: str) -> tuple[list[str], Rows] | None:
    """Column names and sorted rows of a table in the default schema, or None without it."""
    # Without this setting, the absent table "table" would be the variable of that name.
    config: dict[str, str | bool | int | float | list[str]] = {"python_enable_replacements": False}
    with duckdb.connect(str(path), read_only=True, config=config) as connection:
        try:
            cursor = connection.execute(f'select * from main."{table}" order by all')
        except duckdb.CatalogException:
            return None
        return [item[0] for item in cursor.description or []], cursor.fetchall()


def _alike(one: Rows, two: Rows) -> bool:
    return len(one) == len(two) and all(
        len(left) == len(right) and all(map(_same, left, right))
        for left, right in zip(one, two, strict=True)
    )


def _same(one: object, two: object) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, abs_tol=1e-6)
    return one == two


def test_gold_holds_every_graded_table_with_the_graded_columns(starter: Starter) -> None:
    for evaluation in starter.evaluations:
        task = evaluation.instance_id
        assert evaluation.condition_tabs is not None and evaluation.condition_cols is not None
        for table, columns in zip(
            evaluation.condition_tabs, evaluation.condition_cols, strict=True
        ):
            found = _read(starter.gold(task), RESOLVED.get(table, table))
            assert found is not None, (task, table)
            assert found[1], (task, table)
            assert all(0 <= column < len(found[0]) for column in columns), (task, table)


def test_the_start_database_solves_no_task(starter: Starter) -> None:
    for evaluation in starter.evaluations:
        task = evaluation.instance_id
        tables = [RESOLVED.get(table, table) for table in evaluation.condition_tabs or ()]
        pairs = [(_read(starter.start(task), t), _read(starter.gold(task), t)) for t in tables]
        assert any(start != gold for start, gold in pairs), task


def test_the_hazards_are_what_the_readme_says(starter: Starter) -> None:
    stale = _read(starter.start("beehive001"), "hive_daily_activity")
    assert stale is not None and len(stale[1]) > 100
    kept = _read(starter.start("meter001"), "daily_usage")
    grown = _read(starter.gold("meter001"), "daily_usage")
    assert kept is not None and grown is not None and set(kept[1]) < set(grown[1])
    bakery = next(item for item in starter.evaluations if item.instance_id == "bakery001")
    assert starter.gold("bakery001").name != bakery.gold
    assert (starter.suite.built / "start" / "courier001" / "tariffs.duckdb").is_file()
    with duckdb.connect(str(starter.gold("museum001")), read_only=True) as connection:
        views = connection.execute(
            "select view_name from duckdb_views() where not internal"
        ).fetchall()
    assert views == [("loans_out",)]


@pytest.mark.parametrize(
    ("task", "query"),
    [
        ("harbor001", "select max(day) from berth_daily_occupancy"),
        ("harbor001", "select distinct last_left_on + days_since_last_vessel::int from dim_berth"),
        ("beehive001", "select max(day) + 1 from hive_daily_activity"),
        (
            "beehive001",
            "select distinct last_inspected_on + days_since_inspection::int from fct_hive_status",
        ),
        ("allotment001", "select last_day(max(month)) from lease_monthly_balance"),
        ("allotment001", "select last_day(max(month)) from rent_calendar"),
        (
            "shelter001",
            "select distinct intake_on + days_since_intake::int from fct_animal_care",
        ),
        (
            "clinic001",
            "select distinct last_visit_on + days_since_last_visit::int from fct_patient_recall "
            "where last_visit_on is not null",
        ),
        ("museum001", "select distinct lent_on + days_since_lent::int from fct_loan"),
    ],
)
def test_gold_that_changes_with_the_day_shows_its_build_date(
    starter: Starter, task: str, query: str
) -> None:
    with duckdb.connect(str(starter.gold(task)), read_only=True) as connection:
        days: list[tuple[datetime.date]] = connection.execute(query).fetchall()
    assert days == [(starter.sources(task).build_date,)]


@pytest.mark.heavy
def test_every_stack_builds_the_same_values(
    starter: Starter, repository: Path, tmp_path: Path
) -> None:
    other = _build(repository, tmp_path / "spider2", "spider2")
    for evaluation in starter.evaluations:
        task = evaluation.instance_id
        for name in evaluation.condition_tabs or ():
            table = RESOLVED.get(name, name)
            one, two = _read(starter.gold(task), table), _read(other.gold(task), table)
            assert one is not None and two is not None
            assert one[0] == two[0], (task, table)
            assert _alike(one[1], two[1]), (task, table)
