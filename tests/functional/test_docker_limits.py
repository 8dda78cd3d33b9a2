"""What a container may take: time, memory, processes, disk; and what is said when it is cut."""

from __future__ import annotations

import errno
import json

import pytest
from docker import APIClient

from stages.agent.models import TrialStatus
from tests.functional.conftest import Workspace, wait_for
from tests.functional.docker_tools import AGENTS, let_go, listed, running

pytestmark = pytest.mark.docker


def one_task(space: Workspace, name: str) -> None:
    space.tasks.clear()
    space.dates.clear()
    space.add(name)


def test_the_time_limit_ends_the_agent_and_all_it_started(
    sealed: Workspace, client: APIClient
) -> None:
    sealed.add("quick001")
    sealed.params["tasks"] = ["one", "quick001"]
    sealed.params["sandbox"]["trial_s"] = 20
    sealed.agent(f"{AGENTS}.Held")
    before = listed(client)
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    assert sealed.result("one").status is TrialStatus.TIMEOUT
    assert sealed.result("one").detail == "not done after 20 s"
    assert sealed.result("one").attempts == 1
    assert sealed.result("quick001").status is TrialStatus.COMPLETED
    assert (sealed.trial("one") / "frozen" / "views.duckdb").is_file()
    assert listed(client) == before


def test_an_agent_out_of_memory_is_named(sealed: Workspace, client: APIClient) -> None:
    sealed.add("child001")
    sealed.params["tasks"] = ["one", "child001"]
    sealed.params["sandbox"]["memory_gb"] = 0.3
    sealed.agent(f"{AGENTS}.Hog")
    before = listed(client)
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    said = "out of memory: the sandbox's limit is 0.3 GB"
    itself, child = sealed.result("one"), sealed.result("child001")
    assert (itself.status, itself.detail, itself.attempts) == (TrialStatus.AGENT_ERROR, said, 1)
    assert (sealed.trial("one") / "project" / "mark.txt").is_file()
    assert (sealed.trial("one") / "frozen" / "views.duckdb").is_file()
    assert (child.status, child.detail) == (TrialStatus.COMPLETED, said)
    assert (sealed.trial("child001") / "project" / "code.txt").read_text() == "-9"
    assert listed(client) == before


def test_processes_are_bounded(sealed: Workspace) -> None:
    one_task(sealed, "one")
    sealed.params["sandbox"]["processes"] = 60
    sealed.agent(f"{AGENTS}.ForkBomb")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    assert sealed.result("one").status is TrialStatus.COMPLETED
    children = int((sealed.trial("one") / "project" / "children.txt").read_text())
    assert 10 < children < 60


def test_the_kernel_refuses_a_file_beyond_the_disk_limit(sealed: Workspace) -> None:
    one_task(sealed, "big001")
    sealed.params["sandbox"]["disk_gb"] = 0.05
    sealed.agent(f"{AGENTS}.Filler")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    assert sealed.result("big001").status is TrialStatus.COMPLETED
    told = json.loads((sealed.trial("big001") / "project" / "told.json").read_text())
    assert told == {"errno": errno.EFBIG, "size": 50_000_000}


@pytest.mark.parametrize(("name", "every_s"), [("many001", 0.5), ("sparse001", 3000)])
def test_an_agent_that_fills_its_disk_is_ended_and_named(
    sealed: Workspace, name: str, every_s: float
) -> None:
    """Be it with files in a shut folder, or with holes that only who collects would fill."""
    one_task(sealed, name)
    sealed.params["sandbox"].update(disk_gb=0.05, disk_check_s=every_s)
    sealed.agent(f"{AGENTS}.Filler")
    done = sealed.run()
    assert done.returncode == 0, done.stdout
    result = sealed.result(name)
    assert result.status is TrialStatus.AGENT_ERROR
    assert result.detail == "out of disk: the sandbox's limit is 0.05 GB"
    assert result.attempts == 1
    size = sum(path.stat().st_size for path in sealed.trial(name).rglob("*") if path.is_file())
    assert size <= 50_000_000


def test_a_container_killed_from_outside_is_tried_again(
    sealed: Workspace, client: APIClient
) -> None:
    one_task(sealed, "one")
    sealed.agent(f"{AGENTS}.Held")
    process = sealed.start()
    wait_for(lambda: running(client, "one-0-1"), "the first attempt")
    client.kill(running(client, "one-0-1")[0])
    wait_for(lambda: running(client, "one-0-2"), "the second attempt")
    let_go(client, running(client, "one-0-2")[0])
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert sealed.result("one").status is TrialStatus.COMPLETED
    assert sealed.result("one").attempts == 2


def test_killed_from_outside_each_time_is_told_as_such(
    sealed: Workspace, client: APIClient
) -> None:
    one_task(sealed, "one")
    sealed.params["retries"]["count"] = 0
    sealed.agent(f"{AGENTS}.Held")
    process = sealed.start()
    wait_for(lambda: running(client, "one-0-1"), "the trial's container")
    client.kill(running(client, "one-0-1")[0])
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1, output
    assert sealed.result("one").status is TrialStatus.INFRA_ERROR
    assert "from outside" in sealed.result("one").detail
    assert sealed.stored() == []
