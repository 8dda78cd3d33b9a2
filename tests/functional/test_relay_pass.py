"""The relay between a client and an endpoint: credential, pauses, counts, and what it writes down.

The endpoint is a server of the test's own, on a port of this machine.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stages.common.errors import UserError
from stages.relay.config import Credential, Price, RelayConfig
from stages.relay.message import make_events, make_message
from stages.relay.recording import load_recording
from stages.relay.relay import Relay
from stages.relay.usage import TokenCount, Usage

CANARY = "sk-canary-0123456789"
VARIABLE = "RELAY_TEST_CREDENTIAL"
TOKENS = TokenCount(input=1000, output=200, cache_read=50, cache_write=40)
COST = (1000 * 3 + 200 * 15 + 50 * 0.3 + 40 * 3.75) / 1e6
TOOLS = [{"name": "Bash"}, {"name": "Agent"}]
Answers = list[Callable[[dict[str, Any]], Response]]


class Upstream:
    """Takes calls, keeps what it was told, and answers from a list, the last one for ever."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str, dict[str, str], Any]] = []
        self.answers: Answers = []
        self.models_status = 200
        app = Starlette(routes=[Route("/{path:path}", self._handle, methods=["GET", "POST"])])
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_config=None, log_level="critical", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: self._server.run([self._socket]))
        self._thread.start()

    async def _handle(self, request: Request) -> Response:
        body = await request.body()
        told = json.loads(body) if body else None
        self.seen.append((time.monotonic(), request.url.path, dict(request.headers), told))
        if request.url.path == "/v1/models":
            return JSONResponse({"data": []}, self.models_status)
        if request.url.path.endswith("/count_tokens"):
            return JSONResponse({"input_tokens": 77})
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(told)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


def says(*content: dict[str, Any]) -> Callable[[dict[str, Any]], Response]:
    """An endpoint's answer, streamed where that is asked for, with an account's headers."""
    account = {"request-id": "req_1", "anthropic-organization-id": "org_1"}

    def answer(told: dict[str, Any]) -> Response:
        message = make_message(told["model"], list(content), TOKENS)
        if told.get("stream"):
            events = make_events(message)
            return StreamingResponse(events, headers=account, media_type="text/event-stream")
        return JSONResponse(message, headers=account)

    return answer


def fails(status: int, **headers: str) -> Callable[[dict[str, Any]], Response]:
    error = {"type": "error", "error": {"type": "some_error", "message": f"not {CANARY}"}}
    return lambda _: JSONResponse(error, status, headers=headers)


HELLO = says({"type": "text", "text": "hello"})


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    monkeypatch.setenv(VARIABLE, CANARY)
    upstream = Upstream()
    yield upstream
    upstream.stop()


def config(upstream: Upstream, **more: Any) -> RelayConfig:
    given = {
        "mode": "pass",
        "base_url": upstream.url,
        "credential": Credential(variable=VARIABLE),
        "prices": {"m": Price(input=3, output=15, cache_read=0.3, cache_write=3.75)},
        "tries": 3,
        "pause_s": 0.05,
    }
    return RelayConfig(**{**given, **more})


def post(url: str, *history: dict[str, Any], **more: Any) -> httpx.Response:
    first = {"role": "user", "content": "Primary working directory: /w/p\nSolve it."}
    body = {"model": "m-1", "max_tokens": 9, "tools": TOOLS, "messages": [first, *history], **more}
    headers = {"x-api-key": "dummy", "authorization": "Bearer dummy", "anthropic-beta": "b"}
    return httpx.post(f"{url}/v1/messages?beta=true", json=body, headers=headers, timeout=30)


def closed(relay: Relay, name: str = "t") -> Usage:
    return relay.close_trial(name)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_passed_with_the_real_credential_and_counted(
    upstream: Upstream, stream: bool
) -> None:
    upstream.answers = [HELLO]
    with Relay(config(upstream)) as relay:
        assert relay.check() == ""
        url = relay.open_trial("t")
        answer = post(url, stream=stream)
        counted = httpx.post(
            f"{url}/v1/messages/count_tokens",
            json={"model": "m-1", "messages": [{"role": "user", "content": "x"}]},
        )
        usage = closed(relay)
    assert counted.json() == {"input_tokens": 77}
    assert "hello" in answer.text
    assert "request-id" not in answer.headers
    assert "anthropic-organization-id" not in answer.headers
    _, path, headers, told = upstream.seen[1]
    assert (path, headers["x-api-key"], headers["anthropic-beta"]) == ("/v1/messages", CANARY, "b")
    assert "authorization" not in headers
    assert told["messages"][0]["content"].endswith("Solve it.")
    assert (usage.requests, usage.token_counts, usage.tokens) == (1, 1, TOKENS)
    assert usage.cost_usd == pytest.approx(COST)


