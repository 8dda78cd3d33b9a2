"""Budgets on the real CLI: what a trial and a run may spend, and going on with more."""

from __future__ import annotations

from typing import Any

from stages.agent.models import TrialStatus
from tests.functional.conftest import Workspace

PRICES = {"claude": {"input": 10, "output": 10, "cache_read": 1, "cache_write": 10}}
PLAY = {"mode": "play", "prices": PRICES}
DOLLAR = {"input": 100_000, "output": 0}
"""What costs a dollar at these prices."""


def turns(number: int) -> list[dict[str, Any]]:
    """So many turns that cost a dollar each, the last of which ends the trial."""
    steps = [
        {
            "answer": [{"tool": "Bash", "input": {"command": f"echo {i}", "description": "Step"}}],
            "usage": DOLLAR,
        }
        for i in range(number - 1)
    ]
    return [*steps, {"answer": [{"text": "Done."}], "usage": DOLLAR}]


def budgets(workspace: Workspace, trial: float | None, run: float | None) -> None:
    workspace.params["budget"] = {"per_trial_usd": trial, "per_run_usd": run}


def test_a_trial_over_its_budget_is_scored_and_run_again_only_with_more(
    workspace: Workspace,
) -> None:
    workspace.claude(PLAY, verifier=False)
    workspace.record("one", *turns(5))
    workspace.record("two", *turns(1))
    budgets(workspace, 2.5, None)
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    result = workspace.result("one")
    assert result.status is TrialStatus.OVER_BUDGET
    assert result.detail == "the budget of this trial is spent"
    assert result.budget_usd == 2.5
    assert 2.5 <= result.cost_usd < 4
    assert (workspace.trial("one") / "frozen" / "views.json").is_file(), "what it left is scored"
    assert workspace.result("two").status is TrialStatus.COMPLETED

    workspace.run()
    assert workspace.log("reuse") == {"one/0", "two/0"}, "the same budget buys nothing new"

    budgets(workspace, 20.0, None)
    assert "a smaller budget had ended it" in workspace.run("stages.run.plan").stdout
    workspace.run()
    assert workspace.log("run") == {"one/0"}
    assert workspace.result("one").status is TrialStatus.COMPLETED
    assert workspace.result("one").budget_usd is None

    budgets(workspace, 2.5, None)
    workspace.run()
    assert workspace.log("reuse") == {"one/0", "two/0"}, "what was finished with more stays"


def test_a_spent_run_ends_what_is_running_and_starts_nothing_new(workspace: Workspace) -> None:
    workspace.add("three")
    workspace.claude(PLAY, verifier=False)
    for name in ("one", "two", "three"):
        workspace.record(name, *turns(3))
    workspace.params["concurrency"]["max_workers"] = 1
    budgets(workspace, None, 4.5)
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert "the run's budget is spent: 2 of 3 trials were not run" in done.stdout
    order = [workspace.result(name) for name in ("one", "three", "two")]
    assert [result.status for result in order] == [
        TrialStatus.COMPLETED,
        TrialStatus.NOT_RUN,
        TrialStatus.NOT_RUN,
    ]
    assert "in the middle of this trial" in order[1].detail
    assert order[1].cost_usd > 0
    assert order[2].cost_usd == 0, "it was never started"
    assert len(workspace.stored()) == 1

    budgets(workspace, None, 100.0)
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert workspace.log("reuse") == {"one/0"}
    assert workspace.log("run") == {"two/0", "three/0"}
