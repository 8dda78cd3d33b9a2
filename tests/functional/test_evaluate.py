"""The evaluate stage as DVC calls it, gold's views frozen by a real stack, and the real suite."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
import yaml

from stages.agent.models import Tokens
from stages.common.files import write_json, write_text
from stages.evaluate.gold import freeze_gold
from stages.evaluate.models import Reason, Resolution, read_verdicts
from stages.evaluate.score import evaluate_database, task_verdict
from stages.run.models import TaskResult, TrialStatus
from stages.stack.environments import ensure_stack, stack_lock
from stages.stack.host import freeze_views
from stages.suite.layout import read_evaluations
from stages.suite.models import AuditEntry, Evaluation, Status, write_audit

REPOSITORY = Path(__file__).resolve().parents[2]
DAY = datetime.date(2024, 9, 8)
STACK = "current"
AGE = "CREATE VIEW age AS SELECT datediff('day', born, current_date) AS days FROM people"
PEOPLE = "CREATE TABLE people AS SELECT DATE '2024-09-01' AS born"


def build(path: Path, *statements: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def config(name: str, *tables: str) -> Evaluation:
    return Evaluation(
        instance_id=name,
        gold=f"{name}.duckdb",
        condition_tabs=tables or None,
        condition_cols=None,
        ignore_orders=None,
    )


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace with a cache of its own, and the checkout's stacks."""
    (tmp_path / ".stacks").symlink_to(REPOSITORY / ".stacks")
    ensure_stack(STACK, stack_lock(STACK))
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    yield tmp_path


def test_golds_views_show_the_gold_date_and_are_frozen_once(root: Path) -> None:
    gold = build(root / "gold" / "a001.duckdb", PEOPLE, AGE)
    first = freeze_gold(gold, DAY, STACK)
    stamp = (first / "views.duckdb").stat().st_mtime_ns
    assert freeze_gold(gold, DAY, STACK) == first
    assert (first / "views.duckdb").stat().st_mtime_ns == stamp
    with duckdb.connect(str(first / "views.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT days FROM age").fetchall() == [(7,)]
    later = freeze_gold(gold, DAY + datetime.timedelta(days=1), STACK)
    assert later != first
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, later.name])


def test_a_broken_view_of_the_result_is_unreadable_with_its_error(root: Path) -> None:
    gold = build(root / "gold" / "a001.duckdb", "CREATE TABLE age AS SELECT 7 AS days")
    drop = "ALTER TABLE people RENAME born TO birthday"
    result = build(root / "result" / "a001.duckdb", PEOPLE, AGE, drop)
    freeze_views(ensure_stack(STACK, stack_lock(STACK)), result, root / "frozen", DAY)
    (verdict,) = evaluate_database(result, root / "frozen", gold, None, config("a001", "age"))
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)
    assert "view age cannot be read" in verdict.detail
    assert "born" in verdict.detail


def trial(root: Path, name: str, *statements: str) -> None:
    """A finished trial with its views frozen at the gold date."""
    folder = root / "results" / "runs" / name / "0"
    database = build(folder / "project" / f"{name}.duckdb", *statements)
    freeze_views(ensure_stack(STACK, stack_lock(STACK)), database, folder / "frozen", DAY)
    TaskResult(
        instance_id=name,
        trial=0,
        agent="oracle",
        model=None,
        status=TrialStatus.COMPLETED,
        run_key="0" * 64,
        run_key_parts={},
        gold_date=DAY,
        sealed=False,
        database=f"{name}.duckdb",
        turns=0,
        elapsed_s=1.0,
        attempts=1,
        cost_usd=0.0,
        tokens=Tokens(),
        versions={},
    ).write(folder / "task_result.json")


def evaluate(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stages.evaluate"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )


def test_the_stage_scores_views_of_gold_and_result_under_the_gold_date(root: Path) -> None:
    params = yaml.safe_load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    params["suite"]["gold_stack"] = STACK
    params["tasks"], params["trials"] = None, 1
    write_text(root / "params.yaml", yaml.safe_dump(params))
    entries = []
    for name in ("both001", "table001", "wrong001"):
        gold = build(root / "gold" / name / f"{name}.duckdb", PEOPLE, AGE)
        entries.append(
            AuditEntry(
                instance_id=name,
                status=Status.SCOREABLE,
                detail="",
                gold_database=gold.relative_to(root),
                evaluation=config(name, "age"),
            )
        )
    write_audit(root / "results" / "suite_audit.json", entries)
    write_json(
        root / "data" / "gold_build_dates.json",
        {entry.instance_id: DAY.isoformat() for entry in entries},
    )
    trial(root, "both001", PEOPLE, AGE)
    trial(root, "table001", "CREATE TABLE age AS SELECT 7 AS days")
    trial(root, "wrong001", "CREATE TABLE age AS SELECT 8 AS days")
    done = evaluate(root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "pass     both001/0: all 1 graded tables match",
        "pass     table001/0: all 1 graded tables match",
        "fail     wrong001/0: age: values differ: 1 of 1 graded columns found no match, first "
        "'days' (position 0): at row 1 gold has 7, the result's column of that name 8; "
        "gold has 1 rows, the result 1",
        "2 pass, 1 fail, 0 unscored",
    ]
    verdicts = read_verdicts(root / "results" / "verdicts.json")
    assert [item.passed for item in verdicts] == [True, True, False]
    assert [item.passed_officially for item in verdicts] == [True, True, False]


def test_the_stage_names_what_it_misses(root: Path) -> None:
    write_text(root / "params.yaml", (REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    done = evaluate(root)
    assert done.returncode == 1
    assert "no results/suite_audit.json" in done.stderr
    assert "run the suite stage" in done.stderr


@pytest.mark.spider2_data
def test_on_the_real_suite_gold_passes_itself_and_start_fails_it(spider2_shared: Path) -> None:
    folder = spider2_shared / "spider2"
    evaluations = read_evaluations(folder / "gold" / "spider2_eval.jsonl")
    misnamed = set()
    tasks = sorted(path.name for path in (folder / "gold").iterdir() if path.is_dir())
    assert len(tasks) == 34
    for name in tasks:
        evaluation = evaluations[name]
        gold = folder / "gold" / name / evaluation.gold
        if not gold.is_file():
            (gold,) = gold.parent.glob("*.duckdb")
            misnamed.add(name)
        (start,) = (folder / "start" / name).glob("*.duckdb")
        control = task_verdict(name, 0, None, evaluate_database(gold, None, gold, None, evaluation))
        assert control.passed is True, f"{name}: {control.reason}"
        marks = (Resolution.MISNAMED_GOLD,) if name in misnamed else ()
        assert control.resolutions == marks
        untouched = task_verdict(
            name, 0, None, evaluate_database(start, None, gold, None, evaluation)
        )
        assert untouched.passed is False, f"{name}: {untouched.reason}"
    assert misnamed == {"social_media001", "xero_new001", "xero_new002"}
