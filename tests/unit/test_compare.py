"""Two runs side by side: flips with their causes, the sentence, and when it fails a build."""

from __future__ import annotations

import pytest

from stages.report.compare.compare import compare
from stages.report.models import RunSummary, TaskOutcome, TrialOutcome
from stages.run.models import TrialStatus
from stages.suite.models import Status


def trial(passed: bool | None, *, number: int = 0, cost: float = 1.0) -> TrialOutcome:
    return TrialOutcome(
        trial=number,
        status=TrialStatus.COMPLETED,
        passed=passed,
        passed_officially=passed,
        causes=() if passed else ("row_count",),
        cost_usd=cost,
        elapsed_s=10.0,
    )


def run(label: str, outcomes: dict[str, list[bool | None]], *, cost: float = 1.0) -> RunSummary:
    tasks = [
        TaskOutcome(
            instance_id=name,
            audit=Status.SCOREABLE,
            trials=tuple(trial(value, number=i, cost=cost) for i, value in enumerate(values)),
        )
        for name, values in outcomes.items()
    ]
    return RunSummary(
        label=label,
        suite="starter",
        agent="claude",
        model=label,
        params={"trials": "1"},
        tasks=tuple(tasks),
    )


def many(passed: int, failed: int) -> dict[str, list[bool | None]]:
    values = [True] * passed + [False] * failed
    return {f"task{i:03}": [value] for i, value in enumerate(values)}


def test_flips_name_the_causes_of_both_sides() -> None:
    found = compare(
        run("old", {"a": [True], "b": [False], "c": [True]}),
        run("new", {"a": [False], "b": [True], "c": [True]}),
    )
    assert [(flip.instance_id, flip.passed_in_b) for flip in found.flips] == [
        ("a", False),
        ("b", True),
    ]
    assert found.flips[0].causes_b == ("row_count",)
    assert found.flips[1].causes_a == ("row_count",)
    assert found.settings == {"model": ("old", "new")}


def test_a_clear_difference_is_called_better_and_the_reverse_worse() -> None:
    weak, strong = run("weak", many(0, 12)), run("strong", many(8, 4))
    found = compare(weak, strong)
    assert found.significant
    assert found.sentence().startswith("strong is better than weak: 8 gained, 0 lost of 12 tasks")
    assert "weak is worse than strong" in compare(strong, weak).sentence()


def test_a_small_difference_is_no_evidence_and_says_what_would_be_needed() -> None:
    found = compare(run("old", many(9, 6)), run("new", many(11, 4)))
    assert not found.significant
    assert found.sentence().startswith("No evidence of a difference between old and new: 2 gained")
    assert found.needed is not None
    assert f"about {found.needed} such tasks" in found.sentence()


def test_only_tasks_that_both_scored_are_paired() -> None:
    found = compare(
        run("old", {"a": [True], "b": [True], "gone": [True]}),
        run("new", {"a": [True], "b": [None], "fresh": [False]}),
    )
    assert found.tasks == 1
    assert found.only_in_a == ("b", "gone")
    assert found.only_in_b == ("fresh",)


def test_a_task_passes_where_all_its_trials_do_and_shares_count_beside() -> None:
    found = compare(
        run("old", {"a": [True, True, False], "b": [True, True, True]}),
        run("new", {"a": [True, True, True], "b": [True, True, True]}),
    )
    assert [(flip.trials_a, flip.trials_b) for flip in found.flips] == [("2/3", "3/3")]
    assert found.trial_rate is not None
    assert found.trial_rate.mean == pytest.approx(1 / 6)


def test_cost_is_compared_task_by_task() -> None:
    found = compare(run("old", many(5, 5), cost=1.0), run("new", many(5, 5), cost=1.5))
    assert found.cost_usd is not None
    assert found.cost_usd.mean == pytest.approx(0.5)
    assert found.cost_usd.apart_from_zero


def test_runs_with_nothing_in_common_say_so() -> None:
    found = compare(run("old", {"a": [True]}), run("new", {"b": [True]}))
    assert found.sentence() == "new and old have no scored task in common."
