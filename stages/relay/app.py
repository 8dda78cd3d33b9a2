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
            strangers[request.method] += 1
            return _error(404, "not_found_error", "There is no such trial")
        asked = request.headers.get("host", "")
        if asked != host:
            trial.meter.refused[f"{request.method} {asked or '(no host)'}{path}"] += 1
            return _error(403, "permission_error", f"The relay is {host}, and no way to {asked}")
        if request.method == "POST" and path in SERVED:
            query = f"?{request.url.query}" if request.url.query else ""
            return await trial.answer(path + query, dict(request.headers), await request.body())
        if request.method in ("GET", "HEAD") and path in PROBED:
            return Response(status_code=200)
        trial.meter.refused[f"{request.method} {path or '/'}"] += 1
        return _error(404, "not_found_error", f"The relay does not serve {request.method} {path}")

    return app


def _error(status: int, kind: str, message: str) -> Response:
    return Response(make_error(kind, message), status, media_type="application/json")
