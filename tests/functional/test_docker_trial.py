"""A trial in a container gives what it gives in a child process, whatever the agent leaves."""

from __future__ import annotations

import json

import duckdb
import pytest

from stages.agent.models import TrialStatus
from tests.functional.conftest import Workspace
from tests.functional.docker_tools import AGENTS

pytestmark = pytest.mark.docker


def frozen(space: Workspace, name: str, query: str) -> list[tuple[object, ...]]:
    path = space.trial(name) / "frozen/views.duckdb"
    with duckdb.connect(path, read_only=True) as connection:
        rows: list[tuple[object, ...]] = connection.sql(query).fetchall()
        return rows


def test_a_trial_leaves_what_the_file_contract_says(sealed: Workspace) -> None:
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    result = sealed.result("one")
    assert result.status is TrialStatus.COMPLETED
    assert result.sealed
    assert result.gold_date.isoformat() == "2024-02-29"
    assert "sandbox image" in result.run_key_parts
    names = {path.name for path in sealed.trial("one").iterdir()}
    assert names == {
        "agent.log",
        "frozen",
        "project",
        "queries",
        "task_result.json",
        "trace.json",
    }
    snapshot = (sealed.trial("one") / "project" / "reference_snapshot.md").read_text()
    assert "main.a (2 rows)" in snapshot
    for name, day in (("one", "2024-02-29"), ("two", "2023-05-06")):
        assert str(frozen(sealed, name, "select today from clock")[0][0]) == day


def test_both_sandboxes_build_the_same_database_on_the_gold_date(sealed: Workspace) -> None:
    sealed.agent("tests.functional.agents.Builder")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    project = sealed.trial("one") / "project"
    told = (project / "dbt.txt").read_text()
    assert sealed.result("one").status is TrialStatus.COMPLETED, told
    query = "select * from seen order by all"
    in_containers = {name: frozen(sealed, name, query) for name in ("one", "two")}
    assert {str(row[1]) for row in in_containers["one"]} == {"2024-02-29"}
    sealed.params["sandbox"] = {
        "name": "process",
        "_target_": "stages.run.process.ProcessSandbox",
        "trial_s": 600,
        "freeze_s": 600,
        "environment": {},
    }
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    assert sealed.log("run") == {"one/0", "two/0"}
    assert not sealed.result("one").sealed
    for name, rows in in_containers.items():
        assert frozen(sealed, name, query) == rows


def test_dbt_stands_at_its_place_and_the_environment_is_scrubbed(
    sealed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-in-the-environment")
    sealed.params["tasks"] = ["one"]
    sealed.agent("tests.functional.agents.Builder")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    seen = (sealed.trial("one") / "project" / "environment.txt").read_text()
    assert "canary-in-the-environment" not in seen
    assert "\nPATH=/usr/local/bin:/opt/stack/bin:" in f"\n{seen}"
    assert "HOME=/trial/home" in seen.splitlines()
    assert str(sealed.root) not in seen


def test_a_broken_or_missing_database_is_a_result(sealed: Workspace) -> None:
    sealed.add("broken001")
    sealed.add("gone001")
    sealed.agent("tests.functional.agents.Vandal")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    for name, error in (("broken001", "not a valid DuckDB"), ("gone001", "does not exist")):
        assert sealed.result(name).status is TrialStatus.COMPLETED
        assert error in (sealed.trial(name) / "frozen" / "error.json").read_text()
    assert not (sealed.trial("gone001") / "project" / "gone001.duckdb").exists()


def test_what_the_agent_deleted_is_gone_and_what_it_left_does_no_harm(sealed: Workspace) -> None:
    sealed.params["tasks"] = ["one"]
    sealed.agent(f"{AGENTS}.Litterer")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    result = sealed.result("one")
    assert (result.status, result.attempts) == (TrialStatus.COMPLETED, 1), result.detail
    project = sealed.trial("one") / "project"
    assert not (project / "models" / "sources.yml").exists()
    assert (project / "models" / "seen.sql").is_file()
    for name in ("to_host", "to_parent", "around", "a_pipe", "b_pipe"):
        assert not (project / name).is_symlink()
        assert not (project / name).exists()
    assert (project / "harmless").read_text() == (project / "models" / "seen.sql").read_text()
    assert (project / "shut" / "file").read_text() == "in a shut folder"
    assert (project / "secret").read_text() == "unreadable"
    assert (project / "zz_last").read_text() == "comes after all that"
    assert not (project / ".git").exists()
    assert not (sealed.trial("one") / "home").exists()
    assert (sealed.trial("one") / "frozen" / "views.duckdb").is_file()


def test_the_known_solution_and_the_settings_do_not_stay(sealed: Workspace) -> None:
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    left = {path.name for path in sealed.trial("one").rglob("*")}
    assert not left & {"spec.json", "outcome.json", "solution", "home"}


def test_another_image_reruns_and_the_same_one_does_not(sealed: Workspace) -> None:
    sealed.params["tasks"] = ["one"]
    sealed.run()
    own = sealed.params["sandbox"]["image"]
    sealed.params["sandbox"]["image"] = None
    planned = sealed.run("stages.run.plan").stdout
    assert "changed: sandbox, sandbox image" in planned
    sealed.params["sandbox"]["image"] = own
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    assert sealed.log("reuse") == {"one/0"}


def test_an_agent_s_own_failure_of_infrastructure_keeps_its_reason(sealed: Workspace) -> None:
    """A start database that cannot be read ends the trial before the agent works."""
    sealed.params["tasks"] = ["one"]
    (sealed.root / "suite/examples/one/one.duckdb").write_bytes(b"no database at all")
    done = sealed.run()
    assert done.returncode == 1
    assert sealed.result("one").status is TrialStatus.INFRA_ERROR
    assert "not a valid DuckDB database" in sealed.result("one").detail
    assert sealed.stored() == []


def test_events_are_in_the_trace(sealed: Workspace) -> None:
    sealed.run()
    assert json.loads((sealed.trial("one") / "trace.json").read_text()) == []
