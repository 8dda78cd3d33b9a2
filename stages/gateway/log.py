"""The query log: one JSON line a call, refused and failed ones too."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from pydantic import ValidationError

from stages.gateway.models import Call

LONGEST = 20_000
"""Characters of a logged statement or argument."""


def now() -> str:
    """The time on the task's clock."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def shorten(text: str) -> str:
    """The text, cut where it is too long to be logged."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def append(path: Path, call: Call) -> None:
    """Write one line, in one write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = call.model_dump()
    whole["sql"] = shorten(call.sql)
    whole["arguments"] = {
        name: shorten(value) if isinstance(value, str) else value
        for name, value in call.arguments.items()
    }
    line = json.dumps(whole, ensure_ascii=False)
    # A lone surrogate, which a JSON string can carry, has no UTF-8 form.
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(line + "\n")


def read(path: Path, last: int) -> list[Call]:
    """The newest calls, oldest first; lines that are not whole are passed over."""
    if not path.is_file():
        return []
    calls = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-last:]:
        try:
            calls.append(Call.model_validate_json(line))
        except ValidationError:
            continue
    return calls
