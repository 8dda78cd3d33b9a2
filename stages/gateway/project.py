"""A dbt project as an agent finds it: which models are written, begun, or missing."""

from __future__ import annotations

import graphlib
from pathlib import Path
from typing import Any, Literal

import yaml

from stages.common.files import Record, walk
from stages.gateway import sqltext
from stages.gateway.properties import ModelNote, Properties, SourceNote, read_properties

Status = Literal["complete", "stub", "missing"]
SKIP = (".git", "__pycache__")
LARGEST = 2_000_000
"""Bytes of a model's file."""


class Model(Record):
    """One model, written or not."""

    name: str
    status: Status
    why: str
    """Why it is no complete model, or where it is asked for."""
    path: str
    """Its SQL file, relative to the project; empty where there is none."""
    refs: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    note: ModelNote | None = None
    alias: str = ""
    """Its table's name, where `config(alias=…)` gives it another than its own."""

    @property
    def table(self) -> str:
        """The name under which dbt builds it."""
        return self.alias or self.name


class Project(Record):
    """A project's models in their order of work, and what is wrong with it."""

    models: tuple[Model, ...]
    sources: tuple[SourceNote, ...]
    seeds: frozenset[str]
    package_models: frozenset[str]
    problems: tuple[str, ...]

    def model(self, name: str) -> Model | None:
        """A model by its name in any case."""
        return next((item for item in self.models if item.name.lower() == name.lower()), None)


def read_project(root: Path) -> Project:
    """Read a project from its files alone, without dbt: it often does not parse."""
    settings, problems = _settings(root)
    folders = {
        kind: [root / str(name) for name in _names(settings, f"{kind}-paths", default)]
        for kind, default in (("model", "models"), ("seed", "seeds"), ("snapshot", "snapshots"))
    }
    notes: dict[str, ModelNote] = {}
    sources: list[SourceNote] = []
    for path in _files(folders["model"], ".yml", ".yaml"):
        found: Properties = read_properties(path, root)
        problems += found.problems
        sources += found.sources
        for note in found.models:
            if note.name in notes and notes[note.name].file != note.file:
                problems.append(
                    f"model {note.name} is described in {notes[note.name].file} and in {note.file}:"
                    " dbt takes one description only"
                )
            notes.setdefault(note.name, note)
    models = {path.stem: _written(path, root, notes) for path in _files(folders["model"], ".sql")}
    python = {path.stem for path in _files(folders["model"], ".py")}
    seeds = frozenset(path.stem for path in _files(folders["seed"], ".csv", ".parquet"))
    others = {path.stem for path in _files(folders["snapshot"], ".sql", ".yml")}
    packages = root / str(settings.get("packages-install-path") or "dbt_packages")
    provided = frozenset(path.stem for path in _files([packages], ".sql", ".csv"))
    for name, note in notes.items():
        if name not in models and name not in python | seeds | others:
            why = f"described in {note.file}"
            models[name] = Model(name=name, status="missing", why=why, path="", note=note)
    for model in list(models.values()):
        for name in model.refs:
            if name not in {*models, *python, *seeds, *others, *provided}:
                why = f"referred to by {model.name}, and described nowhere"
                models[name] = Model(name=name, status="missing", why=why, path="")
    return Project(
        models=tuple(in_order(models)),
        sources=tuple(sources),
        seeds=seeds,
        package_models=provided,
        problems=tuple(problems),
    )


def in_order(models: dict[str, Model]) -> list[Model]:
    """Models such that each comes after those it refers to; a cycle is broken anywhere.

    Among equals the customary layers decide: base, staging, intermediate, dimensions, facts.
    """
    graph = {name: {ref for ref in model.refs if ref in models} for name, model in models.items()}
    while True:
        sorter = graphlib.TopologicalSorter(graph)
        try:
            sorter.prepare()
            break
        except graphlib.CycleError as error:
            cycle = error.args[1]
            graph[cycle[1]].discard(cycle[0])
    ordered: list[Model] = []
    while sorter.is_active():
        ready = sorter.get_ready()
        ordered += sorted((models[name] for name in ready), key=lambda m: (_layer(m.name), m.name))
        sorter.done(*ready)
    return ordered


def _layer(name: str) -> int:
    prefixes = (("base_", "src_"), ("stg_", "staging_"), ("int_",), ("dim_",), ("fct_", "fact_"))
    for number, group in enumerate(prefixes):
        if name.lower().startswith(group):
            return number
    return len(prefixes)


def _settings(root: Path) -> tuple[dict[str, Any], list[str]]:
    path = root / "dbt_project.yml"
    if not path.is_file():
        return {}, [f"no dbt_project.yml in {root.name}: the customary folders are read"]
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8", errors="replace"))
    except (yaml.YAMLError, ValueError) as error:
        return {}, [f"dbt_project.yml: invalid YAML: {str(error).splitlines()[0]}"]
    if not isinstance(content, dict):
        return {}, ["dbt_project.yml holds no settings"]
    return content, []


def _names(settings: dict[str, Any], key: str, default: str) -> list[str]:
    value = settings.get(key)
    return [str(item) for item in value] if isinstance(value, list) else [default]


def _files(folders: list[Path], *endings: str) -> list[Path]:
    return [
        path
        for folder in folders
        if folder.is_dir()
        for path in walk(folder, skip=SKIP)
        if path.suffix in endings and path.is_file()
    ]


def _written(path: Path, root: Path, notes: dict[str, ModelNote]) -> Model:
    place = path.relative_to(root).as_posix()
    note = notes.get(path.stem)
    if path.stat().st_size > LARGEST:
        why = "too large to be read here"
        return Model(name=path.stem, status="complete", why=why, path=place, note=note)
    text = path.read_text(encoding="utf-8", errors="replace")
    why = sqltext.stub_reason(text)
    return Model(
        name=path.stem,
        status="stub" if why else "complete",
        why=why,
        path=place,
        refs=sqltext.refs(text),
        sources=sqltext.sources(text),
        warnings=sqltext.warnings(text),
        note=note,
        alias=sqltext.alias(text),
    )
