"""What the report counts, and what it says beside a score."""

from __future__ import annotations

import datetime
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from stages.common.compose import compose
from stages.common.params import Params, load_params
from stages.evaluate.models import Reason, Resolution, TableVerdict, TaskVerdict
from stages.report.console import print_scores
from stages.report.scores import Scores, make_scores
from stages.run.models import TaskResult, Tokens, TrialStatus
from stages.suite.models import AuditEntry, Status


def entry(name: str, status: Status = Status.SCOREABLE, detail: str = "") -> AuditEntry:
    return AuditEntry(
        instance_id=name, status=status, detail=detail, gold_database=None, evaluation=None
    )


def result(name: str, trial: int = 0, status: TrialStatus = TrialStatus.COMPLETED) -> TaskResult:
    return TaskResult(
        instance_id=name,
        trial=trial,
        agent="oracle",
        model=None,
        status=status,
        run_key="k",
        run_key_parts={},
        gold_date=datetime.date(2024, 1, 1),
        sealed=False,
        database="x.duckdb",
        turns=1,
        elapsed_s=2.5,
        attempts=1,
        cost_usd=0.25,
        tokens=Tokens(input=10, output=3),
        versions={},
    )


def verdict(
    name: str, passed: bool | None, trial: int = 0, *resolutions: Resolution
) -> TaskVerdict:
    table = TableVerdict(
        table="t",
        official=passed,
        reason=Reason.MATCHED if passed else Reason.VALUES_DIFFER,
        detail="",
        resolutions=resolutions,
    )
    return TaskVerdict(
        instance_id=name,
        trial=trial,
        status=TrialStatus.COMPLETED,
        passed=passed,
        passed_officially=passed and not resolutions,
        resolutions=resolutions,
        tables=(table,),
        reason="all match" if passed else "t: values differ",
    )


def scores(selected: tuple[str, ...] | None = None) -> Scores:
    """Five tasks: passed, failed, passed through a resolution, not scoreable, broken machine."""
    audit = [
        entry("a"),
        entry("b"),
        entry("c", Status.GOLD_MISNAMED),
        entry("d", Status.NO_GOLD, "no gold folder"),
        entry("e"),
    ]
    results = [result("a"), result("b"), result("c"), result("e", 0, TrialStatus.INFRA_ERROR)]
    unscored = verdict("e", None).model_copy(update={"tables": (), "reason": "infra_error"})
    verdicts = [
        verdict("a", True),
        verdict("b", False),
        verdict("c", True, 0, Resolution.MISNAMED_GOLD),
        unscored,
    ]
    keyed = {(item.instance_id, item.trial): item for item in results}
    return make_scores(audit, verdicts, keyed, selected)


