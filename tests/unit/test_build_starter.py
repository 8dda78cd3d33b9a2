"""The bundled suite is whole: every task has all its parts, and no database is checked in."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from stages.suite.sources import read_sources

FALLBACK = datetime.date(2024, 9, 8)
PARTS = ("examples", "solutions", "sources")


@pytest.fixture(scope="module")
def starter(repository: Path) -> Path:
    return repository / "data" / "starter"


def _lines(path: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = {line["instance_id"]: line for line in lines}
    assert len(found) == len(lines), "an instance id stands twice"
    return found


def _tasks(starter: Path) -> list[str]:
    return sorted(_lines(starter / "examples" / "spider2-dbt.jsonl"))


def test_every_task_has_all_its_parts(starter: Path) -> None:
    tasks = _tasks(starter)
    assert len(tasks) >= 12
    for part in PARTS:
        assert sorted(path.name for path in (starter / part).iterdir() if path.is_dir()) == tasks
    assert sorted(_lines(starter / "evaluation_suite" / "gold" / "spider2_eval.jsonl")) == tasks
    for task in tasks:
        assert any((starter / "solutions" / task).rglob("*.sql")), task


def test_every_graded_table_has_its_columns_and_order_declared(starter: Path) -> None:
    for task, line in _lines(starter / "evaluation_suite" / "gold" / "spider2_eval.jsonl").items():
        assert line["evaluation"]["func"] == "duckdb_match"
        given = line["evaluation"]["parameters"]
        counts = {len(given[key]) for key in ("condition_tabs", "condition_cols", "ignore_orders")}
        assert len(counts) == 1, task


def test_a_solution_only_adds_files(starter: Path) -> None:
    for task in _tasks(starter):
        folder = starter / "solutions" / task
        given = [
            path
            for path in folder.rglob("*")
            if path.is_file() and (starter / "examples" / task / path.relative_to(folder)).exists()
        ]
        assert given == [], "the agent is given the answer"


def test_every_missing_model_is_described_with_its_columns(starter: Path) -> None:
    for task in _tasks(starter):
        described: dict[str, Any] = {}
        for path in (starter / "examples" / task / "models").rglob("*.yml"):
            for model in yaml.safe_load(path.read_text()).get("models", []):
                described[model["name"]] = model
        for path in (starter / "solutions" / task).rglob("*.sql"):
            assert described[path.stem]["description"], (task, path.stem)
            assert len(described[path.stem]["columns"]) >= 3, (task, path.stem)


def test_the_build_dates_differ_from_each_other_and_from_the_fallback(starter: Path) -> None:
    days = [read_sources(starter / "sources" / task).build_date for task in _tasks(starter)]
    assert len(set(days)) == len(days)
    assert FALLBACK not in days
    assert datetime.date(2024, 2, 29) in days


def test_no_database_and_nothing_that_dbt_leaves_is_checked_in(starter: Path) -> None:
    kinds = {path.suffix for path in starter.rglob("*") if path.is_file()}
    assert kinds <= {".csv", ".jsonl", ".md", ".sql", ".yaml", ".yml"}
    assert sum(path.stat().st_size for path in starter.rglob("*") if path.is_file()) < 500_000
