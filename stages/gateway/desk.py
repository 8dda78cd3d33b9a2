"""What a tool has at hand: the settings, and a way to read the database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from stages.gateway.connection import Reader, Tell, open_reader
from stages.gateway.models import Answer, Limits, Settings
from stages.gateway.policy import Allowed, judge


class Desk:
    """One call's working place."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self.settings = settings
        self._tell = tell
        self.statements: list[str] = []
        self.waited_s = 0.0

    @property
    def limits(self) -> Limits:
        """The call's limits."""
        return self.settings.limits

    @contextlib.contextmanager
    def open(self) -> Iterator[Reader]:
        """Open the database for as long as the block lasts."""
        with open_reader(self.settings, self._tell) as reader:
            self.waited_s += reader.waited_s
            reader.statements = self.statements
            yield reader

    def judge(self, sql: str) -> Allowed:
        """See `policy.judge`."""
        return judge(sql)

    def note(self, answer: Answer) -> str:
        """The answer's text, with the time that was spent waiting for a lock."""
        if self.waited_s == 0:
            return answer.text
        return f"(waited {self.waited_s:.1f} s for another process's lock)\n\n{answer.text}"
