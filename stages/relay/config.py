"""What a relay is told: its mode, where the model is, whose credential, what tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from stages.common.files import Record
from stages.relay.budget import Budget


class Mode(StrEnum):
    """What the relay does with a call."""

    PASS = "pass"
    """Forward it to the model's endpoint."""
    RECORD = "record"
    """Forward it, and write the model's side down."""
    PLAY = "play"
    """Answer it from a recording, offline."""


class CredentialKind(StrEnum):
    """How the endpoint wants the credential."""

    API_KEY = "api_key"
    """As `x-api-key`."""
    OAUTH = "oauth"
    """As a bearer token, with the beta header that OAuth needs."""


class Credential(Record):
    """Where the real credential is found; never the credential itself."""

    variable: str
    """Name of the environment variable, or of a line in `.env`."""
    kind: CredentialKind = CredentialKind.API_KEY


class Price(Record):
    """What a model's tokens cost, in US dollars per million."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float = Field(ge=0)
    cache_write: float = Field(ge=0)
    """Written for five minutes."""
    cache_write_1h: float | None = Field(default=None, ge=0)
    """Written for an hour; twice `input` where none is given."""


class FaultKind(StrEnum):
    """What can go wrong on purpose."""

    RATE_LIMITED = "rate_limited"
    """Status 429."""
    OVERLOADED = "overloaded"
    """Status 529."""
    CUT = "cut"
    """The connection drops in the middle of the answer."""
    SLOW = "slow"
    """The answer comes late."""


class Fault(Record):
    """One fault, at a turn."""

    kind: FaultKind
    times: int = Field(default=1, ge=1)
    """How many requests for the turn it spoils, before the answer comes."""
    attempt: int | None = Field(default=None, ge=1)
    """Only in this attempt of the trial; in every one where none is given."""
    seconds: float | None = Field(default=None, ge=0)
    """Of `slow`: the delay. Of the two statuses: what `retry-after` says."""


class PlacedFault(Fault):
    """A fault that the configuration adds to every trial, in any mode."""

    conversation: str = "main"
    turn: int = Field(ge=1)


class RelayConfig(Record):
    """Everything about a relay that does not belong to one trial."""

    mode: Mode
    base_url: str = Field(default="https://api.anthropic.com", pattern=r"^https?://[^/\s]+")
    """The endpoint, without `/v1`."""
    credential: Credential | None = Credential(variable="ANTHROPIC_API_KEY")
    """None for a server that asks for none."""
    env_file: Path | None = None
    """A `.env` read after the environment; by default the one in the project's root."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """By model; the longest name that a model's id begins with counts."""
    tries: int = Field(default=6, ge=1)
    """How often one call is sent before its error is passed on."""
    pause_s: float = Field(default=2.0, ge=0)
    """Pause after the first 429, 529 or connection error, seconds; it doubles."""
    pause_max_s: float = Field(default=120.0, ge=0)
    """Longest pause. An endpoint that asks for a longer one gets no further try."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Longest silence of the endpoint, seconds."""
    faults: tuple[PlacedFault, ...] = ()
    budget: Budget = Budget()
    """What one trial, and all trials of this relay together, may spend."""


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price under the longest name that `model` begins with."""
    names = [name for name in prices if model.startswith(name)]
    return prices[max(names, key=len)] if names else None
