"""The model's endpoint: the only place that opens a connection, and that holds the credential."""

from __future__ import annotations

import contextlib
import email.utils
import time
from collections.abc import AsyncIterator, Mapping

import httpx
from pydantic import SecretStr

from stages.common.errors import UserError
from stages.relay.answer import EVENT_STREAM, Answer, Call, StreamCutError, UnreachableError
from stages.relay.asked import AGENT_HEADER
from stages.relay.config import RelayConfig
from stages.relay.credential import credential_headers, redact

FORWARDED = (
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "user-agent",
    "x-app",
    AGENT_HEADER,
)
"""Of a sandbox's headers, what the endpoint may see: no key and no cookie."""

RETURNED = ("x-should-retry",)
"""Of the endpoint's headers, what the sandbox may see beside type and `retry-after`."""


class Endpoint:
    """Sends calls to the configured base URL. Used inside one event loop."""

    def __init__(self, config: RelayConfig, secret: SecretStr | None) -> None:
        self._config = config
        self._secret = secret
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(config.timeout_s, connect=10))

    async def close(self) -> None:
        """Drop all connections."""
        await self._client.aclose()

    async def send(self, call: Call) -> Answer:
        """One try. The body is a stream of events where the endpoint streams.

        Raises:
            UnreachableError: there was no answer.
        """
        request = self._client.build_request(
            "POST",
            self._config.base_url.rstrip("/") + call.path,
            headers=request_headers(call.headers, self._config, self._secret),
            content=call.body,
        )
        try:
            response = await self._client.send(request, stream=True)
            headers = {key: response.headers[key] for key in RETURNED if key in response.headers}
            after = retry_after(response.headers.get("retry-after"))
            if response.headers.get("content-type", "").startswith(EVENT_STREAM):
                return Answer(response.status_code, self._events(response), after, headers)
            try:
                body = redact(await response.aread(), self._secret)
            finally:
                await response.aclose()
            return Answer(response.status_code, body, after, headers)
        except httpx.TransportError as error:
            raise UnreachableError(f"{type(error).__name__}: {error}") from None

    async def _events(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """The events, each as it came; raises `StreamCutError` when the endpoint breaks off."""
        held = b""
        try:
            async for data in response.aiter_bytes():
                held += data.replace(b"\r\n", b"\n")
                *events, held = held.split(b"\n\n")
                for event in events:
                    yield redact(event + b"\n\n", self._secret)
            if held:
                yield redact(held, self._secret)
        except httpx.TransportError as error:
            raise StreamCutError(f"{type(error).__name__}: {error}") from None
        finally:
            await response.aclose()


def request_headers(
    given: Mapping[str, str], config: RelayConfig, secret: SecretStr | None
) -> dict[str, str]:
    """What the endpoint is told: the sandbox's harmless headers and the real credential."""
    headers = {key: given[key] for key in FORWARDED if key in given}
    headers.setdefault("anthropic-version", "2023-06-01")
    headers["content-type"] = "application/json"
    if config.credential is not None and secret is not None:
        added = credential_headers(config.credential, secret)
        betas = [headers.get("anthropic-beta", ""), added.pop("anthropic-beta", "")]
        headers |= added
        if any(betas):
            headers["anthropic-beta"] = ",".join(beta for beta in betas if beta)
    return headers


def retry_after(value: str | None) -> float | None:
    """Seconds that a `retry-after` header asks for, given as such or as a date."""
    if not value:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


def check_endpoint(config: RelayConfig, secret: SecretStr | None) -> str:
    """Ask the endpoint once, for its list of models, whether it takes the credential.

    Returns what is amiss and may pass (an endpoint that is down), else nothing.

    Raises:
        UserError: it answers 401 or 403.
    """
    url = config.base_url.rstrip("/") + "/v1/models"
    try:
        response = httpx.get(url, headers=request_headers({}, config, secret), timeout=20)
    except httpx.TransportError as error:
        return f"{config.base_url} cannot be reached: {type(error).__name__}"
    if response.status_code in (401, 403):
        name = config.credential.variable if config.credential else "(none)"
        raise UserError(
            f"the model's endpoint refuses the credential with {response.status_code}",
            where=f"{config.base_url}, credential from {name}",
            remedy=f"put a valid one into {name}, or correct `base_url` or the credential's "
            "kind in conf/model; `model=replay` needs none",
        )
    return ""
