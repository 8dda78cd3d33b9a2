"""The agent's texts: templates with `{placeholders}`, filled from typed facts."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from stages.common.errors import UnknownChoiceError
from stages.common.files import Record

FOLDER = Path(__file__).resolve().parent

PLACEHOLDER = re.compile(r"(?<!\{)\{([a-z][a-z_]*)\}(?!\})")
"""One pair of braces around a name; doubled ones are dbt's."""


class Prompt(StrEnum):
    """A template by its file's stem."""

    SYSTEM = "system"
    """The system prompt of the main agent."""
    CLAUDE_MD = "claude_md"
    """The CLAUDE.md of a work directory."""
    VERIFIER = "verifier"
    """The system prompt of the verifier."""
    TOOLS = "tools"
    """What the builtin gateway's tools are for; fills `{tools}` of the others."""


class Facts(Record):
    """What a template may say of a trial: each field fills the placeholder of its name."""

    instruction: str
    """The task's instruction, as the suite gives it."""
    database: str
    """The database's path, relative to the project."""
    today: str
    """The task's day, YYYY-MM-DD."""
    dbt_version: str
    duckdb_version: str
    tool_prefix: str = "mcp__gateway__"
    """What the names of the gateway's tools begin with."""
    tools: str = ""
    """What the tools are for: the filled `tools` template, or a text on another gateway's."""
    skills: str = "None are installed."
    """The installed skills: one line each, or the default sentence."""
    prepared: str = ""
    """What was put into the project beforehand, such as skeleton files; may be empty."""


def fill(prompt: Prompt, facts: Facts, folder: Path = FOLDER) -> str:
    """The prompt's text with every placeholder replaced; values are taken as they are.

    Raises:
        UnknownChoiceError: the template holds a placeholder that `Facts` has no field for.
    """
    path = folder / f"{prompt.value}.md"
    values: dict[str, str] = facts.model_dump()

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise UnknownChoiceError("placeholder", name, values, where=str(path))
        return values[name]

    return PLACEHOLDER.sub(value, path.read_text(encoding="utf-8"))


def describe_skills(skills: dict[str, str]) -> str:
    """The text for `{skills}`: a line for each name with its description."""
    if not skills:
        return "None are installed."
    return "\n".join(f"- `{name}`: {description}" for name, description in skills.items())
