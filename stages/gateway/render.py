"""Bounded Markdown tables, which say what they leave out."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from stages.gateway.models import Answer, Limits

MOST_COLUMNS = 200


def value_text(value: Any) -> str:
    """A value as DuckDB writes it, or near to it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return "\\x" + value[:100].hex().upper()
    if isinstance(value, list | tuple):
        # A list can hold millions of values, of which a cell shows some.
        more = ", …" if len(value) > 50 else ""
        return "[" + ", ".join(value_text(item) for item in value[:50]) + more + "]"
    return str(value)


def clip(text: str, width: int) -> str:
    """The text on one line, no longer than `width`; one that is shortened ends in `…`."""
    line = " ".join(text[: width * 8].split())
    return line if len(line) <= width and len(text) <= width * 8 else line[: width - 1] + "…"


def cell(value: Any, width: int) -> str:
    """A value for a Markdown table."""
    return clip(value_text(value), width).replace("|", "\\|")


def table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    limits: Limits,
    *,
    title: str = "",
    total: int | None = None,
    remedy: str = "Filter, aggregate or use LIMIT to see the rest.",
) -> Answer:
    """A table of at most `limits.rows` rows and `limits.bytes` bytes.

    `rows` is read only as far as is shown, and one further. `total` is how many there are,
    where that is known.
    """
    shown_names = [cell(name, limits.cell) for name in names[:MOST_COLUMNS]]
    head = [f"| {' | '.join(shown_names)} |", "|" + "---|" * len(shown_names)]
    size = sum(len(line.encode()) + 1 for line in head) + len(title.encode())
    lines: list[str] = []
    shortened = 0
    stopped = ""
    for row in rows:
        if len(lines) == limits.rows:
            stopped = f"after {limits.rows} rows, the limit of an answer"
            break
        cells = [cell(value, limits.cell) for value in row[:MOST_COLUMNS]]
        line = f"| {' | '.join(cells)} |"
        size += len(line.encode()) + 1
        if size > limits.bytes:
            stopped = f"after {len(lines)} rows, at the limit of {limits.bytes} bytes"
            break
        shortened += sum(text.endswith("…") for text in cells)
        lines.append(line)
    notes = []
    if stopped:
        count = f" There are {total} rows." if total is not None else " There are more rows."
        notes.append(f"CUT {stopped}.{count} {remedy}")
    elif not lines:
        notes.append("(no rows)")
    else:
        notes.append(f"({len(lines)} row{'s' if len(lines) != 1 else ''})")
    if shortened:
        notes.append(f"{shortened} values are shortened to {limits.cell} characters (…).")
    if len(names) > MOST_COLUMNS:
        notes.append(f"CUT: {len(names)} columns, of which the first {MOST_COLUMNS} are shown.")
    text = "\n".join([*([title, ""] if title else []), *head, *lines, "", " ".join(notes)])
    return Answer(
        text=bounded(text, limits.bytes + 400),
        rows=len(lines),
        cut=bool(stopped or shortened or len(names) > MOST_COLUMNS),
    )


def join(parts: Sequence[str | Answer], limits: Limits) -> Answer:
    """Several parts as one answer within the limit of bytes; what does not fit is named."""
    texts: list[str] = []
    size = 0
    cut = any(isinstance(part, Answer) and part.cut for part in parts)
    for index, part in enumerate(parts):
        text = part.text if isinstance(part, Answer) else part
        if not text:
            continue
        size += len(text.encode()) + 2
        if size > limits.bytes and texts:
            texts.append(
                f"CUT: {len(parts) - index} further parts do not fit into {limits.bytes} bytes. "
                "Ask for less at a time."
            )
            cut = True
            break
        texts.append(text)
    text = "\n\n".join(texts)
    short = bounded(text, limits.bytes + 400)
    rows = [part.rows for part in parts if isinstance(part, Answer) and part.rows is not None]
    return Answer(text=short, rows=sum(rows) if rows else None, cut=cut or short != text)


def bounded(text: str, limit: int) -> str:
    """The text within `limit` bytes."""
    data = text.encode()
    if len(data) <= limit:
        return text
    return data[:limit].decode(errors="ignore") + f"\nCUT at {limit} of {len(data)} bytes."
