"""The engine goes away in the middle of a run: a second one, of the test's own, is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from docker import APIClient
from docker.errors import DockerException

from stages.agent.models import TrialStatus
from stages.run.docker.image import RELAY
from tests.functional.conftest import Workspace, wait_for
from tests.functional.docker_tools import AGENTS, let_go, listed, relays, running
from tests.functional.test_claude import PLAY, say, turn

pytestmark = pytest.mark.docker


class Daemon:
    """An engine with its own data, socket and containers."""

    def __init__(self, root: Path) -> None:
        # A short path: a Unix socket's may have 107 characters.
        self.root = root
        self.url = f"unix://{root}/d.sock"
        self.client = APIClient(base_url=self.url, version="1.41")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        # Dead with the engine that started it; a zombie where nobody reaps, and so taken for alive.
        (self.root / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    # A network of its own: an engine without a bridge deletes that of the other.
                    *("unshare", "--net"),
                    "dockerd",
                    f"--host={self.url}",
                    f"--data-root={self.root}/data",
                    f"--exec-root={self.root}/exec",
                    f"--pidfile={self.root}/pid",
                    "--bridge=none",
                    "--iptables=false",
                    "--ip6tables=false",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        try:
            wait_for(self._answers, "an engine of the test's own", 180)
        except BaseException:
            print((self.root / "log").read_text()[-5_000:])
            raise

    def _answers(self) -> bool:
        with contextlib.suppress(DockerException, OSError):
            return bool(self.client.ping())
        return False

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it and all that it runs, and delete its data."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(DockerException, OSError):
                for item in self.client.containers(all=True):
                    self.client.remove_container(item["Id"], force=True)
            self._process.terminate()
            self._process.wait(60)
        # Of one that was killed, the containers are left.
        for shim in psutil.process_iter(["cmdline"]):
            if any(str(self.root) in part for part in shim.info["cmdline"] or ()):
                for process in (*shim.children(recursive=True), shim):
                    with contextlib.suppress(psutil.Error):
                        process.kill()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in reversed([place for place in mounts if place.startswith(f"{self.root}/")]):
            subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture
def daemon(client: APIClient, docker_images: str) -> Iterator[Daemon]:
    """A second engine that has the images; skips where none can be started, except in CI."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        reason = "an engine of one's own needs root and dockerd"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    daemon = Daemon(Path(tempfile.mkdtemp(prefix="engine-")))
    try:
        daemon.start()
        for image in (docker_images, RELAY):
            daemon.client.load_image(client.get_image(image))
        yield daemon
    finally:
        daemon.stop()


def test_the_loss_of_the_engine_loses_no_finished_trial(
    sealed: Workspace, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon.url)
    sealed.add("quick001")
    sealed.add("quick002")
    sealed.params["concurrency"]["max_workers"] = 4
    sealed.claude(PLAY)
    sealed.agent(f"{AGENTS}.Held", needs_model=True)
    for name in sealed.tasks:
        sealed.record(name, turn(say("Nobody asks.")))
    before = listed(daemon.client)
    process = sealed.start()
    wait_for(lambda: len(sealed.stored()) == 2, "two finished trials", 300)
    for name in ("one-0-1", "two-0-1"):
        wait_for(lambda n=name: running(daemon.client, n), f"the container of {name}")
    assert relays(daemon.client)
    daemon.kill()
    output, _ = process.communicate(timeout=300)

    assert process.returncode == 1, output
    assert "2 of 4 trials ended in an infrastructure failure" in output
    assert "dvc repro" in output
    assert "Traceback" not in output
    for name in ("one", "two"):
        assert sealed.result(name).status is TrialStatus.INFRA_ERROR
        assert "Docker engine" in sealed.result(name).detail
    assert sealed.result("quick001").status is TrialStatus.COMPLETED
    assert len(sealed.stored()) == 2

    daemon.start()
    killed = set(running(daemon.client))
    process = sealed.start()
    for name in ("one-0-1", "two-0-1"):
        wait_for(lambda n=name: set(running(daemon.client, n)) - killed, f"{name} at work")
        let_go(daemon.client, (set(running(daemon.client, name)) - killed).pop())
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "1 killed run(s)" in output
    assert sealed.log("reuse") == {"quick001/0", "quick002/0"}
    assert sealed.log("run") == {"one/0", "two/0"}
    assert sealed.result("one").status is TrialStatus.COMPLETED
    assert listed(daemon.client) == before


def test_an_engine_that_is_not_there_again_is_told_before_any_trial(
    sealed: Workspace, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon.url)
    daemon.kill()
    done = sealed.run()
    assert done.returncode == 1
    assert "there is no Docker engine" in done.stdout
    assert not (sealed.root / "results" / "runs").exists()
