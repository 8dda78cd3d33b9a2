"""Reads JSON-lines files into typed lines, and says file, line and fault where one is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from stages.common.errors import UserError

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Line(BaseModel):
    """Base of one line of a suite's JSON-lines file; keys that nobody reads are let through."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    instance_id: str


LineT = TypeVar("LineT", bound=Line)


def read_lines(path: Path, kind: type[LineT]) -> Iterator[tuple[str, LineT]]:
    """Each line of `path` as a `kind`, with its place (`file, line 3`) for later complaints.

    Blank lines and a byte order mark are passed over. Raises `UserError` when the file
    cannot be read, a line is no JSON or lacks a key, an instance id stands twice, or an
    instance id is no plain folder name.
    """
    seen: dict[str, str] = {}
    for number, text in enumerate(_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        place = f"{path}, line {number}"
        try:
            line = kind.model_validate_json(text)
        except ValidationError as error:
            raise UserError(_faults(error), where=place) from None
        if not _PLAIN_NAME.fullmatch(line.instance_id):
            raise UserError(
                f"instance_id {line.instance_id!r} is no plain folder name",
                where=place,
                remedy="use letters, digits, '_', '-' and '.'",
            )
        if line.instance_id in seen:
            raise UserError(
                f"instance_id {line.instance_id!r} stands twice",
                where=place,
                remedy=f"keep one; the first is in {seen[line.instance_id]}",
            )
        seen[line.instance_id] = place
        yield place, line


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"there is no {path.name}", where=str(path)) from None
    except OSError as error:
        raise UserError(f"cannot read {path.name}: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path.name} is not UTF-8 (byte {error.start})",
            where=str(path),
            remedy="save it as UTF-8",
        ) from None


def _faults(error: ValidationError) -> str:
    parts = []
    for fault in error.errors():
        key = ".".join(str(step) for step in fault["loc"])
        if fault["type"] == "json_invalid":
            parts.append(f"not valid JSON: {fault['ctx']['error']}")
        elif fault["type"] == "missing":
            parts.append(f"key {key!r} is missing")
        else:
            parts.append(f"{key}: {fault['msg']}" if key else fault["msg"])
    return "; ".join(parts)
