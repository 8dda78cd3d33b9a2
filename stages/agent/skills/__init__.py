"""The skills: general craft that an agent can load, one folder with a `SKILL.md` each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import ValidationError

from stages.common.errors import UnknownChoiceError, UserError
from stages.common.files import Record, write_text

FOLDER = Path(__file__).resolve().parent
FILE = "SKILL.md"


class FrontMatter(Record):
    """What stands above a skill's text, between two lines of three dashes."""

    name: str
    """The folder's name."""
    description: str
    """When to load the skill: all that an agent sees of it until it does."""


class Skill(Record):
    """One skill."""

    name: str
    description: str
    text: str
    """The whole file, front matter included."""


def known_skills(folder: Path = FOLDER) -> tuple[str, ...]:
    """The names of all skills, sorted."""
    return tuple(sorted(path.parent.name for path in folder.glob(f"*/{FILE}")))


def read_skills(names: Iterable[str], folder: Path = FOLDER) -> tuple[Skill, ...]:
    """The named skills, in the order of their names' first mention.

    Raises:
        UnknownChoiceError: a name that no skill has.
        UserError: a skill whose front matter is missing, or names another skill.
    """
    known = known_skills(folder)
    skills = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise UnknownChoiceError("skill", name, known, where="conf/skills")
        skills.append(_read(folder / name / FILE))
    return tuple(skills)


def install_skills(skills: Iterable[Skill], project: Path) -> None:
    """Write each skill to the project's `.claude/skills/<name>/SKILL.md`."""
    for skill in skills:
        write_text(project / ".claude" / "skills" / skill.name / FILE, skill.text)


def _read(path: Path) -> Skill:
    text = path.read_text(encoding="utf-8")
    opening, _, rest = text.partition("---\n")
    head, closing, body = rest.partition("\n---\n")
    try:
        if opening or not closing or not body.strip():
            raise ValueError("it does not begin with a front matter and go on with a text")
        matter = FrontMatter.model_validate(yaml.safe_load(head))
    except (ValueError, ValidationError, yaml.YAMLError) as error:
        raise UserError(
            f"this is no skill: {error}",
            where=str(path),
            remedy="begin with ---, name:, description:, ---",
        ) from None
    if matter.name != path.parent.name:
        raise UserError(
            f"the skill in {path.parent.name}/ calls itself {matter.name!r}",
            where=str(path),
            remedy="give folder and front matter one name",
        )
    return Skill(name=matter.name, description=matter.description, text=text)
