"""Finds where a project's profile puts its database, or says why that cannot be told."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from stages.common.files import Record, walk

# dbt's env_var with its optional default; a number filter may follow in a profile.
_ENV_VAR = re.compile(
    r"""\{\{-?\s*env_var\(\s*(['"])(?P<name>[^'"]*)\1"""
    r"""\s*(?:,\s*(['"])(?P<default>.*?)\3)?\s*\)\s*(?:\|\s*as_\w+\s*)?-?\}\}"""
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# What dbt builds or installs there is no start database.
_GENERATED = ("target", "dbt_packages", "dbt_modules", "logs", ".git")


class Located(Record):
    """Where a project's database lies."""

    path: Path | None
    """Relative to the project's folder; null where it cannot be told."""
    note: str
    """Without a path the reason; with one what had to be assumed, empty when nothing."""


class _UnreadableError(Exception):
    """The profile says nothing that can be understood: a single database may stand in."""


class _RefusedError(Exception):
    """The profile says plainly that its database is not in the project."""


def locate_database(project: Path, overlay: Path | None = None) -> Located:
    """Where the project's profile puts its DuckDB file.

    Follows dbt: `profile` in dbt_project.yml, that profile's `target` in profiles.yml, that
    output's `path`. `env_var` is rendered with its default and never from this process'
    environment, which no sandbox shares. When the profile is missing or unintelligible and
    exactly one *.duckdb lies in the project (or in `overlay`, the folder that is laid over
    it), that one is taken, and the note says so. The file itself need not exist.
    """
    try:
        return Located(path=_inside(_profile_path(project)), note="")
    except _RefusedError as refusal:
        return Located(path=None, note=str(refusal))
    except _UnreadableError as failure:
        return _only_database(project, overlay, str(failure))


def databases_in(project: Path, overlay: Path | None = None) -> list[Path]:
    """The *.duckdb files of a project and its overlay, relative, sorted, each name once."""
    found: set[Path] = set()
    for root in (project, overlay):
        if root is not None and root.is_dir():
            found |= {
                path.relative_to(root)
                for path in walk(root, skip=_GENERATED)
                if path.suffix == ".duckdb" and not path.name.startswith("._")
            }
    return sorted(found)


def _only_database(project: Path, overlay: Path | None, reason: str) -> Located:
    found = databases_in(project, overlay)
    if len(found) == 1:
        return Located(path=found[0], note=f"{reason}; its only database {found[0]} is used")
    names = ", ".join(path.as_posix() for path in found) or "none"
    return Located(
        path=None, note=f"{reason}, and the project holds {len(found)} databases: {names}"
    )


def _profile_path(project: Path) -> str:
    name = _text(_mapping(project / "dbt_project.yml"), "profile", "dbt_project.yml")
    profile = _submapping(_mapping(project / "profiles.yml"), name, "profiles.yml")
    target = _text(profile, "target", f"profile {name!r}", default="default")
    outputs = _submapping(profile, "outputs", f"profile {name!r}")
    output = _submapping(outputs, target, f"profile {name!r}, outputs")
    kind = _text(output, "type", f"output {target!r}")
    if kind != "duckdb":
        raise _RefusedError(f"the profile's output {target!r} is of type {kind!r}, not duckdb")
    return _text(output, "path", f"output {target!r}", default=":memory:")


def _inside(given: str) -> Path:
    """The path relative to the project; raises where it lies elsewhere."""
    if not given or given.startswith(":memory:"):
        raise _RefusedError("the profile keeps its database in memory")
    if _SCHEME.match(given):
        raise _RefusedError(f"the profile's path {given!r} is a remote or attached database")
    path = PurePosixPath(given)
    if path.is_absolute() or given.startswith("~"):
        raise _RefusedError(f"the profile's path {given!r} is absolute")
    steps: list[str] = []
    for step in path.parts:
        if step != "..":
            steps.append(step)
        elif steps:
            steps.pop()
        else:
            raise _RefusedError(f"the profile's path {given!r} leaves the project")
    if not steps:
        raise _RefusedError(f"the profile's path {given!r} names no file")
    return Path(*steps)


def _mapping(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise _UnreadableError(f"the project has no {path.name}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _UnreadableError(f"{path.name} cannot be read ({error})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise _UnreadableError(f"{path.name} is not valid YAML{line}") from None
    if not isinstance(value, dict):
        raise _UnreadableError(f"{path.name} holds no mapping")
    return value


def _submapping(mapping: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    value = mapping.get(key)
    if not isinstance(value, dict):
        raise _UnreadableError(f"{where} has no {key!r}")
    return value


def _text(mapping: dict[str, Any], key: str, where: str, *, default: str | None = None) -> str:
    """A text value with dbt's env_var rendered; raises where it is absent or not to be told."""
    value = mapping.get(key, default)
    if value is None:
        raise _UnreadableError(f"{where} has no {key!r}")
    rendered = _ENV_VAR.sub(_default, str(value)).strip()
    if "{{" in rendered or "{%" in rendered:
        raise _UnreadableError(f"{where} has a {key!r} that cannot be told: {value}")
    return rendered


def _default(call: re.Match[str]) -> str:
    default = call.group("default")
    if default is None:
        raise _UnreadableError(
            f"the profile needs the environment variable {call.group('name')}, without a default"
        )
    return default
