"""The run stage on real sandboxes: reuse, failures, limits, interruption, the clock."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil
import pytest

from stages.agent.models import TrialStatus
from stages.run.process import MARK
from stages.stack.clock import faketime_library
from tests.functional.conftest import REPOSITORY, Workspace, wait_for

AGENTS = "tests.functional.agents"


def started_processes(workspace: Workspace) -> list[psutil.Process]:
    """Processes that a run of this workspace has started and that are still there."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            ours = environment.get("HOME", "").startswith(str(workspace.root))
            if ours and MARK in environment and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_a_trial_leaves_what_the_file_contract_says(workspace: Workspace) -> None:
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    result = workspace.result("one")
    assert result.status is TrialStatus.COMPLETED
    assert result.gold_date.isoformat() == "2024-02-29"
    assert not result.sealed
    assert result.versions["duckdb"].startswith("2.")
    names = {path.name for path in workspace.trial("one").iterdir()}
    assert names == {
        "agent.log",
        "frozen",
        "project",
        "queries",
        "task_result.json",
        "trace.json",
    }
    snapshot = (workspace.trial("one") / "project" / "reference_snapshot.md").read_text()
    assert "main.a (2 rows)" in snapshot
    assert "2024-02-29" in snapshot


def test_views_are_frozen_on_the_gold_date(workspace: Workspace) -> None:
    workspace.run()
    for name, day in (("one", "2024-02-29"), ("two", "2023-05-06")):
        with duckdb.connect(
            workspace.trial(name) / "frozen/views.duckdb", read_only=True
        ) as frozen:
            assert str(frozen.sql("select today from clock").fetchall()[0][0]) == day


def test_a_second_run_runs_nothing(workspace: Workspace) -> None:
    workspace.run()
    workspace.run()
    assert workspace.log("reuse") == {"one/0", "two/0"}
    assert workspace.log("run") == set()


@pytest.mark.parametrize("part", ["instruction", "model", "start data", "gold date"])
def test_what_changed_reruns_alone(workspace: Workspace, part: str) -> None:
    workspace.run()
    if part == "instruction":
        workspace.change("one", instruction="Do something else.")
    elif part == "model":
        with (workspace.root / "suite/examples/one/models/seen.sql").open("a") as file:
            file.write("\n-- another line")
    elif part == "start data":
        workspace.change("one", start_digest="other data")
    else:
        workspace.dates["one"] = "2024-03-01"
    planned = workspace.run("stages.run.plan").stdout
    workspace.run()
    assert workspace.log("run") == {"one/0"}
    assert workspace.log("reuse") == {"two/0"}
    named = {"model": "project", "start data": "start_database", "gold date": "gold_date"}
    assert f"changed: {named.get(part, part)}" in planned


def test_going_back_to_an_earlier_agent_reruns_nothing(workspace: Workspace) -> None:
    workspace.run()
    workspace.agent(f"{AGENTS}.Vandal")
    workspace.run()
    assert workspace.log("run") == {"one/0", "two/0"}
    workspace.agent("stages.agent.nop.NopAgent")
    workspace.run()
    assert workspace.log("reuse") == {"one/0", "two/0"}


def test_a_trial_lies_on_disk_once(workspace: Workspace) -> None:
    workspace.run()
    shown = workspace.trial("one") / "project" / "one.duckdb"
    stored = [folder / "project" / "one.duckdb" for folder in workspace.stored()]
    assert any(path.exists() and path.samefile(shown) for path in stored)


def test_a_broken_start_database_stops_its_own_task_alone(workspace: Workspace) -> None:
    database = workspace.root / "suite/examples/one/one.duckdb"
    whole = database.read_bytes()
    database.write_bytes(b"no database at all")
    done = workspace.run()
    assert done.returncode == 1
    assert "1 of 2 trials ended in an infrastructure failure" in done.stdout
    assert "dvc repro" in done.stdout
    assert workspace.result("one").status is TrialStatus.INFRA_ERROR
    assert workspace.result("one").attempts == 2
    assert "not a valid DuckDB database" in workspace.result("one").detail
    assert workspace.result("two").status is TrialStatus.COMPLETED
    assert len(workspace.stored()) == 1
    database.write_bytes(whole)
    assert workspace.run().returncode == 0
    assert workspace.log("run") == {"one/0"}


