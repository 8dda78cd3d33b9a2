"""The comparison as a program, against the recorded verdicts and on unreadable input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stages.common.files import read_json, write_json

PROGRAM = [sys.executable, "-m", "stages.evaluate.official"]


def judged(repository: Path, gold: Path, result: Path, cases: Path) -> list[dict[str, Any]]:
    """The lines that the program prints."""
    done = subprocess.run(
        [*PROGRAM, "--gold", str(gold), "--result", str(result), "--cases", str(cases)],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spider2_data
def test_every_recorded_verdict_of_the_official_evaluator_is_met(
    repository: Path, spider2_shared: Path
) -> None:
    folder = spider2_shared / "parity"
    recorded = read_json(folder / "cases.json")
    found = judged(
        repository, folder / "gold.duckdb", folder / "result.duckdb", folder / "cases.json"
    )
    assert len(recorded) == 499
    assert [(line["table"], line["official"]) for line in found] == [
        (case["table"], case["official"]) for case in recorded
    ]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    names = ["t", "order", "gone", "zoned_time", "t"]
    path = tmp_path / "cases.json"
    write_json(path, [{"table": name, "condition_cols": [], "note": "extra"} for name in names])
    return path


def database(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


TABLES = (
    "CREATE TABLE t AS SELECT 1 AS a",
    'CREATE TABLE "order" AS SELECT 1 AS a',
    "CREATE TABLE zoned_time AS SELECT '10:00:00+01'::TIMETZ AS a",
)


def test_what_gold_lacks_or_cannot_give_is_an_error_and_the_order_is_kept(
    repository: Path, tmp_path: Path, cases: Path
) -> None:
    gold = database(tmp_path / "gold.duckdb", *TABLES)
    found = judged(repository, gold, gold, cases)
    assert [line["official"] for line in found] == [1, "error", "error", "error", 1]
    assert 'syntax error at or near "order"' in found[1]["reason"]


def test_what_the_result_lacks_or_cannot_give_is_no_match(
    repository: Path, tmp_path: Path, cases: Path
) -> None:
    plain = "CREATE TABLE zoned_time AS SELECT 1 AS a", "CREATE TABLE gone AS SELECT 1 AS a"
    gold = database(tmp_path / "gold.duckdb", TABLES[0], *plain)
    result = database(tmp_path / "result.duckdb", *TABLES)
    assert [line["official"] for line in judged(repository, gold, result, cases)] == [
        1,
        "error",
        0,
        0,
        1,
    ]


def test_a_result_that_is_no_database_matches_nothing_and_such_a_gold_is_an_error(
    repository: Path, tmp_path: Path, cases: Path
) -> None:
    gold = database(tmp_path / "gold.duckdb", "CREATE TABLE t AS SELECT 1 AS a")
    text = tmp_path / "text.duckdb"
    text.write_text("a,b\n1,2\n" * 1000)
    assert judged(repository, gold, text, cases)[0]["official"] == 0
    assert {line["official"] for line in judged(repository, text, gold, cases)} == {"error"}


def test_cases_that_do_not_fit_are_refused_in_one_sentence(
    repository: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cases.json"
    path.write_text('[{"condition_cols": []}]')
    done = subprocess.run(
        [*PROGRAM, "--gold", "g", "--result", "r", "--cases", str(path)],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "the cases cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
