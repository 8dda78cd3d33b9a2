"""Every trial gets its verdict and its reason, whatever state it and the others are in."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import duckdb
import pytest

from stages.agent.models import Tokens
from stages.evaluate.apart import Apart, ProcessDiedError
from stages.evaluate.models import Reason, TaskVerdict, read_verdicts, write_verdicts
from stages.evaluate.trials import Scope, score_trials
from stages.run.models import POLICY, TaskResult, TrialStatus
from stages.suite.models import AuditEntry, Evaluation, Status

DAY = datetime.date(2024, 9, 8)


class Suite:
    """Tasks with gold and trials, in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.audit: dict[str, AuditEntry] = {}

    def task(self, name: str, *, status: Status = Status.SCOREABLE, detail: str = "") -> None:
        gold = self.root / "gold" / name / f"{name}.duckdb"
        fill(gold, 1)
        self.audit[name] = AuditEntry(
            instance_id=name,
            status=status,
            detail=detail,
            gold_database=gold,
            evaluation=Evaluation(
                instance_id=name,
                gold=gold.name,
                condition_tabs=("t",),
                condition_cols=None,
                ignore_orders=None,
            ),
        )

    def trial(
        self,
        name: str,
        number: int = 0,
        *,
        status: TrialStatus = TrialStatus.COMPLETED,
        detail: str = "",
        value: int | None = 1,
    ) -> Path:
        """A trial whose table `t` holds `value`; null leaves no database. Its folder."""
        folder = self.root / "runs" / name / str(number)
        if value is not None:
            fill(folder / "project" / "db" / "task.duckdb", value)
        result = TaskResult(
            instance_id=name,
            trial=number,
            agent="nop",
            model=None,
            status=status,
            detail=detail,
            run_key="0" * 64,
            run_key_parts={},
            gold_date=DAY,
            sealed=False,
            database="db/task.duckdb",
            turns=0,
            elapsed_s=1.0,
            attempts=1,
            cost_usd=0.0,
            tokens=Tokens(),
            versions={},
        )
        result.write(folder / "task_result.json")
        return folder

    def score(self, *tasks: str, trials: int = 1) -> dict[str, TaskVerdict]:
        scope = Scope(
            runs=self.root / "runs",
            audit=self.audit,
            tasks=tasks or sorted(self.audit),
            trials=trials,
            dates={},
            fallback=DAY,
            gold_stack="no-such-stack",
        )
        return {f"{item.instance_id}/{item.trial}": item for item in score_trials(scope)}


