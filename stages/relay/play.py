"""Answers a trial's conversations from a recording."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from stages.relay.answer import Answer, Call, error_answer
from stages.relay.asked import Asked
from stages.relay.message import fresh_id, make_message
from stages.relay.recording import MAIN, Recording, Turn, rebind
from stages.relay.stream import as_stream
from stages.relay.usage import TokenCount

SHOWN = 300
"""Characters of what came instead of what was expected."""


class PartedError(Exception):
    """The recording and the conversation do not fit each other."""


class Player:
    """The source of one trial's answers. Once parted, it answers nothing any more."""

    def __init__(self, recording: Recording, place: str, project: str | None) -> None:
        self._recording = recording
        self._place = place
        self._project = project
        self._furthest: Counter[str] = Counter()
        self.parted: str | None = None

    def name(self, asked: Asked, agent: str | None, taken: set[str]) -> str:
        """The conversation that a request begins; each subagent gets one of its own."""
        if asked.agent_id is None:
            return MAIN
        for name, conversation in self._recording.conversations.items():
            if name not in taken and conversation.fits(name, agent, asked.opening, asked.system):
                return name
        return f"(unrecorded subagent {agent or 'of unknown type'})"

    async def send(self, call: Call) -> Answer:
        """See `Source`; a request that does not fit is answered with an error that says why."""
        asked = call.asked
        if call.path.partition("?")[0].endswith("/count_tokens"):
            count = len(call.body) // 4
            return Answer(200, json.dumps({"input_tokens": count}).encode())
        if call.whose is None:
            return _as_asked(asked, [{"type": "text", "text": _harmless(asked)}], TokenCount())
        try:
            if self.parted is not None:
                raise PartedError(self.parted)
            turn = self._turn(call.whose, asked)
            project = self._project or asked.project
            content = _content(turn, project)
        except PartedError as error:
            self.parted = str(error)
            return error_answer(400, "invalid_request_error", self.parted, final=True)
        self._furthest[call.whose] = max(self._furthest[call.whose], asked.turn)
        return _as_asked(asked, content, turn.tokens())

    def turn(self, whose: str, number: int) -> Turn | None:
        """The recorded turn, if there is one."""
        conversation = self._recording.conversations.get(whose)
        return conversation.turn(number) if conversation else None

    def unplayed(self) -> dict[str, int]:
        """How many turns of each conversation were not asked for."""
        left = {
            name: conversation.length - self._furthest[name]
            for name, conversation in self._recording.conversations.items()
        }
        return {name: number for name, number in left.items() if number}

    def _turn(self, whose: str, asked: Asked) -> Turn:
        """The turn that is asked for, after its expectations."""

        def part(expected: str, got: str) -> PartedError:
            shown = got if len(got) <= SHOWN else f"{got[:SHOWN]}... ({len(got)} characters)"
            return PartedError(
                f"The recording {self._place} parts from the conversation at {whose}, "
                f"turn {asked.turn}: expected {expected}; got {shown}"
            )

        conversation = self._recording.conversations.get(whose)
        if conversation is None:
            raise part("no such conversation", f"one that begins with {asked.opening!r}")
        turn = conversation.turn(asked.turn)
        if turn is None:
            raise part(f"at most {conversation.length} turns", "a request for one more")
        results = "\n".join(asked.results)
        if asked.failed != turn.expect.tool_error:
            wanted = "an error among the tool results" if turn.expect.tool_error else "no error"
            raise part(wanted, repr(results))
        for text in turn.expect.result:
            if (wanted := self._bound(text, asked)) not in results:
                raise part(f"{wanted!r} in the tool results", repr(results))
        for text in turn.expect.message:
            if (wanted := self._bound(text, asked)) not in asked.said:
                raise part(f"{wanted!r} in the message", repr(asked.said))
        for tool in (*turn.expect.tools, *turn.tools):
            if tool not in asked.tools:
                offered = ", ".join(sorted(asked.tools))
                by_name = "it by name only, to be loaded first (ENABLE_TOOL_SEARCH=false offers it)"
                raise part(f"the tool {tool}", by_name if tool in asked.deferred else offered)
        return turn

    def _bound(self, text: str, asked: Asked) -> str:
        return str(rebind(text, self._project or asked.project or "{project}"))


def _content(turn: Turn, project: str | None) -> list[dict[str, Any]]:
    """The turn's blocks as the API gives them, bound to the present work directory."""
    made: list[dict[str, Any]] = []
    for block in turn.answer:
        if block.text is not None:
            made.append({"type": "text", "text": block.text})
        elif block.thinking is not None:
            made.append({"type": "thinking", "thinking": block.thinking, "signature": "replay"})
        else:
            call = {"type": "tool_use", "id": fresh_id("toolu"), "name": block.tool}
            made.append({**call, "input": dict(block.input or {})})
    if project is None and "{project}" in json.dumps(made):
        raise PartedError(
            "The request does not name its work directory, which the recording needs."
        )
    return [rebind(block, project or "") for block in made]


def _as_asked(asked: Asked, content: list[dict[str, Any]], tokens: TokenCount) -> Answer:
    message = make_message(asked.model, content, tokens)
    if asked.stream:
        return Answer(200, as_stream(message))
    return Answer(200, json.dumps(message).encode())


def _harmless(asked: Asked) -> str:
    """What a side request is told: the least that its schema allows."""
    return json.dumps(_least(asked.schema)) if asked.schema else "replay"


def _least(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", ())
        return {key: _least(schema.get("properties", {}).get(key, {})) for key in required}
    least: dict[str, Any] = {"array": [], "string": "replay", "boolean": False}
    return least.get(str(kind), 0 if kind in ("integer", "number") else None)
