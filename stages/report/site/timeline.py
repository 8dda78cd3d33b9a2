"""A trace as steps for reading: a tool's use and its result are one, with their duration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from stages.agent.models import Event
from stages.report.site.highlight import block, language
from stages.report.site.shown import Cut, clean, cut, one_line

MOST_STEPS = 3_000
"""Steps of a trace that are shown: the first two thirds and the end."""
SQL_KEYS = ("sql", "query", "statement")


@dataclass(frozen=True)
class Part:
    """A piece of a step that can be long: an input's field, an output."""

    label: str
    text: Cut
    html: Markup
    """The head, marked where its language is known."""


@dataclass(frozen=True)
class Step:
    """One thing that was said, thought or done."""

    number: int
    """Its place in the trace, from 0: the event's index."""
    kind: str
    """`said`, `asked`, `thought`, `tool` or `end`."""
    who: str
    turn: int
    at: float
    """Seconds since the agent started."""
    until: float | None
    """When the tool's result came."""
    since: float
    """Seconds since the event before it."""
    title: str
    summary: str
    parts: tuple[Part, ...]
    error: bool = False

    @property
    def took(self) -> float | None:
        """Seconds that a tool took."""
        return None if self.until is None else max(self.until - self.at, 0.0)


@dataclass(frozen=True)
class Timeline:
    """All steps, and what they add up to."""

    steps: tuple[Step, ...]
    events: int
    left_out: int
    """Steps in the middle that are not shown."""
    total_s: float
    tool_s: float
    """Seconds in which at least one tool was at work."""
    tools: tuple[tuple[str, int], ...]
    people: tuple[str, ...]
    """Whose steps there are, the main agent first."""
    limit: int
    """Characters of a text beyond which it was cut."""
    gap: int | None = field(default=None)
    """Number of the first step after the gap."""


def make_timeline(events: Sequence[Event], limit: int) -> Timeline:
    """The steps of a trace, with every text cut to `limit` characters."""
    results = {event.tool_id: event for event in events if _is_result(event)}
    used = {event.tool_id for event in events if event.kind == "tool_use"}
    picked = [
        (number, event)
        for number, event in enumerate(events)
        if not (_is_result(event) and event.tool_id in used)
    ]
    gap, left_out = None, max(len(picked) - MOST_STEPS, 0)
    if left_out:
        head = MOST_STEPS * 2 // 3
        gap = picked[head + left_out][0]
        picked = picked[:head] + picked[head + left_out :]
    steps = []
    for number, event in picked:
        since = event.time_s - events[number - 1].time_s if number else event.time_s
        step = _step(number, event, results.get(event.tool_id), max(since, 0.0), limit)
        steps.append(step)
    tools = Counter(_title(event.tool or "") for event in events if event.kind == "tool_use")
    people = dict.fromkeys(["main", *(event.who for event in events)])
    return Timeline(
        steps=tuple(steps),
        events=len(events),
        left_out=left_out,
        total_s=max((event.time_s for event in events), default=0.0),
        tool_s=_busy([(step.at, step.until) for step in steps if step.until is not None]),
        tools=tuple(tools.most_common()),
        people=tuple(people),
        limit=limit,
        gap=gap,
    )


def cleaned(event: Event) -> Event:
    """The event with its text as it may be shown; done before anything is cut out of it."""
    return event.model_copy(update={"text": clean(event.text)})


def _is_result(event: Event) -> bool:
    return event.kind == "tool_result" and event.tool_id is not None


def _step(number: int, event: Event, result: Event | None, since: float, limit: int) -> Step:
    step = Step(
        number=number,
        kind="said",
        who=event.who,
        turn=event.turn,
        at=event.time_s,
        until=None,
        since=since,
        title="",
        summary=one_line(event.text),
        parts=(_part("", event.text, None, limit),),
        error=event.error,
    )
    if event.kind == "tool_use":
        parts, summary = _input(event, limit)
        if result is not None:
            parts = (*parts, _part("result", result.text, None, limit))
        return replace(
            step,
            kind="tool",
            until=result.time_s if result else None,
            title=_title(event.tool or ""),
            summary=summary,
            parts=parts,
            error=event.error or (result is not None and result.error),
        )
    if event.kind == "thinking":
        return replace(step, kind="thought", title="thinking")
    if event.kind == "tool_result":
        return replace(step, kind="tool", title="result of a tool")
    if event.kind == "result":
        return replace(step, kind="end", title="end")
    if event.role == "user":
        return replace(step, kind="asked", title="told to the agent")
    return step


def _title(tool: str) -> str:
    """`mcp__gateway__query_database` as `gateway: query_database`."""
    if tool.startswith("mcp__"):
        server, _, name = tool.removeprefix("mcp__").partition("__")
        return f"{server}: {name}"
    return tool or "tool"


def _input(event: Event, limit: int) -> tuple[tuple[Part, ...], str]:
    """A tool's input by its fields, and what it comes to in one line."""
    try:
        given = json.loads(event.text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return (_part("input", event.text, None, limit),), one_line(event.text)
    # Escapes in the JSON are characters only now.
    texts = {
        clean(str(key)): clean(value if isinstance(value, str) else json.dumps(value))
        for key, value in given.items()
    }
    path = next((texts[key] for key in ("file_path", "path") if key in texts), "")
    parts = []
    for key, text in texts.items():
        lexer = language(path) if key in ("content", "old_string", "new_string") else None
        # Jinja's marks are not worth a lexer that takes twice as long, here.
        lexer = "sql" if key in SQL_KEYS or lexer == "sql+jinja" else lexer
        parts.append(_part(key, text, lexer, limit))
    return tuple(parts), _summary(texts, path)


def _summary(texts: dict[str, str], path: str) -> str:
    for key in ("command", *SQL_KEYS, "skill", "pattern"):
        if key in texts:
            return one_line(texts[key])
    if path:
        return one_line(path.rpartition("/project/")[2])
    return one_line(" ".join(f"{key}={value}" for key, value in texts.items()))


def _part(label: str, text: str, lexer: str | None, limit: int) -> Part:
    short = cut(text.strip("\n"), limit)
    return Part(label, short, block(short.head, lexer))


def _busy(spans: list[tuple[float, float]]) -> float:
    """The length of the union of time spans: tools can run side by side."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return total