def fill(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT {value} AS a")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_each_trial_of_a_task_is_scored_by_itself(suite: Suite) -> None:
    suite.task("a001")
    suite.trial("a001", 0)
    suite.trial("a001", 1, value=2)
    suite.trial("a001", 10)
    found = suite.score(trials=2)
    assert {key: item.passed for key, item in found.items()} == {
        "a001/0": True,
        "a001/1": False,
        "a001/10": True,
    }


def test_a_task_in_any_bad_state_leaves_the_others_scored(suite: Suite) -> None:
    for name in ("a_good", "b_text", "c_none", "d_broken", "e_unread", "z_good"):
        suite.task(name)
    suite.trial("a_good")
    (suite.trial("b_text") / "project/db/task.duckdb").write_text("no database")
    suite.trial("c_none", value=None)
    (suite.trial("d_broken") / "task_result.json").write_text('{"instance_id": ')
    (suite.trial("e_unread") / "task_result.json").unlink()
    suite.trial("z_good")
    found = suite.score()
    assert {key: item.passed for key, item in found.items()} == {
        "a_good/0": True,
        "b_text/0": False,
        "c_none/0": False,
        "d_broken/0": None,
        "e_unread/0": None,
        "z_good/0": True,
    }
    assert "task.duckdb cannot be opened" in found["b_text/0"].reason
    assert found["c_none/0"].reason == "t: table missing: there is no database task.duckdb"
    assert "could not be scored: JSONDecodeError: " in found["d_broken/0"].reason
    assert "could not be scored: FileNotFoundError: " in found["e_unread/0"].reason


@pytest.mark.parametrize("status", [item for item in TrialStatus if POLICY[item].score])
def test_what_a_trial_left_is_scored_however_it_ended(suite: Suite, status: TrialStatus) -> None:
    suite.task("a001")
    suite.trial("a001", status=status)
    verdict = suite.score()["a001/0"]
    assert (verdict.status, verdict.passed) == (status, True)


@pytest.mark.parametrize("status", [TrialStatus.INFRA_ERROR, TrialStatus.NOT_RUN])
def test_what_says_nothing_of_the_agent_is_unscored_with_its_detail(
    suite: Suite, status: TrialStatus
) -> None:
    suite.task("a001")
    suite.trial("a001", status=status, detail="the disk is full")
    verdict = suite.score()["a001/0"]
    assert (verdict.passed, verdict.passed_officially) == (None, None)
    assert verdict.reason == f"the trial ended with {status}: the disk is full"
    assert [(item.table, item.reason) for item in verdict.tables] == [("t", Reason.NOT_SCORED)]


def test_a_task_that_the_audit_refuses_is_unscored_with_the_audits_detail(suite: Suite) -> None:
    suite.task("a001", status=Status.GOLD_EQUALS_START, detail="start already passes")
    suite.trial("a001")
    verdict = suite.score()["a001/0"]
    assert verdict.passed is None
    assert verdict.reason == "not scoreable (gold_equals_start): start already passes"


def test_a_misnamed_gold_is_scored_and_told(suite: Suite) -> None:
    suite.task("a001", status=Status.GOLD_MISNAMED)
    entry = suite.audit["a001"]
    assert entry.evaluation is not None
    named = entry.evaluation.model_copy(update={"gold": "other.duckdb"})
    suite.audit["a001"] = entry.model_copy(update={"evaluation": named})
    suite.trial("a001")
    verdict = suite.score()["a001/0"]
    assert (verdict.passed, verdict.passed_officially) == (True, False)
    assert verdict.resolutions == ("misnamed_gold",)


def test_trials_that_should_be_there_and_are_not_are_unscored(suite: Suite) -> None:
    suite.task("a001")
    suite.task("b001")
    suite.trial("a001", 0)
    found = suite.score("a001", trials=2)
    assert {key: item.reason for key, item in found.items()} == {
        "a001/0": "all 1 graded tables match",
        "a001/1": "not run",
    }
    assert found["a001/1"].status is None


def test_a_trial_of_an_unknown_task_is_unscored(suite: Suite) -> None:
    suite.task("a001")
    suite.trial("stray001")
    verdict = suite.score("a001")["stray001/0"]
    assert (verdict.passed, verdict.reason) == (None, "the suite's audit knows no such task")


def test_a_result_in_another_trials_folder_is_unscored(suite: Suite) -> None:
    suite.task("a001")
    folder = suite.trial("a001", 0)
    folder.rename(folder.with_name("3"))
    verdict = suite.score(trials=1)["a001/3"]
    assert (verdict.passed, verdict.reason) == (None, "its task_result.json is of a001, trial 0")


def test_folders_that_are_no_trial_are_passed_over(suite: Suite) -> None:
    suite.task("a001")
    suite.trial("a001", 0)
    for name in ("tmp", "01", ".0"):
        (suite.root / "runs" / "a001" / name).mkdir()
    assert list(suite.score()) == ["a001/0"]


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_to_gold_in_place_of_the_database_fails(suite: Suite, linked: str) -> None:
    suite.task("a001")
    folder = suite.trial("a001", value=None)
    gold = suite.audit["a001"].gold_database
    assert gold is not None
    place = folder / "project" / "db"
    if linked == "file":
        place.mkdir(parents=True)
        (place / "task.duckdb").symlink_to(gold)
    else:
        gold.rename(gold.with_name("task.duckdb"))
        place.parent.mkdir(parents=True)
        place.symlink_to(gold.parent)
    verdict = suite.score()["a001/0"]
    assert (verdict.passed, verdict.tables[0].reason) == (False, Reason.UNREADABLE)
    assert "a link that leads out of the trial's folder" in verdict.reason


def test_gold_with_views_but_no_stack_to_read_them_is_unscored_and_says_so(suite: Suite) -> None:
    suite.task("a001")
    suite.task("b001")
    gold = suite.audit["a001"].gold_database
    assert gold is not None
    with duckdb.connect(str(gold)) as connection:
        connection.execute("CREATE VIEW clock AS SELECT current_date AS today")
    suite.trial("a001")
    suite.trial("b001")
    found = suite.score()
    assert found["a001/0"].passed is None
    assert "stack 'no-such-stack' has no lock file" in found["a001/0"].reason
    assert found["b001/0"].passed is True


def test_unreadable_gold_is_unscored(suite: Suite) -> None:
    suite.task("a001")
    suite.trial("a001")
    gold = suite.audit["a001"].gold_database
    assert gold is not None
    gold.write_text("no database")
    verdict = suite.score()["a001/0"]
    assert verdict.passed is None
    assert "gold cannot be scored: a001.duckdb cannot be opened" in verdict.reason


def test_work_apart_survives_the_death_of_its_process() -> None:
    with Apart() as apart:
        with pytest.raises(ProcessDiedError, match="died"):
            apart.call(os.abort)
        assert apart.call(abs, -1) == 1
        with pytest.raises(ZeroDivisionError, match="division"):
            apart.call(divmod, 1, 0)


def test_verdicts_are_written_sorted_and_read_back(suite: Suite, tmp_path: Path) -> None:
    for name in ("b001", "a001"):
        suite.task(name)
        suite.trial(name, 0)
        suite.trial(name, 1, value=5)
    verdicts = list(suite.score(trials=2).values())
    path = tmp_path / "results" / "verdicts.json"
    write_verdicts(path, verdicts[::-1])
    assert read_verdicts(path) == verdicts
    assert [(item.instance_id, item.trial) for item in verdicts] == [
        ("a001", 0),
        ("a001", 1),
        ("b001", 0),
        ("b001", 1),
    ]
