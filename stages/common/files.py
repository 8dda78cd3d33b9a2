"""Paths, digests, atomic writes and links: the only place that decides how files are put down."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

CODE_ROOT = Path(__file__).resolve().parents[2]


class Record(BaseModel):
    """Base of every value that crosses a file or process boundary: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def project_root() -> Path:
    """The main repository's folder, shared by queued and temporary experiments.

    DVC sets `DVC_ROOT` for the commands of a stage, also in an experiment's temporary
    folder; outside DVC it is the checkout that holds this file.
    """
    return Path(os.environ.get("DVC_ROOT") or CODE_ROOT).resolve()


def cache_root() -> Path:
    """Where finished trials, work directories and built databases live: `<root>/.cache`."""
    return project_root() / ".cache"


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` through a temporary file and a rename, so no reader sees half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write `value` (or a `Record`, or a container of them) as sorted JSON with a final newline."""
    write_text(path, json.dumps(_plain(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def read_json(path: Path) -> Any:
    """Parse one JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def digest_text(*parts: str) -> str:
    """SHA-256 (hex) of the parts, each preceded by its length so that no two lists collide."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode()
        state.update(f"{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def walk(root: Path, *, skip: Iterable[str] = ()) -> Iterator[Path]:
    """Every file below `root`, sorted; names in `skip` (files or folders) are left out.

    Symbolic links to files count as files; links to folders are not followed, so that a
    loop cannot hang the walk.
    """
    skipped = set(skip)
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in skipped)
        for name in sorted(files):
            if name not in skipped:
                yield Path(folder) / name


def digest_tree(root: Path, *, skip: Iterable[str] = (), leave_out: Iterable[Path] = ()) -> str:
    """SHA-256 (hex) over relative names and bytes of every file below `root`.

    `skip` are names to pass over anywhere, `leave_out` are single paths. A dangling link
    counts by its target's name.
    """
    omitted = set(leave_out)
    parts: list[str] = []
    for path in walk(root, skip=skip):
        if path in omitted:
            continue
        parts.append(path.relative_to(root).as_posix())
        parts.append(digest_file(path) if path.is_file() else f"link:{path.readlink()}")
    return digest_text(*parts)


def clear_folder(root: Path) -> None:
    """Delete everything in a folder, but not the folder itself."""
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def copy_tree(source: Path, target: Path, *, skip: Iterable[str] = ()) -> None:
    """Copy a folder's files as private, writable copies; dangling links are left out."""
    for path in walk(source, skip=skip):
        if not path.is_file():
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        place.chmod(0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644)
