"""A trial's trace as Inspect's messages and events: main's conversation, and all that happened.

Needs the extra `inspect`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from inspect_ai.event import InfoEvent, ModelEvent, SpanBeginEvent, SpanEndEvent, ToolEvent
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
)
from inspect_ai.tool import ToolCall, ToolCallError

from stages.agent.models import Event
from stages.report.export.read import clean

MAIN = "main"
DEEPEST = 40
"""Levels of a tool's input that are kept as such; a deeper one stays the text that it is."""


@dataclass
class Transcript:
    """What a sample holds of a trace."""

    messages: list[ChatMessage] = field(default_factory=list)
    """Main's conversation, without the verifier's."""
    events: list[Any] = field(default_factory=list)
    """Everything, in order; another agent's events are in a span of its name."""
    last: str = ""
    """What the trial ended with."""


def make_transcript(
    events: Sequence[Event], instruction: str, model: str, name: str, began: datetime.datetime
) -> Transcript:
    """The trace of trial `name`, that began at `began`, as messages and events."""
    made = Transcript()
    if instruction:
        opening = ChatMessageUser(id=f"{name}/task", content=clean(instruction), source="input")
        made.messages.append(opening)
    placed: list[tuple[float, Any]] = []
    for who in dict.fromkeys(event.who for event in events):
        own = [(place, event) for place, event in enumerate(events) if event.who == who]
        span = None if who == MAIN else f"{name}/{who}"
        agent = _Agent(name, clean(who), span, model, began)
        messages = list(agent.messages(own))
        if who == MAIN:
            made.messages += messages
        placed += agent.placed
        if span is not None:
            placed += agent.span(own)
    made.events = [event for _, event in sorted(placed, key=lambda pair: pair[0])]
    ends = [event.text for event in events if event.kind == "result"]
    made.last = clean(ends[-1]) if ends else ""
    return made


