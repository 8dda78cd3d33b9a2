"""Nothing is left in the engine, however a run ends; and what is not ours is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from docker import APIClient

from stages.agent.models import TrialStatus
from stages.run.docker.labels import owner, runs
from tests.functional.conftest import REPOSITORY, Workspace, wait_for
from tests.functional.docker_tools import AGENTS, leave_behind, let_go, listed, relays, running
from tests.functional.test_claude import PLAY, say, turn

pytestmark = pytest.mark.docker

OTHER = "somebody-else-0"


@pytest.fixture
def busy(sealed: Workspace) -> Workspace:
    """A workspace with a task that ends by itself, two that wait, and a relay."""
    sealed.add("quick001")
    sealed.claude(PLAY)
    sealed.agent(f"{AGENTS}.Held", needs_model=True)
    for name in sealed.tasks:
        sealed.record(name, turn(say("Nobody asks.")))
    return sealed


@pytest.fixture
def others(client: APIClient, docker_images: str) -> str:
    """Somebody else's container and volume, and ones of no one's."""
    leave_behind(client, docker_images, "spider2-of-somebody-else", OTHER)
    client.create_volume("spider2-of-nobody")
    try:
        yield "spider2-of-somebody-else"
    finally:
        client.remove_container("spider2-of-somebody-else")
        client.remove_volume("spider2-of-somebody-else")
        client.remove_volume("spider2-of-nobody")


def at_work(client: APIClient) -> bool:
    return bool(running(client, "one-0-1") and running(client, "two-0-1") and relays(client))


def begin(space: Workspace, client: APIClient) -> subprocess.Popen[str]:
    """A run with one finished trial and two at work."""
    process = space.start()
    wait_for(lambda: len(space.stored()) == 1, "a finished trial")
    wait_for(lambda: at_work(client), "two trials at work, and the relay")
    return process


def finish(space: Workspace, client: APIClient) -> str:
    """The next run, whose waiting trials are let go; what it says."""
    killed = set(running(client))
    process = space.start()
    for name in ("one-0-1", "two-0-1"):
        wait_for(lambda n=name: set(running(client, n)) - killed, f"the container of {name}")
        let_go(client, (set(running(client, name)) - killed).pop())
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert space.log("reuse") == {"quick001/0"}
    assert space.log("run") == {"one/0", "two/0"}
    assert space.result("one").status is TrialStatus.COMPLETED
    return output


def test_a_normal_run_leaves_nothing(busy: Workspace, client: APIClient) -> None:
    before = listed(client)
    process = begin(busy, client)
    meanwhile = listed(client)
    assert len(meanwhile["containers"] - before["containers"]) >= 3
    assert len(meanwhile["volumes"] - before["volumes"]) >= 5
    for name in ("one-0-1", "two-0-1"):
        let_go(client, running(client, name)[0])
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert listed(client) == before


def test_ctrl_c_leaves_nothing_and_the_next_run_goes_on(busy: Workspace, client: APIClient) -> None:
    before = listed(client)
    process = begin(busy, client)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "1 of 3 trials are finished and kept" in output
    assert "dvc repro" in output
    assert "Traceback" not in output
    assert listed(client) == before
    assert list((busy.root / ".cache" / "work").glob("*")) == []
    finish(busy, client)
    assert listed(client) == before


def test_after_a_kill_the_next_run_cleans_up_and_goes_on(
    busy: Workspace, client: APIClient, others: str
) -> None:
    before = listed(client)
    process = begin(busy, client)
    process.kill()
    process.communicate()
    assert len(listed(client)["containers"] - before["containers"]) >= 2
    assert len(runs()) == 1
    assert "1 killed run(s)" in finish(busy, client)
    assert listed(client) == before
    assert client.inspect_container(others)["Config"]["Labels"]["spider2.owner"] == OTHER
    assert client.inspect_volume(others)["Labels"]["spider2.owner"] == OTHER


def test_the_relay_ends_with_the_run_that_was_killed(busy: Workspace, client: APIClient) -> None:
    process = begin(busy, client)
    process.kill()
    process.communicate()
    wait_for(lambda: not relays(client), "the end of the relay's container")
    assert busy.run("stages.run.docker.labels").returncode == 0


def test_cleaning_by_hand_removes_what_is_ours_alone(
    busy: Workspace, client: APIClient, others: str
) -> None:
    before = listed(client)
    process = begin(busy, client)
    process.kill()
    process.communicate()
    wait_for(lambda: not relays(client), "the end of the relay's container")
    done = busy.run("stages.run.docker.labels")
    assert done.returncode == 0, done.stdout
    assert "removed " in done.stdout
    assert listed(client) == before
    assert client.inspect_container(others)
    assert client.inspect_volume("spider2-of-nobody")
    again = busy.run("stages.run.docker.labels")
    assert "removed 0 " in again.stdout


def test_a_run_at_work_is_left_alone_by_the_next_one(busy: Workspace, client: APIClient) -> None:
    process = begin(busy, client)
    busy.params["tasks"] = ["quick001"]
    done = busy.run()
    assert done.returncode == 0, done.stdout
    assert at_work(client)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)


def test_two_checkouts_and_two_users_are_two_owners(
    sealed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = owner()
    monkeypatch.setenv("DVC_ROOT", str(sealed.root.parent))
    assert owner() != mine
    monkeypatch.setenv("DVC_ROOT", str(sealed.root))
    monkeypatch.setenv("LOGNAME", "another")
    assert owner() != mine


def test_the_labels_say_whose_a_container_is(busy: Workspace, client: APIClient) -> None:
    process = begin(busy, client)
    found = client.inspect_container(running(client, "one-0-1")[0])["Config"]["Labels"]
    assert found["spider2.owner"] == owner()
    assert found["spider2.run"] in {path.name for path in (busy.root / ".cache/work").glob("*/")}
    assert found["spider2.trial"] == "one-0-1"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)


def test_the_module_needs_no_other_stage_to_clean_up(sealed: Workspace) -> None:
    command = [sys.executable, "-m", "stages.run.docker.labels"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        command, cwd=sealed.root, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
