"""Streams of events: made from a message, cut on purpose, and counted as they pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Send

from stages.relay.answer import EVENT_STREAM, StreamCutError
from stages.relay.message import make_events

INCOMPLETE = "ASGI callable returned without completing response."
"""What uvicorn logs when it drops a connection in the middle of an answer, as it is to."""


async def as_stream(message: dict[str, Any]) -> AsyncIterator[bytes]:
    """An answer's events, each on its own."""
    for event in make_events(message):
        yield event
        await asyncio.sleep(0)


async def cut_short(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The first events of a stream, or the first half of a whole body; then the end of the line."""
    if isinstance(body, bytes):
        yield body[: len(body) // 2]
    else:
        started = 0
        async for event in body:
            yield event
            started += b"content_block_delta" in event
            if started == 1:
                break
    raise StreamCutError("on purpose")


class Streamed(StreamingResponse):
    """A stream that ends without its end where its source was cut.

    The server then drops the connection, so that the client sees what it would see of the
    endpoint.
    """

    media_type = EVENT_STREAM

    async def stream_response(self, send: Send) -> None:
        """Send everything; see the class."""
        try:
            await super().stream_response(send)
        except StreamCutError:
            return
