"""Lays a skeleton for each model that the project's YAML describes and that has no file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stages.common.files import Record, walk, write_text

PACKAGES = ("dbt_packages", "dbt_modules", "target", "logs", ".git", ".claude")
SUFFIXES = (".sql", ".py")


class Described(Record):
    """A model as a YAML file of the project describes it."""

    name: str
    columns: tuple[str, ...]
    described_in: Path
    """The YAML file, relative to the project."""


def described_models(project: Path) -> list[Described]:
    """The project's own models by their YAML, sorted by name; packages are left out.

    A file that is no valid YAML, or has another shape, describes nothing: some real projects
    ship such files. Of two descriptions of one model, the one with more columns counts.
    """
    found: dict[str, Described] = {}
    for path in walk(project, skip=PACKAGES):
        if path.suffix not in (".yml", ".yaml"):
            continue
        for name, columns in _models(path):
            old = found.get(name)
            if old is None or len(columns) > len(old.columns):
                place = path.relative_to(project)
                found[name] = Described(name=name, columns=columns, described_in=place)
    return [found[name] for name in sorted(found)]


def missing_models(project: Path) -> list[Described]:
    """The described models that have neither an SQL nor a Python file in the project."""
    files = {path.stem for path in walk(project, skip=PACKAGES) if path.suffix in SUFFIXES}
    return [model for model in described_models(project) if model.name not in files]


def lay_skeletons(project: Path) -> list[Path]:
    """Write a skeleton beside the YAML of each missing model; the files written."""
    written = []
    for model in missing_models(project):
        path = project / model.described_in.with_name(f"{model.name}.sql")
        write_text(path, skeleton(model))
        written.append(path)
    return written


def skeleton(model: Described) -> str:
    """SQL that selects each described column as NULL, to be replaced."""
    head = (
        f"-- Skeleton of {model.name}, from {model.described_in.as_posix()}. Replace all of it.\n"
    )
    columns = ",\n".join(f"    null as {column}" for column in model.columns)
    return f"{head}select\n{columns or '    null as to_be_written'}\n"


def _models(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError):
        return
    for item in _items(content, "models"):
        name = item.get("name")
        if isinstance(name, str) and name:
            columns = (column.get("name") for column in _items(item, "columns"))
            yield name, tuple(column for column in columns if isinstance(column, str))


def _items(content: Any, key: str) -> list[dict[str, Any]]:
    found = content.get(key) if isinstance(content, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
