"""Recordings: what is read, what is refused and where, and what binds them to a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.common.errors import UserError
from stages.relay.recording import (
    Block,
    Conversation,
    Recording,
    Turn,
    load_recording,
    rebind,
    unbind,
    write_recording,
)

GOOD = """\
about: shows something
conversations:
  main:
    turns:
      - answer:
          - text: Hello.
          - tool: Bash
            input: {command: "ls {project}"}
      - expect: {result: models}
        repeat: 2
        answer:
          - text: Done.
"""


def saved(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text)
    return path


def test_a_recording_is_read(tmp_path: Path) -> None:
    recording = load_recording(saved(tmp_path, GOOD))
    main = recording.conversations["main"]
    assert main.length == 3
    assert main.turns[0].tools == ("Bash",)
    assert main.turns[1].expect.result == ("models",)
    assert [main.turn(number) for number in (1, 2, 3, 4)] == [*main.turns, main.turns[1], None]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("repeat: 2", "repaet: 2", r"(?s)conversations\.main\.turns\.1\.repaet.*r\.yaml:10"),
        ("text: Done.", "txt: Done.", r"(?s)turns\.1\.answer\.0.*r\.yaml:12"),
        ("  main:", "  other:", r"no conversation named 'main'"),
        ("text: Done.", "text: [", "not valid YAML"),
        ("- text: Hello.", "- {text: a, thinking: b}", "(?s)exactly one of.*r.yaml:6"),
        ("- text: Hello.", "- {text: a, input: {}}", "beside `tool` only"),
        ("repeat: 2", "fault: {kind: strange}", r"(?s)turns\.1\.fault\.kind.*r\.yaml:10"),
        ("          - text: Done.", "          []", "at least 1 item"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(UserError, match=message):
        load_recording(saved(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize("text", ["", "- a", "conversations: 3", "7"])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"(?s)r\.yaml:1.*docs/recordings\.md"):
        load_recording(saved(tmp_path, text))


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such recording"):
        load_recording(tmp_path / "absent.yaml")


def test_what_is_written_is_read_back_the_same_and_reads_well(tmp_path: Path) -> None:
    sql = "select 1 as id\nfrom x  -- trailing \ttab\n"
    turn = Turn(answer=(Block(text="a\n\nb"), Block(tool="Write", input={"content": sql, "n": 1})))
    recording = Recording(about="ü", conversations={"main": Conversation(turns=(turn,))})
    path = tmp_path / "deep" / "r.yaml"
    write_recording(path, recording)
    assert load_recording(path) == recording
    assert "fault" not in path.read_text()


def test_several_lines_are_written_as_a_block(tmp_path: Path) -> None:
    turn = Turn(answer=(Block(text="one\ntwo\n"),))
    path = tmp_path / "r.yaml"
    write_recording(path, Recording(conversations={"main": Conversation(turns=(turn,))}))
    assert "text: |\n" in path.read_text()


def test_the_work_directory_is_bound_anew() -> None:
    said = {"command": ["cat /old/p/a.sql"], "n": 3, "note": "the text {project} itself"}
    bound = rebind(unbind(said, "/old/p"), "/new/p")
    assert bound == {"command": ["cat /new/p/a.sql"], "n": 3, "note": "the text {project} itself"}


@pytest.mark.parametrize(
    ("given", "agent", "fits"),
    [
        ({}, "verifier", True),
        ({}, "explorer", False),
        ({}, None, False),
        ({"agent": "explorer"}, "explorer", True),
        ({"prompt": "check"}, None, True),
        ({"prompt": "check"}, "explorer", True),
        ({"prompt": "build"}, "verifier", False),
        ({"system": "careful"}, "anything", True),
        ({"system": "careless"}, "anything", False),
        ({"agent": "verifier", "prompt": "check"}, "explorer", False),
    ],
)
def test_a_subagent_is_known_by_its_type_its_prompt_or_its_system_prompt(
    given: dict[str, str], agent: str | None, fits: bool
) -> None:
    conversation = Conversation(turns=(Turn(answer=(Block(text="x"),)),), **given)
    assert conversation.fits("verifier", agent, "please check all", "you are careful") is fits


def test_main_is_never_a_subagents() -> None:
    conversation = Conversation(turns=(Turn(answer=(Block(text="x"),)),))
    assert not conversation.fits("main", "main", "", "")


def test_the_default_usage_grows_with_the_answer() -> None:
    short, long = (Turn(answer=(Block(text="x" * n),)).tokens() for n in (4, 400))
    assert (short.output, long.output) == (2, 101)


def test_the_documented_recording_is_valid(tmp_path: Path, repository: Path) -> None:
    page = (repository / "docs" / "recordings.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    recording = load_recording(saved(tmp_path, example))
    assert set(recording.conversations) == {"main", "verifier"}
    assert "{{ ref('stg_orders') }}" in str(
        rebind(recording.conversations["main"].turns[1].answer[0].input, "/p")
    )
