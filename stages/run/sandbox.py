"""What a sandbox is to the runner; stages/run/process.py and stages/run/docker/ are the two."""

from __future__ import annotations

import datetime
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from stages.agent.models import TrialFolder
from stages.common.files import Record
from stages.relay.config import RelayConfig
from stages.relay.usage import Usage
from stages.stack.environments import Stack


class Cut(StrEnum):
    """Why a command did not end by itself."""

    TIME = "time"
    """Its wall-clock limit."""
    MEMORY = "memory"
    """The sandbox's memory limit."""
    DISK = "disk"
    """The sandbox's disk limit."""
    OUTSIDE = "outside"
    """Somebody killed it who is not of this run."""


class Ended(Record):
    """How a command in a sandbox ended."""

    code: int
    """Exit code; negative: killed by that signal."""
    cut: Cut | None = None
    seconds: float
    note: str = ""
    """What else is to be known: that a process of it was killed for memory, for example."""


class LimitError(Exception):
    """What a trial left is more than its sandbox may hold."""


@dataclass(frozen=True)
class Door:
    """A trial's way to its model, as its sandbox sees it."""

    url: str
    """What the agent is told to call."""
    volume: str | None = None
    """Where the sandbox must be given something for it: the volume that holds the socket."""


class RelayServer(Protocol):
    """A relay that trials are admitted to. Its methods may be called from any thread."""

    alive: bool
    """False once it has ended without being asked to."""

    def check(self) -> str:
        """What is amiss and may pass, else nothing; raises `UserError` for the credential."""
        ...

    def open_trial(self, name: str, recording: Path | None, *, project: Path, attempt: int) -> Door:
        """Admit one attempt of a trial; `project` is its work directory as the sandbox sees it."""
        ...

    def close_trial(self, name: str) -> Usage:
        """Refuse the trial's further calls and say what it used."""
        ...

    def close(self) -> None:
        """End the relay."""
        ...


@dataclass(frozen=True)
class Site:
    """What one trial's sandbox is made for."""

    folder: TrialFolder
    """The trial's folder on the host, laid out."""
    stack: Stack
    day: datetime.date
    run_id: str
    trial_id: str
    door: Door | None


class Workplace(Protocol):
    """One trial's sandbox while it stands."""

    def run(self, *command: str, limit_s: float) -> Ended:
        """Run `python -m stages.agent <command>` in the trial's folder, up to `limit_s`.

        However it ends, no process of it is left.
        """
        ...

    def collect(self, *, everything: bool) -> None:
        """Bring what the trial left into its folder on the host, or its log and outcome alone.

        Raises:
            LimitError: it is more than the sandbox may hold.
        """
        ...


class Sandbox(Protocol):
    """Where trials execute."""

    sealed: bool
    trial_s: float
    freeze_s: float

    def check(self, stack: Stack) -> None:
        """Make sure that trials can be run; raises `UserError` with the remedy."""
        ...

    def identity(self, stack: Stack) -> dict[str, str]:
        """What of the sandbox itself belongs into a run key, by name."""
        ...

    def inside(self, folder: TrialFolder) -> TrialFolder:
        """The trial's folder under the path that the agent sees."""
        ...

    def relay(self, config: RelayConfig, run_id: str) -> RelayServer:
        """Start a relay that this sandbox's trials can reach."""
        ...

    def open(self, site: Site) -> AbstractContextManager[Workplace]:
        """Set up one trial's sandbox; nothing of it is left afterwards."""
        ...

    def runs(self) -> set[str]:
        """The ids of the runs, ended ones too, that something is left of."""
        ...

    def cleanup(self, run_id: str) -> int:
        """End everything that was started for a run; how many things there were."""
        ...
