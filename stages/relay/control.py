"""What is said between the run stage and a relay in a container: JSON, one line a message."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from stages.common.files import Record
from stages.relay.config import RelayConfig
from stages.relay.usage import Usage

ADDRESS = "http://127.0.0.1:8080"
"""The relay's base URL inside a trial's container, whose forwarder leads to the socket."""
SOCKETS = "/sockets"
"""Where the relay's container holds one folder a trial."""
SOCKET = "socket"
"""The socket's name in a trial's folder."""


class Hello(Record):
    """The first line: everything that the relay must know, the credential included.

    It goes through standard input, so that it stands in no environment, file or `inspect`.
    """

    config: RelayConfig
    environment: Mapping[str, str]
    """The credential under its variable's name, and the host's proxy variables."""


class Do(StrEnum):
    """What a relay can be asked."""

    CHECK = "check"
    OPEN = "open"
    CLOSE = "close"


class Command(Record):
    """One request to the relay."""

    number: int
    """Its answer bears the same one."""
    do: Do
    trial: str = ""
    folder: str = ""
    """Name of the trial's folder below `SOCKETS`."""
    recording: str | None = None
    """The recording's name and ..."""
    content: str | None = None
    """... what it holds, to be played."""
    project: str | None = None
    attempt: int = 1


class Reply(Record):
    """What became of a command."""

    number: int
    amiss: str = ""
    """Of `check`: what is wrong and may pass."""
    usage: Usage | None = None
    """Of `close`."""
    recorded: str | None = None
    """Of `close` in mode `record`: the recording."""
    error: tuple[str, str, str] | None = None
    """What is wrong, where, and the remedy."""
    spent: bool = False
    """The error is that the run's budget is spent."""
