"""The real SDK and CLI speak to the relay: offline, against recordings and a fault or two."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    ClaudeAgentOptions,
    Message,
    ResultError,
    ResultMessage,
    TextBlock,
    query,
)

from stages.relay.config import Mode, Price, RelayConfig
from stages.relay.relay import Relay
from stages.relay.usage import Usage

MODEL = "claude-sonnet-4-6"
CONFIG = RelayConfig(
    mode="play",
    prices={MODEL: Price(input=3, output=15, cache_read=0.3, cache_write=3.75)},
    pause_s=0.05,
    tries=3,
)
RECORDING = """\
about: One model is written and verified.
conversations:
  main:
    turns:
      - answer:
          - thinking: What is there?
          - text: I look at the project first.
          - tool: Bash
            input: {command: "pwd; cat given.txt", description: Look around}
      - expect: {result: ["{project}", given by WHO]}
        answer:
          - tool: Write
            input:
              file_path: "{project}/models/made.sql"
              content: |
                -- {{project}} by WHO
                select 1 as id
      - expect: {result: made.sql}
        answer:
          - tool: Agent
            input: {description: Verify, prompt: "Check what WHO made.", subagent_type: verifier}
      - answer:
          - text: The verifier is at work.
      - expect: {message: WHO's model is good}
        answer:
          - text: WHO is done.
  verifier:
    turns:
      - answer:
          - tool: Bash
            input: {command: "sleep 1; cat models/made.sql | tee verified.txt", description: Read}
      - expect: {result: by WHO}
        usage: {input: 4000, output: 300, cache_read: 2000, cache_write: 1000}
        answer:
          - text: WHO's model is good.
"""


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential and no proxy of the machine's: the SDK hands its environment down."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def relay() -> Iterator[Relay]:
    with Relay(CONFIG) as relay:
        yield relay


def laid_out(folder: Path, who: str, *changes: tuple[str, str]) -> Path:
    """A recording and a project for `who`; returns the recording's path."""
    text = RECORDING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    project = folder / who / "project"
    project.mkdir(parents=True)
    (project / "given.txt").write_text(f"given by {who}\n")
    recording = folder / who / "recording.yaml"
    recording.write_text(text.replace("WHO", who))
    return recording


async def run_agent(url: str, folder: Path) -> list[Message]:
    """Everything that the SDK reports of one run in `folder/project`."""
    options = ClaudeAgentOptions(
        cwd=folder / "project",
        model=MODEL,
        system_prompt="You build data models.",
        max_turns=20,
        permission_mode="bypassPermissions",
        setting_sources=["project"],
        strict_mcp_config=True,
        disallowed_tools=["WebFetch", "WebSearch"],
        agents={
            "verifier": AgentDefinition(
                description="Verifies", prompt="You verify.", tools=["Bash", "Read"]
            )
        },
        env={
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "dummy",
            "IS_SANDBOX": "1",
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "HOME": str(folder),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    messages = []
    # An error result comes as a message first, and then as an exception.
    with contextlib.suppress(ResultError):
        async for message in query(prompt="Solve the task.", options=options):
            messages.append(message)
    return messages


def play(relay: Relay, recording: Path, name: str = "t") -> tuple[list[Message], Usage]:
    url = relay.open_trial(name, recording)
    try:
        messages = asyncio.run(asyncio.wait_for(run_agent(url, recording.parent), 120))
    finally:
        usage = relay.close_trial(name)
    return messages, usage


def results(messages: list[Message]) -> list[ResultMessage]:
    return [message for message in messages if isinstance(message, ResultMessage)]


def texts(messages: list[Message], *, main: bool) -> list[str]:
    return [
        block.text
        for message in messages
        if isinstance(message, AssistantMessage) and (message.parent_tool_use_id is None) is main
        for block in message.content
        if isinstance(block, TextBlock)
    ]


def check_solved(messages: list[Message], usage: Usage, folder: Path, who: str) -> None:
    project = folder / who / "project"
    assert usage.parted is None
    assert usage.unplayed == {}
    assert usage.refused == {}
    last = results(messages)[-1]
    assert (last.subtype, last.is_error, last.result) == ("success", False, f"{who} is done.")
    made = f"-- {{project}} by {who}\nselect 1 as id\n"
    assert (project / "models" / "made.sql").read_text() == made
    assert (project / "verified.txt").read_text() == made
    assert texts(messages, main=True)[0] == "I look at the project first."


def test_sdk_and_cli_play_a_recording_and_agree_on_what_it_cost(
    relay: Relay, tmp_path: Path
) -> None:
    messages, usage = play(relay, laid_out(tmp_path, "Ann"))
    check_solved(messages, usage, tmp_path, "Ann")
    assert texts(messages, main=False) == ["Ann's model is good."]
    last = results(messages)[-1]
    assert last.total_cost_usd == pytest.approx(usage.cost_usd)
    assert last.model_usage is not None
    counted = last.model_usage[MODEL]
    assert (usage.tokens.input, usage.tokens.output) == (
        counted["inputTokens"],
        counted["outputTokens"],
    )
    assert usage.tokens.cache_read == counted["cacheReadInputTokens"] == 2000
    assert usage.tokens.cache_write == counted["cacheCreationInputTokens"] == 1000
    assert (usage.requests, usage.side_requests) == (7, 0)


def test_a_subagent_in_the_foreground_plays_too(relay: Relay, tmp_path: Path) -> None:
    recording = laid_out(
        tmp_path,
        "Ann",
        ("subagent_type: verifier", "subagent_type: verifier, run_in_background: false"),
        ("      - answer:\n          - text: The verifier is at work.\n", ""),
        ("{message: WHO's", "{result: WHO's"),
    )
    messages, usage = play(relay, recording)
    check_solved(messages, usage, tmp_path, "Ann")
    assert len(results(messages)) == 1


def test_two_trials_at_once_do_not_mix(relay: Relay, tmp_path: Path) -> None:
    names = ("Ann", "Bob")
    urls = [relay.open_trial(name, laid_out(tmp_path, name)) for name in names]

    async def both() -> list[list[Message]]:
        runs = (run_agent(url, tmp_path / name) for url, name in zip(urls, names, strict=True))
        return list(await asyncio.wait_for(asyncio.gather(*runs), 120))

    for name, messages in zip(names, asyncio.run(both()), strict=True):
        check_solved(messages, relay.close_trial(name), tmp_path, name)


def test_a_recording_that_does_not_fit_ends_the_run_with_the_reason(
    relay: Relay, tmp_path: Path
) -> None:
    recording = laid_out(tmp_path, "Ann", ("given by WHO]", "given by nobody]"))
    messages, usage = play(relay, recording)
    (last,) = results(messages)
    assert last.is_error
    assert usage.parted is not None
    assert "at main, turn 2: expected 'given by nobody' in the tool results" in usage.parted
    assert usage.parted in (last.result or "")
    assert usage.unplayed == {"main": 4, "verifier": 2}
    assert not (recording.parent / "project" / "models").exists()


@pytest.mark.parametrize("fault", ["overloaded", "cut"])
def test_a_passing_fault_at_the_second_turn_is_survived(
    relay: Relay, tmp_path: Path, fault: str
) -> None:
    placed = ("- expect: {result: [", f"- fault: {{kind: {fault}}}\n        expect: {{result: [")
    messages, usage = play(relay, laid_out(tmp_path, "Ann", placed))
    check_solved(messages, usage, tmp_path, "Ann")
    assert usage.faults == {fault: 1}
    assert (usage.retries, usage.cut_streams) == ((1, 0) if fault == "overloaded" else (0, 1))
    # The CLI may or may not count the start of an answer that broke off; the relay does.
    cut_usd = (100 * 3 + 15) / 1e6 * usage.cut_streams
    total = results(messages)[-1].total_cost_usd
    assert any(total == pytest.approx(usage.cost_usd - less) for less in (0, cut_usd))


def test_a_lasting_overload_ends_the_run_and_is_told_apart(relay: Relay, tmp_path: Path) -> None:
    lasting = "- fault: {kind: overloaded, times: 1000}\n        expect: {result: ["
    messages, usage = play(relay, laid_out(tmp_path, "Ann", ("- expect: {result: [", lasting)))
    (last,) = results(messages)
    assert (last.is_error, last.api_error_status) == (True, 529)
    assert (usage.overloaded, usage.parted, usage.retries) == (True, None, 2)


def test_what_the_cli_had_recorded_plays_again_elsewhere(relay: Relay, tmp_path: Path) -> None:
    # The endpoint that is recorded is another relay, which plays.
    given = laid_out(tmp_path, "Ann")
    recorded = tmp_path / "recorded.yaml"
    config = CONFIG.model_copy(
        update={"mode": Mode.RECORD, "base_url": relay.open_trial("t", given), "credential": None}
    )
    with Relay(config) as recorder:
        url = recorder.open_trial("r", recorded)
        messages = asyncio.run(asyncio.wait_for(run_agent(url, given.parent), 120))
        usage = recorder.close_trial("r")
    check_solved(messages, relay.close_trial("t"), tmp_path, "Ann")
    assert (usage.unrecorded, usage.requests) == (None, 7)
    assert str(tmp_path) not in recorded.read_text()

    (tmp_path / "again" / "Ann" / "project").mkdir(parents=True)
    elsewhere = tmp_path / "again" / "Ann" / "recording.yaml"
    recorded.rename(elsewhere)
    (elsewhere.parent / "project" / "given.txt").write_text("given by Ann\n")
    messages, again = play(relay, elsewhere)
    check_solved(messages, again, tmp_path / "again", "Ann")
    assert (again.tokens, again.cost_usd) == (usage.tokens, usage.cost_usd)
