"""Writes the model's side of a trial's conversations down as it passes."""

from __future__ import annotations

from typing import Any

from stages.relay.asked import Asked
from stages.relay.message import Collector
from stages.relay.recording import MAIN, Block, Conversation, Expect, Recording, Turn, unbind


class Recorder:
    """Collects the turns of one trial.

    It keeps text, thinking, tool calls and token counts; never an id, a signature or a header.
    """

    def __init__(self, project: str | None) -> None:
        self._project = project
        self._turns: dict[str, dict[int, Turn]] = {}
        self._agents: dict[str, str] = {}
        self._shortened: str | None = None

    def name(self, asked: Asked, agent: str | None, taken: set[str]) -> str:
        """A name for the conversation that a request begins: the agent's type, numbered."""
        if asked.agent_id is None:
            return MAIN
        kind = agent or "subagent"
        number = 1
        while (name := kind if number == 1 else f"{kind}-{number}") in taken:
            number += 1
        self._agents[name] = kind
        return name

    def take(self, whose: str, asked: Asked, answer: Collector) -> None:
        """Keep one whole answer; a call that was sent again replaces what it got before."""
        project = self._project or asked.project
        made = tuple(
            block for part in answer.content if (block := _block(part, project)) is not None
        )
        if made:
            turn = Turn(expect=Expect(tool_error=asked.failed), answer=made, usage=answer.tokens)
            turns = self._turns.setdefault(whose, {})
            if asked.turn < max(turns, default=0):
                self._shortened = f"{whose}: its history was shortened after turn {max(turns)}"
            turns[asked.turn] = turn

    def recording(self, about: str) -> Recording | None:
        """What was recorded; None when the main agent was never answered."""
        if MAIN not in self._turns:
            return None
        return Recording(
            about=about,
            conversations={
                name: Conversation(
                    agent=kind if (kind := self._agents.get(name)) != name else None,
                    turns=tuple(turns[number] for number in sorted(turns)),
                )
                for name, turns in self._turns.items()
            },
        )

    def gaps(self) -> str | None:
        """Why the recording is not whole, in one sentence; None where it is."""
        if MAIN not in self._turns:
            return "the main agent got no whole answer"
        if self._shortened is not None:
            return self._shortened
        for name, turns in self._turns.items():
            if sorted(turns) != list(range(1, len(turns) + 1)):
                missing = sorted(set(range(1, max(turns))) - set(turns))
                return f"{name}: no whole answer for turns {', '.join(map(str, missing))}"
        return None


def _block(part: dict[str, Any], project: str | None) -> Block | None:
    """A content block without what is the account's; None for what cannot be played."""
    kind = part.get("type")
    if kind == "text" and part.get("text"):
        return Block(text=unbind(part["text"], project))
    if kind == "thinking" and part.get("thinking"):
        return Block(thinking=unbind(part["thinking"], project))
    if kind == "tool_use":
        given = unbind(part.get("input") or {}, project)
        return Block(tool=str(part["name"]), input=given)
    return None
