"""Lays out a private project that holds the chosen models and what they need, and no more.

dbt parses a project whole: one reference to a missing model, or one YAML file that is not valid,
and it builds nothing. So everything that is not needed is left out. What is kept is kept as it
is, but for the YAML files, of which only sources, groups and the configuration of kept nodes
stay: tests, descriptions and exposures build nothing and refer to what is left out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from dataclasses import field as default
from pathlib import Path
from typing import Any

import yaml

from stages.common.files import copy_tree, walk, write_text
from stages.common.sql import quote
from stages.dates.rebuild.shipped import Package, Shipped, read_packages, read_text

LEFTOVERS = (".git", ".DS_Store", "__pycache__", "target", "logs", "partial_parse.msgpack")
"""Not part of a project, or left in it by an earlier dbt of another version on another day."""

STUBS = "from_gold"
"""The schema, and the folder of models, of tables that the project lacks and gold holds."""

_LISTED = ("packages.yml", "dependencies.yml", "package-lock.yml", "selectors.yml")
"""dbt takes what lies in the packages' folder; it stops when these list more than that."""
_KEPT_KEYS = ("name", "config", "group", "access", "latest_version", "versions", "docs")
_DROPPED_FROM_SOURCES = frozenset(
    {"tests", "data_tests", "freshness", "loaded_at_field", "loaded_at_query", "description"}
)


@dataclass
class Carving:
    """Which models to build, what they need, and what had to be left out."""

    targets: set[str]
    kept: set[str]
    stubs: set[str]
    """Models that the project lacks, taken from gold's table of that name."""
    dropped: dict[str, str] = default(default_factory=dict)
    """Targets that cannot be built, with the reason."""


def choose(shipped: Shipped, targets: Iterable[str], gold: Iterable[str]) -> Carving:
    """Resolve what the targets need; `gold` are the lower-case names of gold's tables.

    A model that the project lacks is taken from gold where gold has a table of its name. A
    target that needs one that neither has is dropped.
    """
    in_gold = set(gold)
    carving = Carving(targets=set(), kept=set(), stubs=set())
    for target in sorted(targets):
        needed = shipped.needed([target])
        missing = {
            ref
            for name in needed
            for node in shipped.nodes[name]
            for ref in shipped.refs(node)
            if ref not in shipped.nodes
        }
        unknown = sorted(name for name in missing if name.lower() not in in_gold)
        if unknown:
            carving.dropped[target] = f"needs {', '.join(unknown)}, which nobody ships"
        else:
            carving.targets.add(target)
            carving.kept |= needed
            carving.stubs |= missing
    return carving


def without(shipped: Shipped, carving: Carving, name: str, why: str) -> Carving:
    """The carving without a model that does not parse, and without the targets that need it."""
    lost = {target for target in carving.targets if name in shipped.needed([target])}
    targets = carving.targets - lost
    return Carving(
        targets=targets,
        kept=shipped.needed(targets) - {name},
        stubs=carving.stubs - {name},
        dropped={**carving.dropped, **dict.fromkeys(lost, why)},
    )


def within(shipped: Shipped, carving: Carving, name: str, gold: Iterable[str]) -> Carving | None:
    """The carving with a model that turned out to be needed; null where nobody has it."""
    if name in shipped.nodes and name not in carving.kept:
        return replace(carving, kept=carving.kept | shipped.needed([name]))
    if name.lower() in set(gold) and name not in carving.stubs | carving.kept:
        return replace(carving, stubs=carving.stubs | {name})
    return None


def add(project: Path, work: Path, shipped: Shipped, before: Carving, after: Carving) -> None:
    """Bring what a carving has beyond an earlier one into the private project."""
    for name in after.kept - before.kept:
        for node in shipped.nodes[name]:
            place = work / node.path.relative_to(project)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(node.path, place)
    _write_stubs(read_packages(work)[0], after.stubs - before.stubs)


def carve(project: Path, overlay: Path | None, carving: Carving, work: Path) -> None:
    """Write the private project to the new folder `work`, its databases included."""
    shutil.rmtree(work, ignore_errors=True)
    copy_tree(project, work, skip=LEFTOVERS)
    if overlay is not None:
        copy_tree(overlay, work)
    packages = read_packages(work)
    for name in _LISTED:
        (work / name).unlink(missing_ok=True)
    _drop_broken_packages(work, packages)
    _write_stubs(packages[0], carving.stubs)
    prune(work, carving)


