"""Turns the SDK's messages into the events of trace.json, each with whose it is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    Message,
    ResultMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from stages.agent.models import Event

MAIN = "main"
SUBAGENT_TOOLS = ("Agent", "Task")
"""What the CLI calls, or has called, the tool that starts a subagent."""


class Trace:
    """Collects events in the order in which they come."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.turn = 0
        self._started = time.monotonic()
        self._owners: dict[str, str] = {}
        """The subagent that each use of `Agent` started."""
        self._messages: set[str] = set()

    def owner(self, parent: str | None) -> str:
        """Whose a message is, by the tool use that started its conversation."""
        return MAIN if parent is None else self._owners.get(parent, "subagent")

    def add(self, message: Message) -> None:
        """Take one message of the SDK."""
        if isinstance(message, AssistantMessage):
            who = self.owner(message.parent_tool_use_id)
            if who == MAIN and message.message_id not in self._messages:
                self.turn += 1
                self._messages.add(message.message_id or "")
            for block in message.content:
                self._add_block(who, block)
        elif isinstance(message, UserMessage):
            who = self.owner(message.parent_tool_use_id)
            if isinstance(message.content, str):
                self._append(who, "text", message.content, role="user")
            else:
                for block in message.content:
                    self._add_block(who, block, role="user")
        elif isinstance(message, ResultMessage):
            self._append(MAIN, "result", message.result or message.subtype)

    def _add_block(self, who: str, block: Any, role: str = "assistant") -> None:
        if isinstance(block, TextBlock):
            self._append(who, "text", block.text, role=role)
        elif isinstance(block, ThinkingBlock):
            self._append(who, "thinking", block.thinking)
        elif isinstance(block, ToolUseBlock):
            if block.name in SUBAGENT_TOOLS:
                self._owners[block.id] = str(block.input.get("subagent_type", "subagent"))
            text = json.dumps(block.input, ensure_ascii=False, sort_keys=True)
            self._append(who, "tool_use", text, tool=block.name, tool_id=block.id)
        elif isinstance(block, ToolResultBlock):
            self._append(
                who,
                "tool_result",
                plain(block.content),
                tool_id=block.tool_use_id,
                error=bool(block.is_error),
            )

    def _append(
        self,
        who: str,
        kind: str,
        text: str,
        *,
        role: str = "assistant",
        tool: str | None = None,
        tool_id: str | None = None,
        error: bool = False,
    ) -> None:
        self.events.append(
            Event(
                time_s=round(time.monotonic() - self._started, 3),
                turn=self.turn,
                who=who,
                kind=kind,
                text=text,
                role=role,
                tool=tool,
                tool_id=tool_id,
                error=error,
            )
        )


def plain(content: str | Iterable[dict[str, Any]] | None) -> str:
    """A tool result's text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(
        str(item["text"]) if item.get("type") == "text" else f"[{item.get('type')}]"
        for item in content
    )
