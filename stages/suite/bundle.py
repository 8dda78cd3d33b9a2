"""Reads a folder or zip of databases, one folder a task, whatever else lies around in it."""

from __future__ import annotations

import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from stages.common.errors import UserError
from stages.common.files import Record, walk

MAC_LEFTOVERS = ("__MACOSX", ".DS_Store")
_DRIVE = re.compile(r"[A-Za-z]:")


class Bundle(Protocol):
    """Files by their name, relative to the bundle's top with `/` between folders."""

    label: str

    def names(self) -> list[str]:
        """Every file's name, sorted."""

    def copy(self, name: str, target: Path) -> None:
        """Stream one file to `target`; raises `UserError` where it does not read."""


class Contents(Record):
    """A bundle's files, sorted to what they are for."""

    databases: dict[str, dict[str, str]]
    """Instance id to the databases: path in the task's folder to name in the bundle."""
    unknown: tuple[str, ...]
    """Folders that hold a database and belong to no task of the suite."""
    others: tuple[str, ...]
    """Names of the files that are no databases."""

    def named(self, file: str) -> str | None:
        """The file of that name that lies least deep, or none."""
        same = [name for name in self.others if PurePosixPath(name).name == file]
        return min(same, key=lambda name: (name.count("/"), name), default=None)


@contextmanager
def open_bundle(path: Path, label: str) -> Iterator[Bundle]:
    """The folder or zip at `path`; `label` (START, GOLD) is how complaints call it.

    Raises `UserError` where there is neither, and for a zip that is damaged, encrypted or
    holds links or names that leave its folder.
    """
    if path.is_dir():
        yield _Folder(path, label)
        return
    if not path.is_file():
        raise UserError(f"{label} is not there", where=str(path), remedy="give a folder or a zip")
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, ValueError) as error:
        raise UserError(
            f"{label} is no zip, or only a part of one: {error}",
            where=str(path),
            remedy="download it again; a sign-in page saved under its name is a common cause",
        ) from None
    with archive:
        yield _Zip(archive, path, label)


def contents(bundle: Bundle, known: set[str]) -> Contents:
    """Sort a bundle's files by task: a task's folder may lie at any depth, and databases in it."""
    databases: dict[str, dict[str, str]] = {}
    unknown: set[str] = set()
    others: list[str] = []
    for name in bundle.names():
        path = PurePosixPath(name)
        if path.name.startswith("._") or any(part in MAC_LEFTOVERS for part in path.parts):
            continue
        if path.suffix != ".duckdb":
            others.append(name)
            continue
        depth = next((at for at, part in enumerate(path.parts[:-1]) if part in known), None)
        if depth is None:
            unknown.add(f"{path.parent}/" if path.parent.name else path.name)
        else:
            inner = "/".join(path.parts[depth + 1 :])
            databases.setdefault(path.parts[depth], {}).setdefault(inner, name)
    return Contents(databases=databases, unknown=tuple(sorted(unknown)), others=tuple(others))


class _Folder:
    def __init__(self, root: Path, label: str) -> None:
        self.root = root
        self.label = label

    def names(self) -> list[str]:
        found = walk(self.root, skip=MAC_LEFTOVERS)
        return sorted(path.relative_to(self.root).as_posix() for path in found if path.is_file())

    def copy(self, name: str, target: Path) -> None:
        try:
            with (self.root / name).open("rb") as file:
                _stream(file, target)
        except OSError as error:
            raise UserError(
                f"{self.label}: {name}: {error.strerror}", where=str(self.root)
            ) from None


class _Zip:
    def __init__(self, archive: zipfile.ZipFile, path: Path, label: str) -> None:
        self.archive = archive
        self.path = path
        self.label = label
        self.entries = {self._checked(info): info for info in archive.infolist()}

    def names(self) -> list[str]:
        return sorted(name for name, info in self.entries.items() if not info.is_dir())

    def copy(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        size, free = self.entries[name].file_size, shutil.disk_usage(target.parent).free
        if size > free:
            raise self._fault(f"{name} takes {size} bytes, and {free} are free", "make room")
        try:
            with self.archive.open(self.entries[name]) as file:
                _stream(file, target)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
            raise self._fault(f"{name} is damaged: {error}", "download it again") from None

    def _checked(self, info: zipfile.ZipInfo) -> str:
        """An entry's name with `/` between folders; raises where it would not stay inside."""
        # orig_filename: as written, before zipfile tidies it.
        name = info.orig_filename.replace("\\", "/")
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or _DRIVE.match(name) or "\0" in name:
            raise self._fault(f"entry {name!r} leaves the folder", "do not use this file")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise self._fault(f"entry {name!r} is a link", "do not use this file")
        if info.flag_bits & 1:
            raise self._fault(f"entry {name!r} is encrypted", "give a zip without a password")
        return name

    def _fault(self, what: str, remedy: str) -> UserError:
        return UserError(f"{self.label}: {what}", where=str(self.path), remedy=remedy)


def _stream(file: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        shutil.copyfileobj(file, out, 1 << 20)
