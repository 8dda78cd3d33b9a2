"""A request to the Messages API, read for what the relay needs to know of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

AGENT_HEADER = "x-claude-code-agent-id"
"""What the CLI sends with every call of a subagent: one id for one subagent."""

_WORK_DIRECTORY = re.compile(r"[Ww]orking directory: (/[^\n]*)")
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """One request."""

    model: str
    stream: bool
    agent_id: str | None
    """The subagent's; None for the main agent."""
    turn: int
    """Which answer is asked for, from 1: one more than the history holds.

    So a call that is sent again asks for the same turn, and no call uses one up.
    """
    tools: frozenset[str]
    side: bool
    """Whether it belongs to no conversation: the CLI asks for a title, or probes."""
    system: str
    opening: str
    """The first message's text, without what the CLI adds to it."""
    project: str | None
    """The work directory, as the CLI tells it to the model."""
    results: tuple[str, ...]
    """Text of the tool results since the last answer, without what the CLI adds to it."""
    failed: bool
    """Whether one of those is an error."""
    said: str
    """All text since the last answer that is no tool result."""
    deferred: frozenset[str]
    """Tools that are offered by name only, to be loaded first."""
    schema: Mapping[str, Any] | None
    """The JSON schema that the answer must follow."""


def read_request(body: Mapping[str, Any], headers: Mapping[str, str]) -> Asked:
    """Read a request's body; raises `ValueError` on one that is no Messages request."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("messages: a list with at least one message is required")
    if not isinstance(body.get("model"), str):
        raise ValueError("model: a name is required")
    roles = [message.get("role") for message in messages]
    last = max((i for i, role in enumerate(roles) if role == "assistant"), default=-1)
    since = [block for message in messages[last + 1 :] for block in blocks(message)]
    results = [block for block in since if block.get("type") == "tool_result"]
    system = "\n".join(_texts(body.get("system", "")))
    first = "\n".join(_texts(messages[0].get("content", "")))
    tools = frozenset(str(tool.get("name")) for tool in body.get("tools") or ())
    found = _WORK_DIRECTORY.search(system) or _WORK_DIRECTORY.search(first)
    offered = re.search(r"deferred tools are now available.*?\n(?P<names>(?:[\w-]+\n)+)", first)
    return Asked(
        model=body["model"],
        stream=body.get("stream") is True,
        agent_id=headers.get(AGENT_HEADER),
        turn=1 + sum(role == "assistant" for role in roles),
        tools=tools,
        side=not tools or body.get("max_tokens") == 1,
        system=system,
        opening=_REMINDER.sub("", first).strip(),
        project=found[1].rstrip() if found else None,
        results=tuple(
            _REMINDER.sub("", "\n".join(_texts(block.get("content", "")))).strip()
            for block in results
        ),
        failed=any(block.get("is_error") is True for block in results),
        said="\n".join(str(block["text"]) for block in since if block.get("type") == "text"),
        deferred=frozenset(offered["names"].split()) if offered else frozenset(),
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
    )


def blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message's content blocks; plain text becomes one."""
    content = message.get("content", "")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)]


def _texts(content: Any) -> Iterator[str]:
    for block in blocks({"content": content}):
        if block.get("type") == "text":
            yield str(block.get("text", ""))
