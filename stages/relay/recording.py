"""A recording: the model's side of a trial, as YAML that a person can write and read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from stages.common.errors import UserError
from stages.common.files import Record, write_text
from stages.relay.config import Fault
from stages.relay.usage import TokenCount

MAIN = "main"
"""The name of the conversation that is no subagent's."""


class Block(Record):
    """One content block: exactly one of `text`, `thinking` and `tool`."""

    text: str | None = None
    thinking: str | None = None
    tool: str | None = None
    input: dict[str, Any] | None = None
    """What the tool is called with."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in ("text", "thinking", "tool") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("a block has exactly one of `text`, `thinking` and `tool`")
        if self.input is not None and self.tool is None:
            raise ValueError("`input` stands beside `tool` only")
        return self


class Expect(Record):
    """What a turn asks of the request before it answers."""

    result: tuple[str, ...] = ()
    """Each must stand in the results of the tools called in the turn before."""
    message: tuple[str, ...] = ()
    """Each must stand in what the user's side said since, reports of subagents included."""
    tools: tuple[str, ...] = ()
    """Tools that must be offered, beside those that the turn calls."""
    tool_error: bool = False
    """Whether one of those results is an error."""

    @field_validator("result", "message", "tools", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class Turn(Record):
    """One answer of the model."""

    expect: Expect = Expect()
    answer: tuple[Block, ...] = Field(min_length=1)
    repeat: int = Field(default=1, ge=1)
    """For how many turns in a row this one stands."""
    fault: Fault | None = None
    usage: TokenCount | None = None
    """By default a little that follows from the answer's length."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that the turn calls."""
        return tuple(block.tool for block in self.answer if block.tool is not None)

    def tokens(self) -> TokenCount:
        """What playing the turn counts as."""
        if self.usage is not None:
            return self.usage
        length = sum(
            len(block.text or block.thinking or json.dumps(block.input)) for block in self.answer
        )
        return TokenCount(input=100, output=1 + length // 4)


class Conversation(Record):
    """The turns of one agent; what is given below says whose they are."""

    agent: str | None = None
    """The subagent's type; by default the conversation's name."""
    prompt: str | None = None
    """A part of what the subagent was told to do."""
    system: str | None = None
    """A part of its system prompt."""
    turns: tuple[Turn, ...] = Field(min_length=1)

    def fits(self, name: str, agent: str | None, opening: str, system: str) -> bool:
        """Whether a subagent's first request belongs here; `name` is the conversation's."""
        marked = self.prompt is not None or self.system is not None
        wanted = self.agent or (None if marked else name)
        return (
            name != MAIN
            and wanted in (None, agent)
            and (self.prompt or "") in opening
            and (self.system or "") in system
        )

    def turn(self, number: int) -> Turn | None:
        """The turn that stands for the `number`th answer, counted from 1."""
        for turn in self.turns:
            if number <= turn.repeat:
                return turn
            number -= turn.repeat
        return None

    @property
    def length(self) -> int:
        """How many answers there are."""
        return sum(turn.repeat for turn in self.turns)


class Recording(Record):
    """A trial's conversations by name; `main` is always among them."""

    about: str = ""
    """What it shows, for the reader."""
    conversations: Mapping[str, Conversation]

    @model_validator(mode="after")
    def _has_main(self) -> Self:
        if MAIN not in self.conversations:
            raise ValueError(f"there is no conversation named {MAIN!r}")
        return self


def load_recording(path: Path) -> Recording:
    """Read a recording; raises `UserError` with the file, the line and the key that is wrong."""
    remedy = "docs/recordings.md shows the format"
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        return Recording.model_validate(yaml.safe_load(text))
    except FileNotFoundError:
        raise UserError("there is no such recording", where=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"not valid YAML: {error}", where=str(path), remedy=remedy) from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"]) or "(whole file)"
        raise UserError(
            f"{key}: {first['msg']}",
            where=f"{path}:{_line(tree, first['loc'])}",
            remedy=remedy,
        ) from None


def _line(node: yaml.Node | None, place: Sequence[int | str]) -> int:
    """The line, from 1, of the innermost part of a place that the YAML tree has."""
    line = 1
    for step in place:
        found = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    line, found = key.start_mark.line + 1, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            found = node.value[step]
            line = found.start_mark.line + 1
        if found is None:
            break
        node = found
    return line


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def write_recording(path: Path, recording: Recording) -> None:
    """Write what `load_recording` reads, without anything that is at its default."""
    plain = recording.model_dump(mode="json", exclude_defaults=True)
    text = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    write_text(path, text)


PLACEHOLDER = "{project}"
_WRITTEN = re.compile(r"\{\{project\}\}|\{project\}")


def rebind(value: Any, project: str) -> Any:
    """A recorded value with `{project}` replaced; `{{project}}` stands for the text itself."""
    if isinstance(value, str):
        return _WRITTEN.sub(lambda m: project if m[0] == PLACEHOLDER else PLACEHOLDER, value)
    if isinstance(value, dict):
        return {key: rebind(item, project) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rebind(item, project) for item in value]
    return value


def unbind(value: Any, project: str | None) -> Any:
    """The reverse of `rebind`: the work directory becomes `{project}`."""
    if isinstance(value, str):
        text = value.replace(PLACEHOLDER, "{{project}}")
        return text.replace(project, PLACEHOLDER) if project else text
    if isinstance(value, dict):
        return {key: unbind(item, project) for key, item in value.items()}
    if isinstance(value, list):
        return [unbind(item, project) for item in value]
    return value
