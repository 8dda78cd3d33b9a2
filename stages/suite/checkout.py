"""Brings the task projects out of a Spider2 clone: a work tree, a git directory, or its folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType

from stages.common.errors import UserError
from stages.common.files import Record, walk
from stages.suite.bundle import MAC_LEFTOVERS
from stages.suite.layout import EVALUATIONS

_FOLDER = "spider2-dbt"
_CONFIG = f"evaluation_suite/gold/{EVALUATIONS}"
_SKIPPED = (".git", *MAC_LEFTOVERS)
_REMEDY = f"give a clone of xlang-ai/Spider2, or its folder {_FOLDER}"


class Exported(Record):
    """What was brought out of the clone."""

    files: int
    databases_left_out: int
    """Databases among the projects: the start databases come from elsewhere."""
    unreadable: tuple[str, ...]
    """Files that the clone lists and does not hold, or that cannot be read."""
    submodules: tuple[str, ...]
    """Folders that are empty because a submodule was not fetched."""


def export(source: Path, into: Path) -> Exported:
    """Write `examples/` and, where the clone has it, the evaluation config below `into`.

    `source` may be a clone's work tree, its spider2-dbt folder, or a git directory (bare or
    not), of which HEAD is read. Raises `UserError` where there are no examples.
    """
    if not source.is_dir():
        raise UserError("SOURCE is not there", where=str(source), remedy=_REMEDY)
    for folder in (source / _FOLDER, source):
        if (folder / "examples").is_dir():
            found = _export_folder(folder, into)
            break
    else:
        found = _export_git(source, into)
    if not found.files:
        raise UserError(f"SOURCE has no {_FOLDER}/examples", where=str(source), remedy=_REMEDY)
    return found


def _export_folder(folder: Path, into: Path) -> Exported:
    files, databases, unreadable = 0, 0, []
    config = folder / _CONFIG
    paths = [*walk(folder / "examples", skip=_SKIPPED), *([config] if config.is_file() else [])]
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if path.name.startswith("._"):
            continue
        if _is_database(name):
            databases += 1
            continue
        try:
            # A link may serve inside the clone; it must not bring in what lies outside.
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                raise PermissionError
            _write(into / name, path.read_bytes(), executable=os.access(path, os.X_OK))
            files += 1
        except OSError:
            unreadable.append(name)
    empty = [
        Path(place).relative_to(folder).as_posix()
        for place, folders, names in os.walk(folder / "examples")
        if not folders and not names
    ]
    return Exported(
        files=files,
        databases_left_out=databases,
        unreadable=tuple(sorted(unreadable)),
        submodules=tuple(sorted(empty)),
    )


def _export_git(source: Path, into: Path) -> Exported:
    files, databases, unreadable, submodules = 0, 0, [], []
    with _Blobs(source) as blobs:
        for mode, object_id, path in _listing(source):
            name = PurePosixPath(path).relative_to(_FOLDER).as_posix()
            if mode == "160000":
                submodules.append(name)
            elif _is_database(name):
                databases += 1
            else:
                data = None if mode == "120000" else blobs.read(object_id)
                if data is None:
                    unreadable.append(name)
                else:
                    _write(into / name, data, executable=mode == "100755")
                    files += 1
    return Exported(
        files=files,
        databases_left_out=databases,
        unreadable=tuple(unreadable),
        submodules=tuple(submodules),
    )


def _is_database(name: str) -> bool:
    return name.endswith((".duckdb", ".duckdb.wal"))


def _write(path: Path, data: bytes, *, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755 if executable else 0o644)


def _git(source: Path) -> tuple[list[str], dict[str, str]]:
    """The command and environment to read `source`: nothing is fetched, nobody is asked."""
    # The owner is checked to keep hooks from running; only objects are read here.
    command = ["git", "-c", "safe.directory=*", "-C", str(source)]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return command, {**kept, "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def _listing(source: Path) -> Iterator[tuple[str, str, str]]:
    """Mode, object id and path of every file of the suite at HEAD."""
    command, environment = _git(source)
    wanted = [f"{_FOLDER}/examples", f"{_FOLDER}/{_CONFIG}"]
    try:
        listed = subprocess.run(
            [*command, "ls-tree", "-r", "-z", "--full-tree", "HEAD", "--", *wanted],
            env=environment,
            capture_output=True,
            check=True,
        )
    except FileNotFoundError:
        raise UserError("git is not installed", remedy=f"install it, or {_REMEDY}") from None
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip()
        raise UserError(
            f"SOURCE is no clone that git can read: {message}", where=str(source), remedy=_REMEDY
        ) from None
    for entry in listed.stdout.split(b"\0")[:-1]:
        about, _, path = entry.decode(errors="surrogateescape").partition("\t")
        mode, _, object_id = about.split(" ")
        if ".." in PurePosixPath(path).parts:
            raise UserError(f"SOURCE: path {path!r} leaves the folder", where=str(source))
        yield mode, object_id, path


class _Blobs:
    """File contents from a clone; those that are missing or damaged read as none."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Blobs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def read(self, object_id: str) -> bytes | None:
        """A blob's bytes, or none. git ends on a damaged one: the next read starts it anew."""
        process = self.process = self.process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(f"{object_id}\n".encode())
            process.stdin.flush()
            header = process.stdout.readline().split()
        except BrokenPipeError:
            header = []
        if len(header) == 3 and header[1] == b"blob":
            data = process.stdout.read(int(header[2]))
            if len(data) == int(header[2]) and process.stdout.read(1) == b"\n":
                return data
        if not header or header[-1] != b"missing":
            self._stop()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        command, environment = _git(self.source)
        return subprocess.Popen(
            [*command, "cat-file", "--batch"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None
