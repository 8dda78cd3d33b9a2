"""Answers as the Messages API gives them, read back, counted and priced; requests read."""

from __future__ import annotations

import email.utils
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from stages.common.errors import UserError
from stages.relay.asked import read_request
from stages.relay.config import Credential, Price, RelayConfig, price_of
from stages.relay.credential import find_secret, redact
from stages.relay.endpoint import request_headers, retry_after
from stages.relay.message import Collector, make_events, make_message
from stages.relay.usage import Meter, TokenCount

TOKENS = TokenCount(input=7, output=30, cache_read=5, cache_write=3)


def events(message: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for event in make_events(message):
        name, data = event.decode().rstrip("\n").split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        found.append(value)
    return found


def test_a_stream_has_the_events_of_the_api_in_their_order() -> None:
    content = [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
    ]
    made = events(make_message("m", content, TOKENS))
    assert [event["type"] for event in made] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert made[0]["message"]["content"] == []
    assert made[0]["message"]["usage"]["output_tokens"] == 1
    assert made[5]["content_block"] == {**content[1], "input": {}}
    assert made[6]["delta"] == {"type": "input_json_delta", "partial_json": ""}
    assert made[9]["delta"]["stop_reason"] == "tool_use"
    assert made[9]["usage"]["output_tokens"] == 30


BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda t: {"type": "text", "text": t}, st.text()),
        st.builds(lambda t: {"type": "thinking", "thinking": t, "signature": "s"}, st.text()),
        st.builds(
            lambda i: {"type": "tool_use", "id": "t", "name": "n", "input": i},
            st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())),
        ),
    ),
    min_size=1,
)


@given(BLOCKS)
def test_a_stream_read_back_is_the_message_that_it_was_made_of(content: list[Any]) -> None:
    message = make_message("m", content, TOKENS)
    streamed, plain = Collector(), Collector()
    for event in make_events(message):
        assert not streamed.whole
        streamed.take_event(event)
    plain.take_message(message)
    assert streamed.whole
    assert streamed.content == plain.content == content
    assert streamed.tokens == plain.tokens == TOKENS


def test_a_cut_stream_counts_what_its_start_said() -> None:
    message = make_message("m", [{"type": "text", "text": "hi"}], TOKENS)
    collector = Collector()
    for event in list(make_events(message))[:4]:
        collector.take_event(event)
    assert not collector.whole
    assert collector.tokens == TOKENS.model_copy(update={"output": 1})


def test_tokens_are_priced_by_kind_and_by_the_longest_name() -> None:
    sonnet = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    prices = {"claude-": sonnet.model_copy(update={"input": 99}), "claude-sonnet-4-6": sonnet}
    assert price_of("claude-sonnet-4-6-20260101", prices) is sonnet
    meter = Meter("t", prices)
    million = TokenCount(input=10**6, output=10**6, cache_read=10**6, cache_write=2 * 10**6)
    meter.add("claude-sonnet-4-6", million, 10**6)
    meter.add("other", TokenCount(input=5))
    usage = meter.usage({})
    assert usage.cost_usd == pytest.approx(3 + 15 + 0.3 + 3.75 + 6)
    assert usage.tokens.input == 10**6 + 5
    assert usage.unpriced == ("other",)


def request(**more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 100,
        "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": "go"}],
        **more,
    }


def test_the_turn_is_one_more_than_the_answers_in_the_history() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "no\n"}
    reminder = {"type": "text", "text": "<system-reminder>\nnews\n</system-reminder>"}
    messages = [
        {"role": "user", "content": [reminder, {"type": "text", "text": "go"}]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [result, reminder]},
    ]
    asked = read_request(request(messages=messages), {})
    assert (asked.turn, asked.opening, asked.results, asked.failed) == (2, "go", ("no",), True)
    assert "news" in asked.said
    assert asked.agent_id is None


def test_the_work_directory_is_found_where_the_cli_tells_it() -> None:
    told = "# Environment\n - Primary working directory: /tmp/a b/p\n - Platform: linux"
    in_message = request(messages=[{"role": "user", "content": told}])
    in_system = request(system=[{"type": "text", "text": told}])
    assert read_request(in_message, {}).project == "/tmp/a b/p"
    assert read_request(in_system, {}).project == "/tmp/a b/p"
    assert read_request(request(), {}).project is None


@pytest.mark.parametrize("more", [{"tools": []}, {"tools": None}, {"max_tokens": 1}])
def test_a_request_without_tools_or_of_one_token_belongs_to_no_conversation(more: Any) -> None:
    assert read_request(request(**more), {}).side


@pytest.mark.parametrize("more", [{"messages": []}, {"messages": "x"}, {"model": None}])
def test_what_is_no_request_is_refused(more: Any) -> None:
    with pytest.raises(ValueError, match="required"):
        read_request(request(**more), {})


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert retry_after("1.5") == 1.5
    soon = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retry_after(soon) == pytest.approx(60, abs=2)
    assert retry_after("soon") is None
    assert retry_after(None) is None


def test_the_sandboxs_keys_never_go_upstream() -> None:
    sandbox = {
        "x-api-key": "dummy",
        "authorization": "Bearer dummy",
        "cookie": "c",
        "anthropic-beta": "a,b",
        "x-claude-code-session-id": "s",
    }
    secret = SecretStr("real")
    config = RelayConfig(mode="pass")
    sent = request_headers(sandbox, config, secret)
    assert sent["x-api-key"] == "real"
    assert set(sent) == {"x-api-key", "anthropic-beta", "anthropic-version", "content-type"}
    token = RelayConfig(mode="pass", credential=Credential(variable="T", kind="oauth"))
    sent = request_headers(sandbox, token, secret)
    assert sent["authorization"] == "Bearer real"
    assert sent["anthropic-beta"] == "a,b,oauth-2025-04-20"
    assert "x-api-key" not in sent


def test_a_credential_is_read_from_the_environment_and_then_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / ".env"
    file.write_text("# none\nOTHER=x\nexport RELAY_TEST_KEY='from file'\n")
    credential = Credential(variable="RELAY_TEST_KEY")
    config = RelayConfig(mode="pass", credential=credential, env_file=file)
    monkeypatch.delenv("RELAY_TEST_KEY", raising=False)
    found = find_secret(config)
    assert found is not None
    assert found.get_secret_value() == "from file"
    assert "from file" not in repr(found)
    monkeypatch.setenv("RELAY_TEST_KEY", "from environment")
    found = find_secret(config)
    assert found is not None
    assert found.get_secret_value() == "from environment"
    monkeypatch.setenv("RELAY_TEST_KEY", " ")
    file.unlink()
    with pytest.raises(UserError, match=r"(?s)RELAY_TEST_KEY is not set.*remedy: export"):
        find_secret(config)


def test_a_quoted_credential_is_removed() -> None:
    assert redact(b"invalid key: abc", SecretStr("abc")) == b"invalid key: [removed]"
    assert redact(b"abc", None) == b"abc"


def test_a_configuration_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValueError, match="retires"):
        RelayConfig(mode="play", retires=3)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="base_url"):
        RelayConfig(mode="pass", base_url="api.anthropic.com")
