"""What a sandbox is to the runner, and the one without isolation: child processes."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from stages.agent.models import TrialFolder
from stages.common.files import CODE_ROOT, Record
from stages.stack.environments import Stack
from stages.stack.host import stack_environment

MARK = "SPIDER2_RUN"
"""Variable that marks every process of a run, so that those which detach are found too."""


class Ended(Record):
    """How a command in a sandbox ended."""

    code: int
    """Exit code; negative: killed by that signal."""
    timed_out: bool
    seconds: float


class Sandbox(Protocol):
    """Where a trial executes."""

    sealed: bool
    trial_s: float
    freeze_s: float

    def run(
        self,
        folder: TrialFolder,
        command: Sequence[str],
        *,
        stack: Stack,
        day: datetime.date,
        limit_s: float,
        run_id: str,
        trial_id: str,
    ) -> Ended:
        """Run `python -m stages.agent <command>` in the trial's folder, up to `limit_s`."""
        ...

    def cleanup(self, run_id: str) -> int:
        """End everything that was started for a run; how many things there were."""
        ...


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

    def run(
        self,
        folder: TrialFolder,
        command: Sequence[str],
        *,
        stack: Stack,
        day: datetime.date,
        limit_s: float,
        run_id: str,
        trial_id: str,
    ) -> Ended:
        """See `Sandbox.run`. Output goes to the trial's `agent.log`.

        However the command ends, every process of the trial is killed, those that left its
        process group included.
        """
        folder.home.mkdir(exist_ok=True)
        mark = f"{run_id}/{trial_id}"
        environment = {
            **self.environment,
            **stack_environment(stack, day, folder.home),
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
            timed_out = False
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                kill_marked(mark)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = round(time.monotonic() - started, 3)
        return Ended(code=process.returncode, timed_out=timed_out, seconds=seconds)

    def cleanup(self, run_id: str) -> int:
        """Kill every process of a run."""
        return kill_marked(run_id)


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