def chosen(*overrides: str) -> Params:
    """The parameters that conf/ composes to."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "params.yaml"
        compose(path, list(overrides))
        return load_params(path)


def test_the_headline_states_both_denominators_and_the_sealed_trials() -> None:
    assert scores().headline() == (
        "passed 2/4 (50.0%) scoreable, 2/5 (40.0%) all tasks; "
        "95 % interval 15.0% to 85.0% of scoreable; "
        "1 of them only through a resolution (*); 0 of 4 trials sealed"
    )


def test_a_subset_is_its_own_denominator() -> None:
    assert "1/2 (50.0%) scoreable, 1/2 (50.0%) all tasks" in scores(("a", "b")).headline()


def test_metrics_are_numbers_and_tell_official_passes_apart() -> None:
    metrics = scores().metrics()
    assert metrics["tasks"] == {
        "all": 5,
        "scoreable": 4,
        "not_run": 1,
        "flaky": 0,
        "passed": 2,
        "passed_officially": 1,
        "passed_strictly": 0,
        "passed_of_scoreable": 0.5,
        "passed_of_all": 0.4,
    }
    assert metrics["errors"]["infra_error"] == 1
    assert metrics["cost"]["usd"] == 1.0
    assert metrics["cost"]["tokens_input"] == 40
    flat = [value for group in metrics.values() for value in group.values()]
    assert all(isinstance(value, int | float) for value in flat)


def test_unscored_tasks_are_neither_passed_nor_failed() -> None:
    assert scores().by_task() == {
        "a": {"passed": True},
        "b": {"passed": False},
        "c": {"passed": True},
    }


@pytest.mark.parametrize(("second", "expected"), [(True, True), (False, False)])
def test_a_task_passes_when_all_its_trials_do(second: bool, expected: bool) -> None:
    found = make_scores(
        [entry("a")],
        [verdict("a", True, 0), verdict("a", second, 1)],
        {("a", 0): result("a", 0), ("a", 1): result("a", 1)},
        None,
    )
    assert found.tasks[0].passed is expected
    assert found.tasks[0].tables == 2


def test_the_table_says_why_and_marks_what_passes_only_through_a_resolution() -> None:
    buffer = io.StringIO()
    console = Console(file=buffer, width=140)
    print_scores(console, scores(), chosen("agent=oracle"))
    lines = {line.split()[1]: line for line in buffer.getvalue().splitlines() if "│" in line}
    assert "passed" in lines["a"]
    assert "t: values differ" in lines["b"]
    assert "passed*" in lines["c"]
    assert "passes only through misnamed_gold" in lines["c"]
    assert "unscored" in lines["d"]
    assert "no_gold: no gold folder" in lines["d"]
    assert "infra_error" in lines["e"]
    assert "its score shows that the pipeline works" in buffer.getvalue()


def test_a_replayed_score_says_what_it_means() -> None:
    buffer = io.StringIO()
    print_scores(Console(file=buffer, width=140), scores(), chosen())
    assert "model replay" in buffer.getvalue()
    assert "says nothing of a model" in buffer.getvalue()


def strictly(passed: bool, disagreement: str | None) -> TaskVerdict:
    """The verdict on task a, which passes officially."""
    found = verdict("a", True)
    table = found.tables[0].model_copy(update={"strict": passed, "disagreement": disagreement})
    return found.model_copy(update={"passed_strictly": passed, "tables": (table,)})


def test_the_strict_score_stands_beside_the_headline_and_never_in_it() -> None:
    found = make_scores(
        [entry("a")], [strictly(False, "[rows] differ")], {("a", 0): result("a")}, None
    )
    assert found.headline().startswith("passed 1/1 (100.0%) scoreable")
    metrics = found.metrics()
    assert metrics["tasks"]["passed"] == 1
    assert metrics["tasks"]["passed_strictly"] == 0
    assert metrics["tables"] == {"graded": 1, "passed": 1, "strict": 0, "strict_disagreeing": 1}
    buffer = io.StringIO()
    print_scores(Console(file=buffer, width=140), found, chosen("agent=oracle"))
    lines = buffer.getvalue().splitlines()
    line = "strict score: 0/1 (0.0%) scoreable; it differs from the official verdict on 1 table"
    assert line in lines
    assert "  a/0 t: [rows] differ" in lines


def test_where_the_two_scores_agree_no_table_is_listed() -> None:
    found = make_scores([entry("a")], [strictly(True, None)], {("a", 0): result("a")}, None)
    assert found.disagreements == ()
    assert found.metrics()["tasks"]["passed_strictly"] == 1
    assert found.strict_line().endswith("on 0 tables")


def test_a_task_of_which_some_trials_pass_is_flaky_and_pass_at_k_is_told_for_every_k() -> None:
    outcomes = {"a": [True, False, True], "b": [False, False, False]}
    verdicts = [
        verdict(name, passed, trial)
        for name, values in outcomes.items()
        for trial, passed in enumerate(values)
    ]
    results = {(name, trial): result(name, trial) for name in outcomes for trial in range(3)}
    found = make_scores([entry("a"), entry("b")], verdicts, results, None)
    assert "flaky: a; " in found.headline()
    metrics = found.metrics()
    assert metrics["tasks"]["flaky"] == 1
    assert metrics["pass_at"] == {"1": 0.3333, "2": 0.5, "3": 0.5}
    assert metrics["pass_all"] == {"1": 0.3333, "2": 0.1667, "3": 0.0}
    buffer = io.StringIO()
    print_scores(Console(file=buffer, width=140), found, chosen())
    assert "failed 2/3" in buffer.getvalue()


def test_a_task_whose_budget_was_spent_before_it_counts_as_not_run() -> None:
    left = result("a", 0, TrialStatus.NOT_RUN)
    unscored = verdict("a", None).model_copy(update={"tables": (), "reason": "not_run"})
    metrics = make_scores([entry("a")], [unscored], {("a", 0): left}, None).metrics()
    assert metrics["tasks"]["not_run"] == 1
    assert metrics["errors"]["not_run"] == 1
