"""A trial's door to its model: the relay's URL while an attempt lasts, and what it used."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stages.agent.models import Outcome, Tokens, TrialStatus
from stages.relay.config import RelayConfig
from stages.relay.relay import Relay
from stages.relay.usage import Usage

_relays: dict[str, Relay] = {}
_lock = threading.Lock()


@dataclass
class Spent:
    """What all attempts of a trial used together, failed ones too."""

    cost_usd: float = 0.0
    tokens: Tokens = field(default_factory=Tokens)

    def add(self, usage: Usage | None) -> None:
        """Add one attempt's use."""
        if usage is None:
            return
        self.cost_usd += usage.cost_usd
        self.tokens = Tokens(
            input=self.tokens.input + usage.tokens.input,
            output=self.tokens.output + usage.tokens.output,
            cache_read=self.tokens.cache_read + usage.tokens.cache_read,
            cache_write=self.tokens.cache_write + usage.tokens.cache_write,
        )


@dataclass
class Door:
    """One attempt's way to the model."""

    url: str | None
    usage: Usage | None = None
    """Known when the attempt is over."""

    def judge(self, outcome: Outcome) -> Outcome:
        """Tell an infrastructure failure that only the relay has seen from an agent's own."""
        usage, failed = self.usage, outcome.status is not TrialStatus.COMPLETED
        if usage is None:
            return outcome
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


def shared_relay(config: RelayConfig) -> Relay:
    """This process's relay of that configuration, started on first use.

    One for all trials: when the endpoint asks for a pause, all wait.
    """
    key = config.model_dump_json()
    with _lock:
        if key not in _relays:
            relay = Relay(config)
            relay.__enter__()
            atexit.register(relay.__exit__, None, None, None)
            _relays[key] = relay
        return _relays[key]


@contextmanager
def open_door(
    config: RelayConfig | None, name: str, recording: Path | None, project: Path, attempt: int
) -> Iterator[Door]:
    """Admit one attempt of a trial to the relay while the context lasts."""
    if config is None:
        yield Door(url=None)
        return
    relay = shared_relay(config)
    door = Door(url=relay.open_trial(name, recording, project=project, attempt=attempt))
    try:
        yield door
    finally:
        door.usage = relay.close_trial(name)
