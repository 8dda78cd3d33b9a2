"""The relay answers from a recording: by turn, bound to the run, with faults, or not at all."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stages.common.errors import UserError
from stages.relay.config import PlacedFault, Price, RelayConfig
from stages.relay.relay import Relay

RECORDING = """\
conversations:
  main:
    turns:
      - answer:
          - thinking: Where am I?
          - tool: Bash
            input: {command: "ls {project}"}
      - expect: {result: ["models", "{project}"]}
        usage: {input: 1000, output: 500, cache_read: 10, cache_write: 20}
        answer:
          - tool: Agent
            input: {subagent_type: verifier, prompt: Check it.}
      - answer:
          - text: Done in {project}.
  verifier:
    turns:
      - answer:
          - text: I verify.
"""
PRICE = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
CONFIG = RelayConfig(mode="play", prices={"m": PRICE}, pause_s=0.01, tries=3)
TOOLS = [{"name": "Bash"}, {"name": "Agent"}]


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    with Relay(CONFIG) as relay:
        yield relay


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "shown.yaml"
    path.write_text(RECORDING)
    return path


class Client:
    """What the CLI does: keeps the history and sends all of it."""

    def __init__(self, url: str, first: str = "Solve it.", **headers: str) -> None:
        self.url = url
        self.headers = headers
        self.history: list[dict[str, Any]] = [
            {"role": "user", "content": f"Primary working directory: /w/p\n{first}"}
        ]

    def post(self, path: str = "/v1/messages?beta=true", **more: Any) -> httpx.Response:
        body = {"model": "m", "max_tokens": 99, "tools": TOOLS, "messages": self.history, **more}
        return httpx.post(self.url + path, json=body, headers=self.headers, timeout=30)

    def ask(self, **more: Any) -> list[dict[str, Any]]:
        answer = self.post(**more)
        assert answer.status_code == 200, answer.text
        content: list[dict[str, Any]] = answer.json()["content"]
        self.history.append({"role": "assistant", "content": content})
        return content

    def reply(self, text: str, *, error: bool = False) -> None:
        result = {"type": "tool_result", "tool_use_id": "x", "content": text, "is_error": error}
        self.history.append({"role": "user", "content": [result]})


def test_the_turns_come_in_order_bound_to_the_work_directory_with_fresh_ids(
    relay: Relay, recording: Path
) -> None:
    ids = []
    for name in ("one", "two"):
        client = Client(relay.open_trial(name, recording))
        thinking, call = client.ask()
        assert thinking["thinking"] == "Where am I?"
        assert call["input"] == {"command": "ls /w/p"}
        ids.append(call["id"])
        client.reply("models /w/p")
        ids.append(client.ask()[0]["id"])
        client.reply("started")
        assert client.ask() == [{"type": "text", "text": "Done in /w/p."}]
        usage = relay.close_trial(name)
        assert usage.parted is None
        assert usage.unplayed == {"verifier": 1}
        assert (usage.requests, usage.tokens.cache_read) == (3, 10)
        expected = (usage.tokens.input * 3 + usage.tokens.output * 15 + 10 * 0.3 + 20 * 3.75) / 1e6
        assert usage.cost_usd == pytest.approx(expected)
    assert len(set(ids)) == 4


def test_a_streamed_answer_says_what_a_plain_one_says(relay: Relay, recording: Path) -> None:
    client = Client(relay.open_trial("t", recording))
    plain = client.post().json()
    streamed = client.post(stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    kinds = [line[7:] for line in streamed.text.split("\n") if line.startswith("event: ")]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    data = [json.loads(x[6:]) for x in streamed.text.split("\n") if x.startswith("data: ")]
    pieces = [x["delta"]["partial_json"] for x in data if "partial_json" in x.get("delta", {})]
    assert json.loads("".join(pieces)) == plain["content"][1]["input"]
    usage = relay.close_trial("t")
    assert usage.requests == 2
    assert usage.tokens.output == 2 * plain["usage"]["output_tokens"]


def test_a_call_that_is_sent_again_gets_the_same_turn(relay: Relay, recording: Path) -> None:
    client = Client(relay.open_trial("t", recording))
    answers = [client.post().json() for _ in range(3)]
    relay.close_trial("t")
    assert {answer["content"][1]["input"]["command"] for answer in answers} == {"ls /w/p"}
    assert len({answer["content"][1]["id"] for answer in answers}) == 3


def test_a_subagent_has_its_own_conversation_and_a_second_one_has_none(
    relay: Relay, recording: Path
) -> None:
    url = relay.open_trial("t", recording)
    main = Client(url)
    main.ask()
    main.reply("models in /w/p")
    main.ask()
    agent = {"x-claude-code-agent-id": "a1"}
    first = Client(url, "\n<system-reminder>\nx\n</system-reminder>\nCheck it.", **agent)
    first.history[0]["content"] = first.history[0]["content"].partition("\n")[2]
    assert first.ask()[0]["text"] == "I verify."
    second = Client(url, "Check it.", **{"x-claude-code-agent-id": "a2"})
    second.history[0]["content"] = "Check it."
    refused = second.post()
    assert refused.status_code == 400
    usage = relay.close_trial("t")
    assert "unrecorded subagent verifier" in (usage.parted or "")
    assert usage.unplayed == {"main": 1}


@pytest.mark.parametrize(
    ("result", "error", "tools", "message"),
    [
        ("nothing", False, TOOLS, r"main, turn 2: expected 'models' in the tool.*got 'nothing'"),
        ("models", False, TOOLS, r"turn 2: expected '/w/p' in the tool results; got 'models'"),
        ("models", True, TOOLS, r"turn 2: expected no error; got 'models'"),
        ("models /w/p", False, TOOLS[:1], r"turn 2: expected the tool Agent; got Bash"),
    ],
)
def test_a_recording_that_does_not_fit_stops_and_says_where(
    relay: Relay, recording: Path, result: str, error: bool, tools: Any, message: str
) -> None:
    client = Client(relay.open_trial("t", recording))
    client.ask()
    client.reply(result, error=error)
    refused = client.post(tools=tools)
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"
    said = refused.json()["error"]["message"]
    # Nothing goes on after that, not even what would fit.
    client.history = client.history[:1]
    assert client.post().json()["error"]["message"] == said
    usage = relay.close_trial("t")
    assert usage.parted == said
    with pytest.raises(
        AssertionError, match=rf"shown\.yaml parts from the conversation at.*{message}"
    ):
        raise AssertionError(usage.parted)


def test_one_turn_too_many_is_a_parting(relay: Relay, recording: Path) -> None:
    client = Client(relay.open_trial("t", recording))
    for result in ("models /w/p", "started", "more"):
        client.ask()
        client.reply(result)
    assert client.post().status_code == 400
    assert "turn 4: expected at most 3 turns" in (relay.close_trial("t").parted or "")


def test_an_expected_error_message_and_tool_are_asked_for(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        "conversations: {main: {turns: ["
        "{answer: [{text: a}], expect: {message: Solve, tools: [Bash]}}, "
        "{answer: [{text: b}], expect: {tool_error: true}}]}}"
    )
    client = Client(relay.open_trial("t", path))
    client.ask()
    client.reply("failed", error=True)
    client.ask()
    assert relay.close_trial("t").parted is None
    for first, tools, message in (
        ("Go.", TOOLS, "'Solve' in the message"),
        ("Solve", TOOLS[1:], "the tool Bash"),
    ):
        client = Client(relay.open_trial("t", path), first)
        assert client.post(tools=tools).status_code == 400
        assert message in (relay.close_trial("t").parted or "")


def test_a_tool_that_is_offered_by_name_only_is_explained(relay: Relay, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("conversations: {main: {turns: [{answer: [{tool: mcp__gateway__list}]}]}}")
    reminder = "deferred tools are now available via ToolSearch.\nCronList\nmcp__gateway__list\n"
    for tools, message in (
        (TOOLS, "ENABLE_TOOL_SEARCH=false offers it"),
        ([*TOOLS, {"name": "mcp__gateway__list"}], None),
    ):
        client = Client(relay.open_trial("t", path), reminder)
        client.post(tools=tools)
        parted = relay.close_trial("t").parted
        assert parted is None if message is None else message in (parted or "")


def test_requests_beside_the_conversation_use_no_turn(relay: Relay, recording: Path) -> None:
    client = Client(relay.open_trial("t", recording))
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    titled = client.post(tools=[], output_config={"format": {"schema": schema}})
    assert json.loads(titled.json()["content"][0]["text"]) == {"title": "replay"}
    assert client.post(tools=None, max_tokens=1).status_code == 200
    assert client.post("/v1/messages/count_tokens").json()["input_tokens"] > 0
    assert httpx.head(f"{client.url}/api/hello").status_code == 200
    assert client.ask()[1]["name"] == "Bash"
    usage = relay.close_trial("t")
    assert (usage.requests, usage.side_requests, usage.token_counts) == (1, 2, 1)
    assert usage.tokens.input == 100


def test_everything_else_is_refused_and_counted(relay: Relay, recording: Path) -> None:
    url = relay.open_trial("t", recording)
    assert httpx.get(f"{url}/v1/models").status_code == 404
    assert httpx.post(f"{url}/v1/files", json={}).status_code == 404
    assert httpx.get(f"{url}/v1/messages").json()["type"] == "error"
    assert httpx.post(f"{url}/v1/messages", content=b"\xff{").status_code == 400
    assert httpx.post(f"{url}/v1/messages", json=[1]).status_code == 400
    usage = relay.close_trial("t")
    assert usage.refused == {"GET /v1/models": 1, "POST /v1/files": 1, "GET /v1/messages": 1}


def test_a_flood_of_refused_calls_fills_no_memory(relay: Relay, recording: Path) -> None:
    url = relay.open_trial("t", recording)
    with httpx.Client() as client:
        for number in range(150):
            client.get(f"{url}/v1/{number}/{'x' * 1_000}")
    usage = relay.close_trial("t")
    assert sum(usage.refused.values()) == 150
    assert usage.refused["others"] == 50
    assert max(map(len, usage.refused)) == 200


def test_a_request_larger_than_the_api_takes_is_refused_unread(
    relay: Relay, recording: Path
) -> None:
    url = relay.open_trial("t", recording)
    sent = itertools.repeat(bytes(1 << 20), 40)
    answer = httpx.post(f"{url}/v1/messages", content=sent, timeout=60)
    assert answer.status_code == 413
    assert answer.json()["error"]["type"] == "request_too_large"
    assert relay.close_trial("t").requests == 0


def test_without_a_trials_token_nothing_is_served(relay: Relay, recording: Path) -> None:
    url = relay.open_trial("t", recording)
    relay.close_trial("t")
    before = relay.strangers["POST"]
    assert Client(url).post().status_code == 404
    assert Client(f"{relay.address}/guessed").post().status_code == 404
    assert relay.strangers["POST"] == before + 2


@pytest.mark.parametrize(("kind", "status"), [("overloaded", 529), ("rate_limited", 429)])
def test_a_passing_overload_is_sat_out_and_a_lasting_one_passed_on(
    relay: Relay, tmp_path: Path, kind: str, status: int
) -> None:
    path = tmp_path / "r.yaml"
    for times, came, retries in ((2, 200, 2), (3, status, 2)):
        path.write_text(
            "conversations: {main: {turns: [{answer: [{text: a}], "
            f"fault: {{kind: {kind}, times: {times}, attempt: 1, seconds: 0.1}}}}]}}}}"
        )
        client = Client(relay.open_trial("t", path, attempt=1))
        started = time.monotonic()
        answer = client.post()
        assert time.monotonic() - started > 0.2
        assert answer.status_code == came
        usage = relay.close_trial("t")
        assert (usage.retries, usage.faults) == (retries, {kind: times})
        assert usage.overloaded is (came != 200)
        assert answer.headers.get("x-should-retry") == (None if came == 200 else "false")
    client = Client(relay.open_trial("t", path, attempt=2))
    client.ask()
    assert relay.close_trial("t").faults == {}


def test_a_cut_stream_breaks_off_once_and_is_no_error_in_the_log(
    relay: Relay, recording: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording.write_text(
        RECORDING.replace(
            "- answer:\n          - th",
            """- fault: {kind: cut}
        answer:
          - th""",
            1,
        )
    )
    client = Client(relay.open_trial("t", recording))
    with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
        client.post(stream=True)
    assert "message_stop" in client.post(stream=True).text
    usage = relay.close_trial("t")
    assert (usage.faults, usage.cut_streams, usage.requests) == ({"cut": 1}, 1, 2)
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_the_configuration_can_add_a_fault(recording: Path) -> None:
    slow = PlacedFault(kind="slow", turn=1, seconds=0.3)
    with Relay(CONFIG.model_copy(update={"faults": (slow,)})) as relay:
        client = Client(relay.open_trial("t", recording))
        started = time.monotonic()
        client.ask()
        assert time.monotonic() - started > 0.3
        assert relay.close_trial("t").faults == {"slow": 1}


def test_a_trial_without_its_recording_is_not_opened(relay: Relay, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no recording is named for trial t"):
        relay.open_trial("t")
    with pytest.raises(UserError, match="no such recording"):
        relay.open_trial("t", tmp_path / "absent.yaml")


def test_the_work_directory_can_be_given(relay: Relay, recording: Path) -> None:
    client = Client(relay.open_trial("t", recording, project=Path("/given")))
    assert client.ask()[1]["input"] == {"command": "ls /given"}
    relay.close_trial("t")
    client = Client(relay.open_trial("t", recording))
    client.history[0]["content"] = "no word of it"
    assert "does not name its work directory" in client.post().text
    relay.close_trial("t")


def test_it_runs_as_a_process_of_its_own_on_a_unix_socket(
    tmp_path: Path, recording: Path, repository: Path
) -> None:
    config, door = tmp_path / "relay.yaml", tmp_path / "door"
    config.write_text("mode: play\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "stages.relay", "--config", str(config)),
            *("--unix", str(door), "--trial", f"t/0={recording}"),
        ],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        opened = json.loads(process.stdout.readline())
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(door))) as client:
            body = {"model": "m", "tools": TOOLS, "messages": Client("").history}
            assert client.post(f"{opened['url']}/v1/messages", json=body).status_code == 200
        process.send_signal(signal.SIGTERM)
        usage = json.loads(process.stdout.readline())
        assert (usage["trial"], usage["requests"]) == ("t/0", 1)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
