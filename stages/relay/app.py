"""The relay as an ASGI application, whatever serves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from stages.relay.message import make_error
from stages.relay.trial import Trial

SERVED = ("/v1/messages", "/v1/messages/count_tokens")
PROBED = ("", "/", "/api/hello")
"""What the CLI asks for to see whether anyone is there."""

LARGEST = 32 << 20
"""Bytes of the largest request that the Messages API takes."""
MOST_NAMED = 100
"""How many different refused calls are told apart; an agent could make up any number."""
LONGEST_NAME = 200
OTHERS = "others"

Find = Callable[[str], tuple[Trial | None, str]]
"""From a request's path to the trial that it belongs to, and the path without what told so."""


def by_token(trials: Mapping[str, Trial]) -> Find:
    """Trials share one address: the first part of the path is a trial's secret token."""

    def find(path: str) -> tuple[Trial | None, str]:
        token, _, rest = path.lstrip("/").partition("/")
        return trials.get(token), f"/{rest}" if rest else ""

    return find


def always(trial: Trial) -> Find:
    """A trial has the address to itself."""
    return lambda path: (trial, path)


def make_app(find: Find, host: str, strangers: Counter[str]) -> ASGIApp:
    """The application: the Messages API under the `Host` of its own address, and nothing else.

    What is refused is counted: by the trial's meter, or in `strangers` where it is no trial's.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            response = await _handle(Request(scope, receive))
            await response(scope, receive, send)

    async def _handle(request: Request) -> Response:
        trial, path = find(request.scope["path"])
        if trial is None:
            _note(strangers, request.method)
            return _error(404, "not_found_error", "There is no such trial")
        asked = request.headers.get("host", "")
        if asked != host:
            # A target that is no path names its host itself.
            place = f"{asked or '(no host)'}{path}" if path[:1] in ("", "/") else path
            _note(trial.meter.refused, f"{request.method} {place}")
            return _error(403, "permission_error", f"The relay is {host}, and no way to {asked}")
        if request.method == "POST" and path in SERVED:
            query = f"?{request.url.query}" if request.url.query else ""
            body = await _read(request)
            if body is None:
                return _error(413, "request_too_large", f"More than {LARGEST} bytes")
            return await trial.answer(path + query, dict(request.headers), body)
        if request.method in ("GET", "HEAD") and path in PROBED:
            return Response(status_code=200)
        _note(trial.meter.refused, f"{request.method} {path or '/'}")
        return _error(404, "not_found_error", f"The relay does not serve {request.method} {path}")

    return app


async def _read(request: Request) -> bytes | None:
    """A request's body; None where it is too large to be kept."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            return None
    return bytes(body)


def _note(refused: Counter[str], what: str) -> None:
    what = what[:LONGEST_NAME]
    refused[what if what in refused or len(refused) < MOST_NAMED else OTHERS] += 1


def _error(status: int, kind: str, message: str) -> Response:
    return Response(make_error(kind, message), status, media_type="application/json")
