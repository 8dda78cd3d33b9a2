"""The relay as an ASGI application, whatever serves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stages.relay.message import make_error
from stages.relay.trial import Trial

SERVED = ("/v1/messages", "/v1/messages/count_tokens")
PROBED = ("", "/", "/api/hello")
"""What the CLI asks for to see whether anyone is there."""
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def make_app(trials: Mapping[str, Trial], strangers: Counter[str]) -> Starlette:
    """The application over the open trials by token.

    Calls without a valid token are counted in `strangers`, by method.
    """

    async def handle(request: Request) -> Response:
        token, _, rest = request.url.path.lstrip("/").partition("/")
        trial = trials.get(token)
        if trial is None:
            strangers[request.method] += 1
            return _error(404, "not_found_error", "There is no such trial")
        path = f"/{rest}" if rest else ""
        if request.method == "POST" and path in SERVED:
            query = f"?{request.url.query}" if request.url.query else ""
            return await trial.answer(path + query, dict(request.headers), await request.body())
        if request.method in ("GET", "HEAD") and path in PROBED:
            return Response(status_code=200)
        trial.meter.refused[f"{request.method} {path or '/'}"] += 1
        return _error(404, "not_found_error", f"The relay does not serve {request.method} {path}")

    return Starlette(routes=[Route("/{path:path}", handle, methods=METHODS)])


def _error(status: int, kind: str, message: str) -> Response:
    return Response(make_error(kind, message), status, media_type="application/json")