def test_an_agent_that_breaks_its_database_is_a_result(workspace: Workspace) -> None:
    workspace.add("broken001")
    workspace.add("gone001")
    workspace.agent(f"{AGENTS}.Vandal")
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    for name, error in (("broken001", "not a valid DuckDB"), ("gone001", "does not exist")):
        assert workspace.result(name).status is TrialStatus.COMPLETED
        assert error in (workspace.trial(name) / "frozen" / "error.json").read_text()


def test_a_process_killed_from_outside_is_tried_again(workspace: Workspace) -> None:
    del workspace.tasks["two"]
    workspace.agent(f"{AGENTS}.DiesOnce", mark=str(workspace.root / "died"))
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert workspace.result("one").status is TrialStatus.COMPLETED
    assert workspace.result("one").attempts == 2


def test_the_time_limit_ends_the_agent_and_all_it_started(workspace: Workspace) -> None:
    workspace.add("slow001")
    workspace.agent(f"{AGENTS}.Sleeper", seconds=300)
    workspace.params["sandbox"]["trial_s"] = 15
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert workspace.result("slow001").status is TrialStatus.TIMEOUT
    assert workspace.result("slow001").elapsed_s < 120
    assert workspace.result("one").status is TrialStatus.COMPLETED
    assert started_processes(workspace) == []
    assert (workspace.trial("slow001") / "frozen" / "views.duckdb").is_file()


def test_an_interruption_keeps_what_had_finished_and_stops_the_rest(workspace: Workspace) -> None:
    workspace.add("slow001")
    workspace.agent(f"{AGENTS}.Sleeper", seconds=300)
    process = workspace.start()
    wait_for(lambda: len(workspace.stored()) == 2, "two finished trials")
    wait_for(lambda: len(started_processes(workspace)) >= 2, "the slow agent and its child")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "2 of 3 trials are finished and kept" in output
    assert "dvc repro" in output
    assert started_processes(workspace) == []
    assert list((workspace.root / ".cache" / "work").glob("*")) == []


def test_after_a_kill_the_next_run_cleans_up_and_goes_on(workspace: Workspace) -> None:
    workspace.add("slow001")
    workspace.agent(f"{AGENTS}.Sleeper", seconds=300)
    process = workspace.start()
    wait_for(lambda: len(workspace.stored()) == 2, "two finished trials")
    wait_for(lambda: len(started_processes(workspace)) >= 2, "the slow agent and its child")
    process.kill()
    process.communicate()
    assert started_processes(workspace), "the killed run must have left something to clean up"
    workspace.tasks["quick001"] = workspace.tasks.pop("slow001").model_copy(
        update={"instance_id": "quick001"}
    )
    workspace.dates["quick001"] = workspace.dates.pop("slow001")
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert "1 killed run(s)" in done.stdout
    assert workspace.log("reuse") == {"one/0", "two/0"}
    assert workspace.log("run") == {"quick001/0"}
    assert started_processes(workspace) == []
    assert list((workspace.root / ".cache" / "work").glob("*")) == []