def prune(work: Path, carving: Carving) -> None:
    """Leave out of a private project what the carving does not keep."""
    for package in read_packages(work):
        _prune(package, carving.kept | carving.stubs)


def _drop_broken_packages(work: Path, packages: list[Package]) -> None:
    """Remove folders among the packages that hold none: an empty submodule, for one."""
    folder = work / str(packages[0].settings.get("packages-install-path") or "dbt_packages")
    whole = {package.root for package in packages}
    for path in folder.iterdir() if folder.is_dir() else ():
        if path not in whole:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _prune(package: Package, kept: set[str]) -> None:
    # dbt_project.yml stays, so the folders that it names stay too, if only empty.
    for folder in package.unneeded:
        shutil.rmtree(folder, ignore_errors=True)
    seen: set[tuple[str, ...]] = set()
    for folder in [*package.models, *package.seeds, *package.snapshots, *package.macros]:
        for path in walk(folder):
            if path.suffix in (".yml", ".yaml"):
                _filter_yaml(path, kept, seen)
    for folder in package.models:
        for path in walk(folder):
            if path.suffix in (".sql", ".py", ".md") and path.stem not in kept:
                path.unlink()
    for folder in package.seeds:
        for path in walk(folder):
            if path.suffix == ".csv" and path.stem not in kept:
                path.unlink()
    for folder in package.snapshots:
        for path in walk(folder):
            if path.suffix == ".sql" and not any(name in read_text(path) for name in kept):
                path.unlink()


def _filter_yaml(path: Path, kept: set[str], seen: set[tuple[str, ...]]) -> None:
    """Rewrite a YAML file with what builds need; remove one that is not valid, or says nothing.

    `seen` are the entries of the files before: dbt takes no second one.
    """
    try:
        document = yaml.safe_load(read_text(path))
    except yaml.YAMLError:
        document = None
    path.unlink()
    if not isinstance(document, dict):
        return
    result: dict[str, Any] = {}
    if groups := document.get("groups"):
        result["groups"] = groups
    if sources := [item for item in _entries(document, "sources") if _sources(item, seen)]:
        result["sources"] = sources
    for kind in ("models", "seeds", "snapshots"):
        entries = []
        for item in _entries(document, kind):
            key = (kind, str(item.get("name")))
            if key[1] in kept and key not in seen:
                seen.add(key)
                entries.append(_configuration(item))
        if entries:
            result[kind] = entries
    if result:
        write_text(path, yaml.safe_dump({"version": 2, **result}, sort_keys=False))


def _entries(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    value = document.get(kind)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _sources(source: dict[str, Any], seen: set[tuple[str, ...]]) -> bool:
    """Strip a source of what builds nothing; False where none of its tables is new."""
    for field in _DROPPED_FROM_SOURCES & source.keys():
        del source[field]
    tables = []
    for table in _entries(source, "tables"):
        key = ("source", str(source.get("name")), str(table.get("name")))
        if key in seen:
            continue
        seen.add(key)
        dropped = _DROPPED_FROM_SOURCES | {"columns"}
        tables.append({field: value for field, value in table.items() if field not in dropped})
    source["tables"] = tables
    return bool(tables)


def _configuration(item: dict[str, Any]) -> dict[str, Any]:
    kept = {key: item[key] for key in _KEPT_KEYS if key in item}
    config = item.get("config")
    contract = config.get("contract") if isinstance(config, dict) else None
    if isinstance(contract, dict) and contract.get("enforced"):
        kept["columns"] = [
            {key: column[key] for key in ("name", "data_type") if key in column}
            for column in _entries(item, "columns")
        ]
    return kept


def _write_stubs(package: Package, stubs: Iterable[str]) -> None:
    for name in sorted(stubs):
        write_text(
            package.models[0] / STUBS / f"{name}.sql",
            "{{ config(materialized='ephemeral') }}\n"
            f"select * from {quote(STUBS, name.lower())}\n",
        )
