"""What goes into a sandbox and what comes out of it, as typed values."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from stages.common.files import Record, read_json, write_json

UNFINISHED = 75
"""Exit code of `solve` where the agent itself reports an infrastructure failure."""


class TrialStatus(StrEnum):
    """How a trial ended."""

    COMPLETED = "completed"
    AGENT_ERROR = "agent_error"
    TIMEOUT = "timeout"
    MAX_TURNS = "max_turns"
    OVER_BUDGET = "over_budget"
    INFRA_ERROR = "infra_error"
    NOT_RUN = "not_run"
    """The run's budget was spent before it, or in the middle of it."""


class Tokens(Record):
    """Tokens of all model calls of a trial, as the Messages API counts them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class TrialSpec(Record):
    """All that a sandbox is told; paths inside it are relative to the trial's folder."""

    instance_id: str
    instruction: str
    database: str
    """Path of the database, relative to `project/`."""
    agent: dict[str, Any]
    """The agent's configuration, built by `hydra.utils.instantiate`."""
    versions: dict[str, str]
    """The stack's versions of dbt-core, dbt-duckdb and DuckDB."""
    endpoint: str | None = None
    """Where the agent's model answers: the relay; null for an agent that needs none."""

    @classmethod
    def read(cls, path: Path) -> TrialSpec:
        """Read what `write` wrote."""
        return cls.model_validate(read_json(path))

    def write(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self)


class Event(Record):
    """One event of a trial, in the order in which they came."""

    time_s: float
    """Seconds since the agent started."""
    turn: int
    who: str
    """`main` or `verifier`."""
    kind: str
    """`text`, `thinking`, `tool_use`, `tool_result` or `result`."""
    text: str
    """What was said; a tool's input as JSON."""
    role: str = "assistant"
    """`assistant`, or `user` for what was said to it."""
    tool: str | None = None
    tool_id: str | None = None
    """Joins a tool's use with its result."""
    error: bool = False
    """True for a tool result that is an error."""


class Outcome(Record):
    """What an agent reports of itself."""

    status: TrialStatus
    detail: str = ""
    """One sentence on what went wrong; empty when nothing did."""
    turns: int = 0
    events: tuple[Event, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Read what `write` wrote."""
        return cls.model_validate(read_json(path))

    def write(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self)


class TrialFolder:
    """Where things lie in a trial's folder, outside the sandbox and inside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec = root / "spec.json"
        self.project = root / "project"
        self.solution = root / "solution"
        """The known solution; there for the oracle alone."""
        self.outcome = root / "outcome.json"
        self.frozen = root / "frozen"
        self.home = root / "home"
        self.queries = root / "queries" / "queries.jsonl"
        self.log = root / "agent.log"


class Agent(Protocol):
    """Solves a task in its project folder."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        """Work in `folder.project`, the current directory; say how it went."""
        ...
