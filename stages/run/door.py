"""A trial's door to its model while an attempt lasts, and what it used."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stages.agent.models import Outcome, Tokens, TrialStatus
from stages.relay.budget import Spent
from stages.relay.config import RelayConfig
from stages.relay.usage import Usage
from stages.run.sandbox import Door, RelayServer, Sandbox

_relays: dict[tuple[str, str], RelayServer] = {}
_lock = threading.Lock()


@dataclass
class Used:
    """What all attempts of a trial used together, failed ones too."""

    cost_usd: float = 0.0
    tokens: Tokens = field(default_factory=Tokens)
    refused: Counter[str] = field(default_factory=Counter)
    over_budget: bool = False
    """Whether the trial's budget is used up."""
    sandbox_s: float = 0.0
    """Seconds in the sandbox, of the last attempt."""

    def add(self, usage: Usage | None) -> None:
        """Add one attempt's use."""
        if usage is None:
            return
        self.cost_usd += usage.cost_usd
        self.refused.update(usage.refused)
        self.over_budget = usage.over_budget is Spent.TRIAL
        self.tokens = Tokens(
            input=self.tokens.input + usage.tokens.input,
            output=self.tokens.output + usage.tokens.output,
            cache_read=self.tokens.cache_read + usage.tokens.cache_read,
            cache_write=self.tokens.cache_write + usage.tokens.cache_write,
        )


@dataclass
class Admission:
    """One attempt's way to the model."""

    door: Door | None
    usage: Usage | None = None
    """Known when the attempt is over."""

    def judge(self, outcome: Outcome) -> Outcome:
        """Tell an infrastructure failure that only the relay has seen from an agent's own."""
        usage, failed = self.usage, outcome.status is not TrialStatus.COMPLETED
        if usage is None:
            return outcome
        if usage.over_budget is Spent.TRIAL:
            detail = "the budget of this trial is spent"
            return outcome.model_copy(update={"status": TrialStatus.OVER_BUDGET, "detail": detail})
        if usage.over_budget is Spent.RUN:
            detail = "the run's budget was spent in the middle of this trial"
            return outcome.model_copy(update={"status": TrialStatus.NOT_RUN, "detail": detail})
        problem = None
        if usage.parted:
            problem = f"the recording and the conversation part: {usage.parted}"
        elif usage.credential_refused:
            problem = "the endpoint refused the credential"
        elif failed and usage.unreachable:
            problem = "the model's endpoint could not be reached"
        elif failed and usage.overloaded:
            problem = "the model's endpoint is overloaded"
        if problem is None:
            return outcome
        detail = f"{problem}; {outcome.detail}" if outcome.detail else problem
        return outcome.model_copy(update={"status": TrialStatus.INFRA_ERROR, "detail": detail})


def shared_relay(sandbox: Sandbox, config: RelayConfig, run_id: str) -> RelayServer:
    """This process's relay of that configuration, started on first use and when it has died.

    One for all trials of a run: when the endpoint asks for a pause, all wait.
    """
    key = run_id, config.model_dump_json()
    with _lock:
        relay = _relays.get(key)
        if relay is None or not relay.alive:
            relay = _relays[key] = sandbox.relay(config, run_id)
        return relay


def close_relays(run_id: str) -> None:
    """End the relays of a run."""
    with _lock:
        ours = [key for key in _relays if key[0] == run_id]
        for key in ours:
            _relays.pop(key).close()


@contextmanager
def admitted(
    sandbox: Sandbox,
    config: RelayConfig | None,
    run_id: str,
    *,
    name: str,
    recording: Path | None,
    project: Path,
    attempt: int,
) -> Iterator[Admission]:
    """Admit one attempt of a trial to the relay while the context lasts."""
    if config is None:
        yield Admission(door=None)
        return
    relay = shared_relay(sandbox, config, run_id)
    admission = Admission(relay.open_trial(name, recording, project=project, attempt=attempt))
    try:
        yield admission
    finally:
        admission.usage = relay.close_trial(name)