def test_a_stream_is_passed_event_by_event(upstream: Upstream) -> None:
    gap = 0.4

    async def slowly() -> AsyncIterator[bytes]:
        for event in make_events(make_message("m", [{"type": "text", "text": "hi"}], TOKENS)):
            # In two pieces, as a network would.
            yield event[:9]
            yield event[9:]
            if b"content_block_delta" in event:
                await asyncio.sleep(gap)

    upstream.answers = [lambda _: StreamingResponse(slowly(), media_type="text/event-stream")]
    with Relay(config(upstream)) as relay:
        url = relay.open_trial("t")
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        came = {}
        with httpx.stream("POST", f"{url}/v1/messages", json=body) as answer:
            for line in answer.iter_lines():
                came[line] = time.monotonic()
        assert came["event: message_stop"] - came["event: content_block_delta"] > gap / 2
        assert closed(relay).tokens == TOKENS


def test_a_rate_limit_holds_up_every_trial_for_as_long_as_it_says(upstream: Upstream) -> None:
    upstream.answers = [fails(429, **{"retry-after": "1"}), HELLO]
    with Relay(config(upstream)) as relay, ThreadPoolExecutor(2) as pool:
        urls = [relay.open_trial(name) for name in ("a", "b")]
        first = pool.submit(post, urls[0])
        while not upstream.seen:
            time.sleep(0.01)
        time.sleep(0.1)
        second = pool.submit(post, urls[1])
        assert {first.result().status_code, second.result().status_code} == {200}
        usages = [closed(relay, name) for name in ("a", "b")]
    refused, *later = (when for when, *_ in upstream.seen)
    assert all(when - refused > 0.95 for when in later)
    assert [usage.retries for usage in usages] == [1, 0]
    assert not any(usage.overloaded for usage in usages)


def test_an_overload_is_tried_with_growing_pauses_and_then_passed_on(upstream: Upstream) -> None:
    upstream.answers = [fails(529)]
    with Relay(config(upstream, tries=4, pause_s=0.1)) as relay:
        answer = post(relay.open_trial("t"))
        usage = closed(relay)
    assert answer.status_code == 529
    assert answer.json()["error"]["type"] == "some_error"
    assert answer.headers["x-should-retry"] == "false"
    times = [when for when, *_ in upstream.seen]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert len(pauses) == 3
    assert all(pause > least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True))
    assert (usage.retries, usage.overloaded, usage.unreachable) == (3, True, False)


def test_a_longer_wait_than_allowed_is_not_waited_for(upstream: Upstream) -> None:
    upstream.answers = [fails(429, **{"retry-after": "3600"})]
    with Relay(config(upstream)) as relay:
        answer = post(relay.open_trial("t"))
        usage = closed(relay)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")
    assert (usage.retries, usage.overloaded) == (0, True)


def test_other_errors_are_passed_on_at_once(upstream: Upstream) -> None:
    upstream.answers = [fails(400)]
    with Relay(config(upstream)) as relay:
        assert post(relay.open_trial("t")).status_code == 400
        usage = closed(relay)
    assert (usage.retries, usage.overloaded, usage.credential_refused) == (0, False, False)


def test_a_dead_port_is_told_apart_from_an_overload(upstream: Upstream) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Relay(config(upstream, base_url=dead)) as relay:
        assert "cannot be reached: ConnectError" in relay.check()
        answer = post(relay.open_trial("t"))
        usage = closed(relay)
    assert answer.status_code == 502
    assert "gives no answer: ConnectError" in answer.json()["error"]["message"]
    assert (usage.retries, usage.overloaded, usage.unreachable) == (2, False, True)


def test_a_stream_that_the_endpoint_cuts_is_cut_for_the_client(upstream: Upstream) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for event in list(make_events(make_message("m", [], TOKENS)))[:1]:
            yield event
        raise RuntimeError

    upstream.answers = [lambda _: StreamingResponse(broken(), media_type="text/event-stream")]
    with Relay(config(upstream)) as relay:
        url = relay.open_trial("t")
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            post(url, stream=True)
        usage = closed(relay)
    assert (usage.cut_streams, usage.faults, usage.tokens.input) == (1, {}, 1000)


