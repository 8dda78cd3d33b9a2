"""What a trial used: counted call by call, handed over as one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from stages.common.files import Record
from stages.relay.budget import Spent
from stages.relay.config import Price, price_of


class TokenCount(Record):
    """Tokens as the Messages API counts them; `input` without what came from the cache."""

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cache_read: int = Field(default=0, ge=0)
    cache_write: int = Field(default=0, ge=0)


class Usage(Record):
    """One trial's calls, from `Relay.open_trial` to `Relay.close_trial`."""

    trial: str
    requests: int = 0
    """Calls that belong to a conversation, repeated ones too."""
    side_requests: int = 0
    """Calls of the CLI for itself: titles, probes."""
    token_counts: int = 0
    """Calls of `count_tokens`."""
    tokens: TokenCount = TokenCount()
    cost_usd: float = 0.0
    models: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    """Models without a price in the configuration; they count as free."""
    retries: int = 0
    """How often the relay sent a call again."""
    refused: Mapping[str, int] = Field(default_factory=dict)
    """Calls of anything that is not served, by `METHOD /path`."""
    faults: Mapping[str, int] = Field(default_factory=dict)
    """Faults made on purpose, by kind."""
    cut_streams: int = 0
    """Answers that broke off, on purpose or not."""
    overloaded: bool = False
    """A 429 or 529 was passed on when all tries were spent."""
    unreachable: bool = False
    """The endpoint could not be reached, or broke off before it answered, in all tries."""
    credential_refused: bool = False
    """The endpoint answered 401 or 403."""
    parted: str | None = None
    """Where the recording and the conversation part."""
    unplayed: Mapping[str, int] = Field(default_factory=dict)
    """Recorded turns that nobody asked for, by conversation."""
    unrecorded: str | None = None
    """Why the recording that was written is not whole."""
    over_budget: Spent | None = None
    """The budget for which a call was refused."""


@dataclass
class Meter:
    """Counts while a trial runs; see `Usage` for what each field means."""

    trial: str
    prices: Mapping[str, Price]
    requests: int = 0
    side_requests: int = 0
    token_counts: int = 0
    retries: int = 0
    cut_streams: int = 0
    overloaded: bool = False
    unreachable: bool = False
    credential_refused: bool = False
    parted: str | None = None
    unrecorded: str | None = None
    over_budget: Spent | None = None
    refused: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    unpriced: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    _tokens: Counter[str] = field(default_factory=Counter)
    _dollars: float = 0.0

    @property
    def dollars(self) -> float:
        """What was spent so far."""
        return self._dollars

    def add(self, model: str, tokens: TokenCount, written_1h: int = 0) -> float:
        """Count one answer; `written_1h` of its cache writes were for an hour. Its dollars."""
        self.models.add(model)
        self._tokens.update(tokens.model_dump())
        price = price_of(model, self.prices)
        if price is None:
            self.unpriced.add(model)
            return 0.0
        hour = 2 * price.input if price.cache_write_1h is None else price.cache_write_1h
        dollars = (
            tokens.input * price.input
            + tokens.output * price.output
            + tokens.cache_read * price.cache_read
            + (tokens.cache_write - written_1h) * price.cache_write
            + written_1h * hour
        ) / 1e6
        self._dollars += dollars
        return dollars

    def usage(self, unplayed: Mapping[str, int]) -> Usage:
        """Everything so far."""
        return Usage(
            trial=self.trial,
            requests=self.requests,
            side_requests=self.side_requests,
            token_counts=self.token_counts,
            tokens=TokenCount(**self._tokens),
            cost_usd=round(self._dollars, 8),
            models=tuple(sorted(self.models)),
            unpriced=tuple(sorted(self.unpriced)),
            retries=self.retries,
            refused=dict(self.refused),
            faults=dict(self.faults),
            cut_streams=self.cut_streams,
            overloaded=self.overloaded,
            unreachable=self.unreachable,
            credential_refused=self.credential_refused,
            parted=self.parted,
            unplayed=unplayed,
            unrecorded=self.unrecorded,
            over_budget=self.over_budget,
        )
