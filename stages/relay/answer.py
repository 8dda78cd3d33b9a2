"""An answer on its way, where answers come from, and the gate that all calls wait at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stages.relay.asked import Asked
from stages.relay.message import make_error

EVENT_STREAM = "text/event-stream"
JSON = "application/json"
STOPS = {429: "rate_limit_error", 529: "overloaded_error"}
"""Statuses that say: not now."""


class StreamCutError(Exception):
    """The answer broke off after it had begun."""


class UnreachableError(Exception):
    """The endpoint gave no answer at all."""


@dataclass
class Answer:
    """A status and a body: either whole, or a stream of events."""

    status: int
    body: bytes | AsyncIterator[bytes]
    retry_after: float | None = None
    """Seconds, as the header says."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What else the client is told."""


@dataclass(frozen=True)
class Call:
    """One request, to be sent as often as it takes."""

    path: str
    """From `/v1` on, with the query."""
    headers: Mapping[str, str]
    body: bytes
    """As it came."""
    asked: Asked
    whose: str | None
    """The conversation's name; None for a side request."""


class Source(Protocol):
    """Where answers come from: an endpoint, or a recording."""

    async def send(self, call: Call) -> Answer:
        """One try; raises `UnreachableError`."""
        ...


def error_answer(status: int, kind: str, message: str, *, final: bool = False) -> Answer:
    """An error as the API gives it; a final one tells the client not to try again."""
    headers = {"x-should-retry": "false"} if final else {}
    return Answer(status, make_error(kind, message), headers=headers)


class Gate:
    """Shut for a while when the endpoint says stop; everyone who sends waits at it."""

    def __init__(self) -> None:
        self._until = 0.0

    def shut(self, seconds: float) -> None:
        """Keep everyone for `seconds` from now, or longer where it is shut for longer."""
        self._until = max(self._until, time.monotonic() + seconds)

    async def wait(self) -> None:
        """Come back when it is open."""
        while (left := self._until - time.monotonic()) > 0:
            await asyncio.sleep(left)
