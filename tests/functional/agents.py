"""Agents for tests of the runner: each misbehaves in one way. They run inside a sandbox."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus

DONE = Outcome(status=TrialStatus.COMPLETED)


@dataclass(frozen=True)
class Sleeper:
    """Sleeps in tasks whose name begins with `slow`, with a child that has left its group."""

    seconds: float

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        if spec.instance_id.startswith("slow"):
            sleep = [sys.executable, "-c", f"import time; time.sleep({self.seconds})"]
            subprocess.Popen(sleep, start_new_session=True)
            time.sleep(self.seconds)
        return DONE


@dataclass(frozen=True)
class DiesOnce:
    """Is killed by a signal the first time, as by the kernel when memory is short."""

    mark: str

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        if not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return DONE


@dataclass(frozen=True)
class Builder:
    """Runs dbt twice and writes down its own day and its environment."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        (folder.project / "today.txt").write_text(datetime.date.today().isoformat())
        names = "\n".join(f"{key}={value}" for key, value in sorted(os.environ.items()))
        (folder.project / "environment.txt").write_text(names)
        done = subprocess.run(["dbt", "--no-use-colors", "build"], capture_output=True, text=True)
        (folder.project / "dbt.txt").write_text(done.stdout)
        return DONE if done.returncode == 0 else Outcome(status=TrialStatus.AGENT_ERROR)


@dataclass(frozen=True)
class Vandal:
    """Leaves a broken database, or none, by the task's name."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        database = folder.project / spec.database
        if spec.instance_id.startswith("gone"):
            database.unlink()
        if spec.instance_id.startswith("broken"):
            database.write_bytes(b"this is no database")
        return DONE
