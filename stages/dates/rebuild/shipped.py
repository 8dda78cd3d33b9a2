"""Reads what a task's project ships: its models, what they refer to, and which read the clock.

It reads the files as text, because many projects do not parse: dbt itself would tell nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stages.common.files import walk

CLOCK = re.compile(
    r"current_date|current_time|localtime|get_current_time|transaction_timestamp|sysdate"
    r"|systimestamp|\bnow\s*\(|\butcnow\s*\(|\btoday\s*\(|\bgetdate\s*\(|\bage\s*\("
    r"|run_started_at|'(now|today|yesterday|tomorrow)'",
    re.IGNORECASE,
)
"""Words by which SQL, Jinja or Python read the clock; one in a comment costs a build, no more."""

_REF = re.compile(r"""\bref\s*\(\s*(['"])([^'"]+)\1\s*(?:,\s*(['"])([^'"]+)\3)?""")
_JOINED = re.compile(
    r"""\bref\s*\(\s*((?:'[^']*'|"[^"]*"|[\w.]+)(?:\s*~\s*(?:'[^']*'|"[^"]*"|[\w.]+))+)\s*\)"""
)
"""A reference whose name is put together: its fixed parts tell which models it may be."""
_VAR = re.compile(r"""\bvar\s*\(\s*['"]([^'"]+)['"]""")
_QUOTED = re.compile(r"""(['"])(\w+)\1""")
_CALL = re.compile(r"\b(\w+)\s*\(")
_MACRO = re.compile(r"\{%-?\s*(?:macro|test)\s+(\w+)\s*\(.*?\{%-?\s*end(?:macro|test)\b", re.DOTALL)
_SNAPSHOT = re.compile(r"\{%-?\s*snapshot\s+(\w+)")
_ALIAS = re.compile(r"""\balias\s*[=:]\s*['"]([^'"]+)['"]""")
_JINJA_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
_DISPATCHED = re.compile(r"^[a-z0-9]+__")


@dataclass(frozen=True)
class Package:
    """The project itself, or one of its vendored packages."""

    root: Path
    settings: dict[str, Any] = field(hash=False)

    def folders(self, key: str, old: str, default: str) -> list[Path]:
        """The folders that dbt_project.yml names under a key, or under its older name."""
        named = self.settings.get(key) or self.settings.get(old) or [default]
        return [self.root / str(name) for name in ([named] if isinstance(named, str) else named)]

    @property
    def models(self) -> list[Path]:
        """Folders of models."""
        return self.folders("model-paths", "source-paths", "models")

    @property
    def seeds(self) -> list[Path]:
        """Folders of seeds."""
        return self.folders("seed-paths", "data-paths", "seeds")

    @property
    def snapshots(self) -> list[Path]:
        """Folders of snapshots."""
        return self.folders("snapshot-paths", "snapshot-paths", "snapshots")

    @property
    def macros(self) -> list[Path]:
        """Folders of macros."""
        return self.folders("macro-paths", "macro-paths", "macros")

    @property
    def unneeded(self) -> list[Path]:
        """Folders of tests and analyses."""
        return [
            *self.folders("test-paths", "test-paths", "tests"),
            *self.folders("analysis-paths", "analysis-paths", "analyses"),
        ]


@dataclass(frozen=True)
class Node:
    """A model, seed or snapshot that the project ships."""

    name: str
    path: Path
    text: str
    is_snapshot: bool = False

    @property
    def names(self) -> set[str]:
        """Lower-case names that its table may have."""
        return {name.lower() for name in (self.name, *_ALIAS.findall(self.text))}


class Shipped:
    """A project as it was shipped, before anything was added to it."""

    def __init__(self, project: Path) -> None:
        self.packages = read_packages(project)
        self.nodes: dict[str, list[Node]] = {}
        for node in _nodes(self.packages):
            self.nodes.setdefault(node.name, []).append(node)
        self._macros: dict[str, str] = {}
        for name, text in _macros(self.packages):
            self._macros[name] = self._macros.get(name, "") + text
        self._vars: dict[str, str] = {}
        self._texts: dict[Path, str] = {}
        self._mentions: dict[Node, set[str]] = {}
        for package in self.packages:
            _collect(package.settings.get("vars"), self._vars)

    def refs(self, node: Node) -> set[str]:
        """Names that a node refers to itself, or through a variable's value."""
        return set(_refs(self._with_variables(node.text)))

    def needed(self, names: Iterable[str]) -> set[str]:
        """Every shipped node's name that the named ones need, themselves included."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.nodes:
                continue
            found.add(name)
            for node in self.nodes[name]:
                waiting += self._mentioned(node)
        return found

    def _mentioned(self, node: Node) -> set[str]:
        """Names in references, and all that macros may make references of: quoted names."""
        if node not in self._mentions:
            text = self._all_text(node)
            quoted = {name for _, name in _QUOTED.findall(text)} & self.nodes.keys()
            self._mentions[node] = {*_refs(text), *quoted, *self._put_together(text)}
        return self._mentions[node]

    def reading_clock(self, *, always: bool = False) -> set[str]:
        """Names of the nodes that read the clock, or that need one which does.

        With `always`, all of them: a view of the start database reads it.
        """
        reads = {
            name
            for name, nodes in self.nodes.items()
            if always
            or any(node.is_snapshot or CLOCK.search(self._all_text(node)) for node in nodes)
        }
        return {name for name in self.nodes if self.needed([name]) & reads}

    def _put_together(self, text: str) -> set[str]:
        found: set[str] = set()
        for expression in _JOINED.findall(text):
            parts = [part.strip() for part in expression.split("~")]
            pattern = re.compile(
                "".join(re.escape(part[1:-1]) if part[0] in "'\"" else r"\w*" for part in parts)
            )
            if pattern.pattern.strip(r"\w*"):
                found |= {name for name in self.nodes if pattern.fullmatch(name)}
        return found

    def _with_variables(self, text: str) -> str:
        seen: set[str] = set()
        waiting = [text]
        parts = []
        while waiting:
            part = waiting.pop()
            parts.append(part)
            for name in set(_VAR.findall(part)) - seen:
                seen.add(name)
                waiting.append(self._vars.get(name, ""))
        return "\n".join(parts)

    def _all_text(self, node: Node) -> str:
        """A node's text with that of every macro that it may call and variable that it reads."""
        if node.path in self._texts:
            return self._texts[node.path]
        seen: set[str] = set()
        text = self._with_variables(node.text)
        waiting, parts = [text], [text]
        while waiting:
            for name in set(_CALL.findall(waiting.pop())) & self._macros.keys() - seen:
                seen.add(name)
                macro = self._with_variables(self._macros[name])
                waiting.append(macro)
                parts.append(macro)
        self._texts[node.path] = "\n".join(parts)
        return self._texts[node.path]


def read_packages(project: Path) -> list[Package]:
    """The project first, then its vendored packages by folder name."""
    main = Package(project, _mapping(project / "dbt_project.yml"))
    named = main.settings.get("packages-install-path") or "dbt_packages"
    folder = project / str(named)
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        main,
        *(
            Package(path, _mapping(path / "dbt_project.yml"))
            for path in found
            if (path / "dbt_project.yml").is_file()
        ),
    ]


def read_text(path: Path) -> str:
    """A file's text, whatever its encoding; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _mapping(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(read_text(path))
    except yaml.YAMLError:
        return {}
    return value if isinstance(value, dict) else {}


def _nodes(packages: list[Package]) -> Iterator[Node]:
    for package in packages:
        for folder in package.models:
            for path in walk(folder):
                if path.suffix in (".sql", ".py"):
                    yield Node(path.stem, path, _JINJA_COMMENT.sub("", read_text(path)))
        for folder in package.seeds:
            for path in walk(folder):
                if path.suffix == ".csv":
                    yield Node(path.stem, path, "")
        for folder in package.snapshots:
            for path in walk(folder):
                text = _JINJA_COMMENT.sub("", read_text(path)) if path.suffix == ".sql" else ""
                for name in _SNAPSHOT.findall(text):
                    yield Node(name, path, text, is_snapshot=True)


def _macros(packages: list[Package]) -> Iterator[tuple[str, str]]:
    """Each macro's name and text; the adapters' variants of one count under its plain name too."""
    for package in packages:
        for folder in package.macros:
            for path in walk(folder):
                text = _JINJA_COMMENT.sub("", read_text(path)) if path.suffix == ".sql" else ""
                for found in _MACRO.finditer(text):
                    name = found.group(1)
                    yield name, found.group(0)
                    if _DISPATCHED.match(name):
                        yield _DISPATCHED.sub("", name), found.group(0)


def _refs(text: str) -> list[str]:
    return [second or first for _, first, _, second in _REF.findall(text)]


def _collect(value: Any, into: dict[str, str]) -> None:
    """Variables by name, of whatever package; one that is set twice counts with both values."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict):
                _collect(item, into)
            into[str(key)] = into.get(str(key), "") + f"\n{item}"