class _Agent:
    """Turns one agent's part of a trace into messages; `placed` collects the events."""

    def __init__(
        self, name: str, who: str, span: str | None, model: str, began: datetime.datetime
    ) -> None:
        self.name = name
        self.who = who
        self.span_id = span
        self.model = model
        self.began = began
        self.placed: list[tuple[float, Any]] = []
        """Position in the trace, and the event."""

    def messages(self, own: list[tuple[int, Event]]) -> Iterator[ChatMessage]:
        """The agent's messages in order: what it says and calls at once is one of them."""
        tools = {event.tool_id: event.tool or "" for _, event in own if event.kind == "tool_use"}
        results = {event.tool_id: event for _, event in own if event.kind == "tool_result"}
        waiting: list[tuple[int, Event]] = []
        for place, event in own:
            if waiting and _starts_anew(waiting, event):
                yield self._assistant(waiting, results)
                waiting = []
            if event.kind == "tool_result":
                if event.tool_id not in tools:
                    self._info(place, event, "tool result without a call")
                yield ChatMessageTool(
                    id=f"{self.name}/{place}",
                    content=clean(event.text),
                    tool_call_id=_call_id(event, place),
                    function=clean(tools.get(event.tool_id, "")),
                    error=_error(event),
                    metadata=self._marks(event),
                )
            elif event.kind == "result":
                self._info(place, event, f"end of {self.who}")
            elif event.role == "user":
                self._info(place, event, f"said to {self.who}")
                yield ChatMessageUser(
                    id=f"{self.name}/{place}",
                    content=clean(event.text),
                    metadata=self._marks(event),
                )
            else:
                waiting.append((place, event))
        if waiting:
            yield self._assistant(waiting, results)

    def span(self, own: list[tuple[int, Event]]) -> Iterator[tuple[float, Any]]:
        """The beginning and the end of the span that holds another agent's events."""
        assert self.span_id is not None
        (start, first), (end, last) = own[0], own[-1]
        begin = SpanBeginEvent(
            id=self.span_id, span_id=self.span_id, name=self.who, type="agent", **self._at(first)
        )
        yield start - 0.5, begin
        yield end + 0.5, SpanEndEvent(id=self.span_id, span_id=self.span_id, **self._at(last))

    def _assistant(
        self, parts: list[tuple[int, Event]], results: dict[str | None, Event]
    ) -> ChatMessageAssistant:
        content: list[Content] = []
        calls: list[ToolCall] = []
        (place, first) = parts[0]
        for number, event in parts:
            if event.kind == "tool_use":
                call = _call(event, number)
                calls.append(call)
                self._tool(number, event, call, results.get(event.tool_id))
            elif event.kind == "thinking":
                content.append(ContentReasoning(reasoning=clean(event.text)))
            else:
                content.append(ContentText(text=clean(event.text)))
        message = ChatMessageAssistant(
            id=f"{self.name}/{place}",
            content=content,
            tool_calls=calls or None,
            model=self.model,
            source="generate",
            metadata=self._marks(first),
        )
        stop = "tool_calls" if calls else "stop"
        choice = ChatCompletionChoice(message=message, stop_reason=stop)
        said = ModelEvent(
            model=self.model,
            role=None if self.span_id is None else self.who,
            input=[],
            tools=[],
            tool_choice="auto",
            config=GenerateConfig(),
            output=ModelOutput(model=self.model, choices=[choice]),
            span_id=self.span_id,
            **self._at(first),
        )
        # Before the calls that it makes.
        self.placed.append((place - 0.25, said))
        return message

    def _tool(self, place: int, event: Event, call: ToolCall, result: Event | None) -> None:
        made = ToolEvent(
            id=call.id,
            function=call.function,
            arguments=call.arguments,
            result=clean(result.text) if result else "",
            error=_error(result) if result else None,
            completed=self._time(result) if result else None,
            working_time=max(result.time_s - event.time_s, 0.0) if result else None,
            span_id=self.span_id,
            **self._at(event),
        )
        self.placed.append((place, made))

    def _info(self, place: int, event: Event, source: str) -> None:
        info = InfoEvent(
            source=source, data=clean(event.text), span_id=self.span_id, **self._at(event)
        )
        self.placed.append((place, info))

    def _marks(self, event: Event) -> dict[str, Any]:
        return {"who": self.who, "turn": event.turn, "time_s": event.time_s}

    def _at(self, event: Event) -> dict[str, Any]:
        return {"timestamp": self._time(event), "working_start": event.time_s}

    def _time(self, event: Event) -> datetime.datetime:
        return self.began + datetime.timedelta(seconds=event.time_s)


def _starts_anew(waiting: list[tuple[int, Event]], event: Event) -> bool:
    """Whether an event is no part of the message that its forerunners make up."""
    _, last = waiting[-1]
    if event.kind in ("tool_result", "result") or event.role == "user":
        return True
    return event.turn != last.turn or (last.kind == "tool_use" and event.kind != "tool_use")


def _call_id(event: Event, place: int) -> str:
    return clean(event.tool_id) if event.tool_id else f"call-{place}"


def _call(event: Event, place: int) -> ToolCall:
    text = clean(event.text)
    arguments: dict[str, Any] = {"input": text}
    fault: str | None = None
    try:
        given = json.loads(text)
        if isinstance(given, dict):
            arguments = _cleaned(given)
        else:
            fault = "the input is no object"
    except (ValueError, RecursionError) as error:
        fault = f"the input cannot be read: {error}"
    return ToolCall(
        id=_call_id(event, place),
        function=clean(event.tool or "unknown"),
        arguments=arguments,
        parse_error=fault,
    )


def _cleaned(value: Any, level: int = 0) -> Any:
    """A tool's input with its texts cleaned; raises `ValueError` for what Inspect cannot hold."""
    if level > DEEPEST:
        raise ValueError(f"more than {DEEPEST} levels")
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, level + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, level + 1) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, float) and value - value != 0:
        return str(value)  # infinity and NaN are no JSON
    return value


def _error(event: Event) -> ToolCallError | None:
    return ToolCallError("unknown", clean(event.text)) if event.error else None