def test_dbt_obeys_the_gold_date_whatever_the_wall_clock_says(workspace: Workspace) -> None:
    """The whole sandbox lives in another year; dbt alone must not."""
    del workspace.tasks["two"]
    library = faketime_library(REPOSITORY / ".venv")
    workspace.agent(f"{AGENTS}.Builder")
    tables = {}
    for wall in ("2029-07-04", "2031-11-30"):
        workspace.params["sandbox"]["environment"] = {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"@{wall} 08:00:00",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        done = workspace.run()
        assert done.returncode == 0, done.stdout
        project = workspace.trial("one") / "project"
        assert workspace.result("one").status is TrialStatus.COMPLETED, (
            project / "dbt.txt"
        ).read_text()
        assert (project / "today.txt").read_text() == wall
        with duckdb.connect(
            workspace.trial("one") / "frozen/views.duckdb", read_only=True
        ) as frozen:
            tables[wall] = frozen.sql("select * from seen order by all").fetchall()
    assert tables["2029-07-04"] == tables["2031-11-30"]
    assert {str(row[1]) for row in tables["2031-11-30"]} == {"2024-02-29"}


def test_nothing_of_the_callers_environment_reaches_the_agent(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    del workspace.tasks["two"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-in-the-environment")
    workspace.agent(f"{AGENTS}.Builder")
    workspace.run()
    seen = (workspace.trial("one") / "project" / "environment.txt").read_text()
    assert "canary-in-the-environment" not in seen
    assert str(Path.home()) not in seen.splitlines()
    assert "DO_NOT_TRACK=1" in seen
    for path in workspace.trial("one").rglob("*"):
        if path.is_file():
            assert b"canary-in-the-environment" not in path.read_bytes(), path


def test_the_oracle_refuses_a_suite_without_solutions_before_anything_runs(
    workspace: Workspace,
) -> None:
    workspace.agent("stages.agent.oracle.OracleAgent")
    workspace.params["agent"]["needs_solution"] = True
    done = workspace.run()
    assert done.returncode == 1
    assert "has none for 2 of 2 tasks" in done.stdout
    assert "-S agent=nop" in done.stdout
    assert not (workspace.root / "results" / "runs").exists()


def test_an_unknown_task_is_answered_with_the_valid_ones(workspace: Workspace) -> None:
    workspace.params["tasks"] = ["ones"]
    done = workspace.run()
    assert done.returncode == 1
    assert "unknown task 'ones'" in done.stdout
    assert "did you mean one?" in done.stdout
    assert "valid: one, two" in done.stdout


def test_trials_are_separate_runs_of_the_same_task(workspace: Workspace) -> None:
    workspace.params["trials"] = 2
    workspace.params["tasks"] = ["one"]
    workspace.run()
    assert workspace.log("run") == {"one/0", "one/1"}
    assert workspace.result("one", 0).run_key != workspace.result("one", 1).run_key


def test_stored_trials_cannot_be_written_through_the_workspace(workspace: Workspace) -> None:
    workspace.run()
    shown = workspace.trial("one") / "task_result.json"
    assert not shown.stat().st_mode & 0o222
    assert os.access(shown, os.R_OK)


@pytest.fixture
def small_disk(workspace: Workspace) -> Iterator[Path]:
    """The workspace's cache on a file system of its own, of six megabytes."""
    cache = workspace.root / ".cache"
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(cache)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield cache
    finally:
        subprocess.run(["umount", "--lazy", str(cache)], check=True)


def test_a_full_disk_fails_no_agent_and_the_run_goes_on_when_there_is_room(
    workspace: Workspace, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))
            file.flush()
    done = workspace.run()
    assert done.returncode == 1, done.stdout
    assert "2 of 2 trials ended in an infrastructure failure" in done.stdout
    for name in ("one", "two"):
        assert workspace.result(name).status is TrialStatus.INFRA_ERROR
        assert "No space left on device" in workspace.result(name).detail
    assert workspace.stored() == []
    filler.unlink()
    done = workspace.run()
    assert done.returncode == 0, done.stdout
    assert workspace.log("run") == {"one/0", "two/0"}


def test_the_plan_estimates_from_earlier_trials_of_the_same_tasks(workspace: Workspace) -> None:
    planned = workspace.run("stages.run.plan").stdout
    assert "no estimate of cost and time" in planned
    workspace.run()
    workspace.change("one", instruction="Do something else.")
    workspace.add("three")
    planned = " ".join(workspace.run("stages.run.plan").stdout.split())
    assert "3 trials: 1 reused, 2 to run" in planned
    assert "estimated from earlier trials: $0.00, 0 min with 3 workers" in planned
    assert "1 of them have none, and count as average" in planned
