"""Answers of the Messages API: made, as a stream or whole, and read back from one."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stages.relay.usage import TokenCount

PIECE = 64
"""Characters of a delta."""


def fresh_id(kind: str) -> str:
    """An id like the API's, `msg_...` or `toolu_...`; never the same twice."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"


def make_message(model: str, content: list[dict[str, Any]], tokens: TokenCount) -> dict[str, Any]:
    """The plain form of an answer. Its stop reason follows from whether a tool is called."""
    calls = any(block["type"] == "tool_use" for block in content)
    return {
        "id": fresh_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cache_read_input_tokens": tokens.cache_read,
            "cache_creation_input_tokens": tokens.cache_write,
        },
    }


def make_events(message: dict[str, Any]) -> Iterator[bytes]:
    """The streamed form of an answer, event by event."""
    usage = message["usage"]
    start = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": min(1, usage["output_tokens"])},
    }
    yield _event("message_start", message=start)
    for index, block in enumerate(message["content"]):
        empty, deltas = _pieces(block)
        yield _event("content_block_start", index=index, content_block=empty)
        if index == 0:
            yield _event("ping")
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=usage)
    yield _event("message_stop")


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it starts, and the deltas that fill it."""
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _cut(block["text"])]
        return {"type": "text", "text": ""}, deltas
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": p} for p in _cut(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    written = json.dumps(block["input"], ensure_ascii=False)
    deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *_cut(written)]]
    return {**block, "input": {}}, deltas


def _cut(text: str) -> list[str]:
    return [text[i : i + PIECE] for i in range(0, len(text), PIECE)]


def _event(kind: str, **data: Any) -> bytes:
    written = json.dumps({"type": kind, **data}, ensure_ascii=False)
    return f"event: {kind}\ndata: {written}\n\n".encode()


def make_error(kind: str, message: str) -> bytes:
    """An error as the API words it."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


@dataclass
class Collector:
    """Puts an answer together from its events, or takes it whole, without changing it."""

    model: str = ""
    content: list[dict[str, Any]] = field(default_factory=list)
    tokens: TokenCount = field(default_factory=TokenCount)
    written_1h: int = 0
    """Of the cache writes, those for an hour."""
    whole: bool = False
    """Whether the answer came to its end."""
    _json: dict[int, str] = field(default_factory=dict)
    _usage: dict[str, Any] = field(default_factory=dict)

    def take_message(self, message: dict[str, Any]) -> None:
        """Take a plain answer."""
        self.model = str(message.get("model", self.model))
        self.content = list(message.get("content") or ())
        self._count(message.get("usage"))
        self.whole = True

    def take_event(self, event: bytes) -> None:
        """Take one event of a stream; what is no event of the API is passed over."""
        lines = event.decode("utf-8", errors="replace").split("\n")
        data = "\n".join(line[5:].lstrip() for line in lines if line.startswith("data:"))
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            self._take(json.loads(data))

    def _take(self, value: dict[str, Any]) -> None:
        kind, index = value.get("type"), value.get("index", 0)
        if kind == "message_start":
            self.model = str(value["message"].get("model", self.model))
            self._count(value["message"].get("usage"))
        elif kind == "content_block_start":
            self.content.append(dict(value["content_block"]))
        elif kind == "content_block_delta" and index < len(self.content):
            self._fill(index, value["delta"])
        elif kind == "content_block_stop" and index in self._json:
            # A model may write what is no JSON; the client sees it, here nothing hangs on it.
            with contextlib.suppress(ValueError):
                self.content[index]["input"] = json.loads(self._json.pop(index) or "{}")
        elif kind == "message_delta":
            self._count(value.get("usage"))
        elif kind == "message_stop":
            self.whole = True

    def _fill(self, index: int, delta: dict[str, Any]) -> None:
        block = self.content[index]
        for key in ("text", "thinking", "signature"):
            if key in delta:
                block[key] = block.get(key, "") + delta[key]
        if "partial_json" in delta:
            self._json[index] = self._json.get(index, "") + delta["partial_json"]

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Take usage numbers; those of a later event replace the earlier ones."""
        self._usage |= {key: n for key, n in (usage or {}).items() if n is not None}
        self.tokens = TokenCount(
            input=self._usage.get("input_tokens", 0),
            output=self._usage.get("output_tokens", 0),
            cache_read=self._usage.get("cache_read_input_tokens", 0),
            cache_write=self._usage.get("cache_creation_input_tokens", 0),
        )
        hour = (self._usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
        self.written_1h = min(int(hour), self.tokens.cache_write)
