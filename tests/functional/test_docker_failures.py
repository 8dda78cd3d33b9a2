"""What keeps sealed trials from starting is told in one sentence with the remedy, before any."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest
from docker import APIClient

from stages.run.docker.image import RECIPE, RELAY
from tests.functional.conftest import REPOSITORY, Workspace
from tests.functional.docker_tools import build_image

pytestmark = pytest.mark.docker


def assert_refused(space: Workspace, *said: str) -> None:
    """The stage ends with a sentence and a remedy, and has started nothing."""
    done = space.run()
    assert done.returncode == 1, done.stdout
    for text in (*said, "remedy:"):
        assert text in done.stdout, done.stdout
    assert "Traceback" not in done.stdout
    assert not (space.root / "results" / "runs").exists()
    assert space.stored() == []


def test_no_engine(sealed: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{sealed.root}/none.sock")
    assert_refused(
        sealed, "there is no Docker engine", "none.sock", "systemctl start docker", "DOCKER_HOST"
    )


def test_an_engine_elsewhere_that_does_not_answer(
    sealed: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
    assert_refused(sealed, "there is no Docker engine", f"tcp://127.0.0.1:{port}")


def test_an_engine_that_may_not_be_used(tmp_path: Path) -> None:
    """As a user who is in no group, on a socket that is there."""
    place = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        place.chmod(0)
        program = """
            import os
            from docker import APIClient
            from stages.common.errors import main
            from stages.run.docker.engine import engine
            if os.getuid() == 0:
                os.setgroups([])
                os.setegid(65534)
                os.seteuid(65534)
            main(lambda: engine() and None)
        """
        environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{place}",
            "PYTHONPATH": str(REPOSITORY),
        }
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1
    assert "you may not use the Docker engine" in done.stderr
    assert "usermod -aG docker" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_image(sealed: Workspace) -> None:
    sealed.params["sandbox"]["image"] = "no-such-image"
    assert_refused(sealed, "there is no image no-such-image", "make image STACK=current")


@pytest.fixture
def outdated(client: APIClient, docker_images: str) -> str:
    """An image whose label says that it was built from other code."""
    name = f"spider2-dbt-agent:outdated-{uuid.uuid4().hex[:8]}"
    build_image(client, docker_images, name, label=f"{RECIPE}=another")
    try:
        yield name
    finally:
        client.remove_image(name)


def test_an_image_older_than_the_code(sealed: Workspace, outdated: str) -> None:
    sealed.params["sandbox"]["image"] = outdated
    assert_refused(
        sealed, f"the image {outdated} is older than the code", "make image STACK=current"
    )


def test_an_image_that_is_no_work_of_ours(sealed: Workspace) -> None:
    """The relay's own, for example: it bears another label."""
    sealed.params["sandbox"]["image"] = RELAY
    assert_refused(sealed, f"the image {RELAY}", "older than the code")


def test_no_room_on_the_engine_s_disk(sealed: Workspace) -> None:
    sealed.params["sandbox"]["least_free_gb"] = 1_000_000
    assert_refused(sealed, "GB left, and a trial needs 1e+06", "make clean-docker")


def test_a_plan_needs_the_image_and_says_so(sealed: Workspace) -> None:
    sealed.params["sandbox"]["image"] = "no-such-image"
    done = sealed.run("stages.run.plan")
    assert done.returncode == 1
    assert "there is no image no-such-image" in done.stdout