def test_a_missing_credential_stops_before_the_first_trial(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE)
    with Relay(config(upstream, env_file=tmp_path / ".env")) as relay:
        with pytest.raises(UserError, match=rf"(?s){VARIABLE} is not set.*remedy: export"):
            relay.check()
        with pytest.raises(UserError, match=VARIABLE):
            relay.open_trial("t")
    assert upstream.seen == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_credential_stops_before_the_first_trial(upstream: Upstream, status: int) -> None:
    upstream.models_status = status
    upstream.answers = [fails(status)]
    with Relay(config(upstream)) as relay:
        with pytest.raises(UserError, match=rf"(?s)refuses the credential with {status}.*remedy"):
            relay.check()
        answer = post(relay.open_trial("t"))
        usage = closed(relay)
    assert answer.status_code == status
    assert usage.credential_refused


def test_an_endpoint_without_a_list_of_models_is_no_reason_to_stop(upstream: Upstream) -> None:
    upstream.models_status = 404
    with Relay(config(upstream, credential=None)) as relay:
        assert relay.check() == ""
    assert "x-api-key" not in upstream.seen[0][2]


def test_the_credential_shows_up_nowhere_but_upstream(
    upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "r.yaml"
    leak = says({"type": "text", "text": f"your key is {CANARY}"})
    upstream.answers = [leak, leak, fails(401), fails(529)]
    settings = config(upstream, mode="record")
    with Relay(settings) as relay:
        url = relay.open_trial("t", path)
        answers = [post(url), post(url, stream=True), post(url), post(url)]
        usage = closed(relay)
    assert [answer.status_code for answer in answers] == [200, 200, 401, 529]
    assert all(headers["x-api-key"] == CANARY for _, _, headers, _ in upstream.seen)
    for text in (
        *(answer.text + repr(answer.headers) for answer in answers),
        path.read_text(),
        usage.model_dump_json(),
        caplog.text,
        repr(relay.__dict__),
        settings.model_dump_json(),
    ):
        assert CANARY not in text
    assert "your key is [removed]" in path.read_text()


def test_what_is_recorded_plays_back_elsewhere_without_the_accounts_data(
    upstream: Upstream, tmp_path: Path
) -> None:
    def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "id": "toolu_secret", "name": name, "input": given}

    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "account-signature"}
    spawn = call("Agent", {"subagent_type": "verifier", "prompt": "Check /w/p."})
    upstream.answers = [
        says(thinking, call("Bash", {"command": "cat /w/p/{project}"})),
        says(spawn),
        says({"type": "text", "text": "All is well in /w/p."}),
        says({"type": "text", "text": "Done."}),
    ]

    def run(url: str, where: str) -> list[Any]:
        """Two turns of the main agent, the verifier's one, and the main agent's last."""
        system = f"Primary working directory: {where}"
        failed = {"type": "tool_result", "is_error": True, "content": "no such file"}
        fine = {"type": "tool_result", "content": "started"}
        first = post(url, system=system).json()["content"]
        history = [{"role": "assistant", "content": first}, {"role": "user", "content": [failed]}]
        second = post(url, *history, system=system).json()["content"]
        history += [{"role": "assistant", "content": second}, {"role": "user", "content": [fine]}]
        verifier = httpx.post(
            f"{url}/v1/messages",
            json={
                "model": "m-1",
                "tools": TOOLS,
                "system": system,
                "stream": True,
                "messages": [{"role": "user", "content": f"Check {where}."}],
            },
            headers={"x-claude-code-agent-id": "agent-id-1"},
        )
        third = post(url, *history, system=system).json()["content"]
        return [first, second, f"All is well in {where}." in verifier.text, third]

    path = tmp_path / "r.yaml"
    with Relay(config(upstream, mode="record")) as relay:
        recorded = run(relay.open_trial("t", path), "/w/p")
        usage = closed(relay)
    assert usage.unrecorded is None
    text = path.read_text()
    for secret in ("toolu_", "account-signature", "org_1", "req_1", "agent-id-1", "msg_", "/w/p"):
        assert secret not in text
    recording = load_recording(path)
    assert set(recording.conversations) == {"main", "verifier"}
    assert recording.conversations["main"].turns[1].expect.tool_error
    with Relay(RelayConfig(mode="play", prices=config(upstream).prices)) as relay:
        played = run(relay.open_trial("t", path), "/elsewhere")
        again = closed(relay)
    assert again.parted is None
    assert (again.tokens, again.cost_usd, again.unplayed) == (usage.tokens, usage.cost_usd, {})
    assert played[0][1]["input"] == {"command": "cat /elsewhere/{project}"}
    assert recorded[2] is played[2] is True
    assert played[3] == recorded[3]
