"""Reads a dbt project's YAML: models, columns and sources, also where the YAML is invalid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from stages.common.files import Record


class ColumnNote(Record):
    """What the YAML says of a column."""

    name: str
    description: str = ""
    data_type: str = ""
    tests: tuple[str, ...] = ()


class ModelNote(Record):
    """What the YAML says of a model."""

    name: str
    file: str
    """The YAML file, relative to the project."""
    description: str = ""
    columns: tuple[ColumnNote, ...] = ()
    salvaged: bool = False
    """Read line by line, since the file is no valid YAML."""


class SourceNote(Record):
    """A table of a source."""

    source: str
    name: str
    file: str
    schema_name: str
    """Schema in the database; the source's name where the YAML says nothing else."""
    identifier: str


class Properties(Record):
    """What one YAML file says, and what is wrong with it."""

    models: tuple[ModelNote, ...] = ()
    sources: tuple[SourceNote, ...] = ()
    problems: tuple[str, ...] = ()


def read_properties(path: Path, root: Path) -> Properties:
    """Read one YAML file; whatever it holds, nothing is raised."""
    name = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return Properties(problems=(f"{name}: cannot be read: {error.strerror}",))
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        return Properties(
            models=salvage(text, name),
            problems=(f"{name}: invalid YAML{where}: {said}. dbt will not parse; mend it first",),
        )
    if not isinstance(content, dict):
        return Properties()
    models = [_model(entry, name) for entry in _entries(content, "models")]
    sources = [
        _source(source, table, name)
        for source in _entries(content, "sources")
        for table in _entries(source, "tables")
    ]
    return Properties(models=tuple(models), sources=tuple(sources))


def _entries(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = content.get(key)
    found = value if isinstance(value, list) else []
    return [entry for entry in found if isinstance(entry, dict) and entry.get("name")]


def _model(entry: dict[str, Any], file: str) -> ModelNote:
    return ModelNote(
        name=str(entry["name"]),
        file=file,
        description=_line(entry.get("description")),
        columns=tuple(
            ColumnNote(
                name=str(column["name"]),
                description=_line(column.get("description")),
                data_type=str(column.get("data_type") or ""),
                tests=_tests(column),
            )
            for column in _entries(entry, "columns")
        ),
    )


def _tests(column: dict[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in ("tests", "data_tests"):
        value = column.get(key)
        for test in value if isinstance(value, list) else []:
            found.append(str(next(iter(test), "")) if isinstance(test, dict) else str(test))
    return tuple(found)


def _source(source: dict[str, Any], table: dict[str, Any], file: str) -> SourceNote:
    schema = str(source.get("schema") or source["name"])
    if "{{" in schema:
        # var('x', 'default'): the default is what counts where nothing sets the variable.
        found = re.findall(r"['\"]([^'\"]+)['\"]", schema)
        schema = found[-1] if found else str(source["name"])
    return SourceNote(
        source=str(source["name"]),
        name=str(table["name"]),
        file=file,
        schema_name=schema,
        identifier=str(table.get("identifier") or table["name"]),
    )


def _line(value: Any) -> str:
    return " ".join(str(value or "").split())


def salvage(text: str, file: str) -> tuple[ModelNote, ...]:
    """Models and columns of a file that is no YAML, by its lines and their indentation."""
    models: list[tuple[str, list[str]]] = []
    section = ""
    depth = -1
    for line in text.splitlines():
        if top := re.match(r"(\w+):", line):
            section, depth = top.group(1), -1
            continue
        found = re.match(r"(\s*)-\s*name:\s*['\"]?([\w.$-]+)", line)
        if section != "models" or found is None:
            continue
        indent = len(found.group(1).expandtabs(4))
        if depth < 0:
            depth = indent
        if indent <= depth:
            models.append((found.group(2), []))
        elif models:
            models[-1][1].append(found.group(2))
    return tuple(
        ModelNote(
            name=name,
            file=file,
            columns=tuple(ColumnNote(name=column) for column in columns),
            salvaged=True,
        )
        for name, columns in models
    )
