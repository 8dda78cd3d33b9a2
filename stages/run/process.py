"""The sandbox without isolation: child processes, for development and where there is no Docker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from stages.agent.models import TrialFolder
from stages.common.files import CODE_ROOT
from stages.relay.config import RelayConfig
from stages.relay.relay import Relay
from stages.relay.usage import Usage
from stages.run.sandbox import Cut, Door, Ended, Site
from stages.stack.environments import Stack
from stages.stack.host import stack_environment

MARK = "SPIDER2_RUN"
"""Variable that marks every process of a run, so that those which detach are found too."""


@dataclass(frozen=True)
class ProcessSandbox:
    """A child process in a group of its own, in a scrubbed environment. It isolates nothing."""

    trial_s: float
    """Wall-clock limit of the agent, seconds."""
    freeze_s: float
    """Wall-clock limit of reading all views afterwards, seconds."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside the scrubbed ones."""
    sealed: bool = False

    def check(self, stack: Stack) -> None:
        """Child processes can always be started."""

    def identity(self, stack: Stack) -> dict[str, str]:
        """The stack's versions, which are in every run key, say it all."""
        return {}

    def inside(self, folder: TrialFolder) -> TrialFolder:
        """The agent works in the folder itself."""
        return folder

    def relay(self, config: RelayConfig, run_id: str) -> LocalRelay:
        """A thread of this process."""
        return LocalRelay(config)

    @contextmanager
    def open(self, site: Site) -> Iterator[Processes]:
        """See `Sandbox.open`."""
        yield Processes(site, self.environment)

    def runs(self) -> set[str]:
        """A run is known by its folder of work directories."""
        return set()

    def cleanup(self, run_id: str) -> int:
        """Kill every process of a run."""
        return kill_marked(run_id)


class LocalRelay:
    """A relay in a thread of this process."""

    def __init__(self, config: RelayConfig) -> None:
        self._relay = Relay(config)
        self._relay.__enter__()
        self.alive = True

    def check(self) -> str:
        """See `Relay.check`."""
        return self._relay.check()

    def open_trial(self, name: str, recording: Path | None, *, project: Path, attempt: int) -> Door:
        """See `Relay.open_trial`."""
        return Door(self._relay.open_trial(name, recording, project=project, attempt=attempt))

    def close_trial(self, name: str) -> Usage:
        """See `Relay.close_trial`."""
        return self._relay.close_trial(name)

    def close(self) -> None:
        """Stop the thread."""
        self._relay.__exit__(None, None, None)


@dataclass(frozen=True)
class Processes:
    """One trial's processes."""

    site: Site
    environment: Mapping[str, str]

    def run(self, *command: str, limit_s: float) -> Ended:
        """See `Workplace.run`. Output goes to the trial's `agent.log`.

        However the command ends, every process of the trial is killed, those that left its
        process group included.
        """
        folder, site = self.site.folder, self.site
        folder.home.mkdir(exist_ok=True)
        mark = f"{site.run_id}/{site.trial_id}"
        environment = {
            **self.environment,
            **stack_environment(site.stack, site.day, folder.home),
            "PYTHONPATH": str(CODE_ROOT),
            MARK: mark,
        }
        started = time.monotonic()
        with folder.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stages.agent", *command],
                cwd=folder.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            cut = None
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                cut = Cut.TIME
            finally:
                kill_marked(mark)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if cut is None and process.returncode == -signal.SIGKILL:
            cut = Cut.OUTSIDE
        seconds = round(time.monotonic() - started, 3)
        return Ended(code=process.returncode, cut=cut, seconds=seconds)

    def collect(self, *, everything: bool) -> None:
        """Everything is in the trial's folder already."""


def kill_marked(mark: str) -> int:
    """Kill the processes whose mark is `mark`, or begins with it and a slash; how many.

    It looks again until it finds none, since a process may have started another meanwhile.
    """
    killed: set[int] = set()
    while found := [process for process in psutil.process_iter() if _has_mark(process, mark)]:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        killed |= {process.pid for process in found}
        # Not psutil's wait: it would take the exit status that the sandbox waits for.
        time.sleep(0.05)
    for pid in killed:
        # What libfaketime shares between processes outlives one that is killed.
        for name in (f"sem.faketime_sem_{pid}", f"faketime_shm_{pid}"):
            Path("/dev/shm", name).unlink(missing_ok=True)
    return len(killed)


def _has_mark(process: psutil.Process, mark: str) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        given = process.environ().get(MARK, "")
        if given == mark or given.startswith(f"{mark}/"):
            return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
