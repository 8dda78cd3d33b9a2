"""The host's side of a worker: one private project, built on one day after another."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from stages.common.errors import reason
from stages.common.files import CODE_ROOT, walk
from stages.stack.clock import clock_environment
from stages.stack.environments import Stack
from stages.stack.host import stack_environment

NO_SPACE = "No space left on device"


class RebuildError(Exception):
    """A task that cannot be rebuilt, in one sentence."""


class BrokenOffError(RebuildError):
    """The rebuild was broken off by the machine, not by the task: no finding, nothing to keep."""


class Sessions:
    """All sessions of this process, so that an interrupt ends them and no other is begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._ended = False

    def began(self, pid: int) -> None:
        """A worker was started; it is ended at once where all have been."""
        with self._lock:
            self._pids.add(pid)
            if self._ended:
                _kill(pid)

    def over(self, pid: int) -> None:
        """End one worker and everything that it started."""
        with self._lock:
            self._pids.discard(pid)
            _kill(pid)

    def end(self) -> None:
        """End all of them, and those that are begun later."""
        with self._lock:
            self._ended = True
            for pid in self._pids:
                _kill(pid)


SESSIONS = Sessions()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Parsed:
    """A node as dbt understood it."""

    name: str
    kind: str
    schema: str
    alias: str
    materialized: str


class Session:
    """A worker in a private project, ended with the `with` block, its time limited as a whole."""

    def __init__(
        self, stack: Stack, project: Path, database: Path, day: datetime.date, *, limit_s: float
    ) -> None:
        """`database` is relative to the project; `day` is the one on which it is parsed."""
        self.project = project
        self.database = database
        self.deadline = time.monotonic() + limit_s
        self.limit_s = limit_s
        self._side = project.with_name(f"{project.name}-side")
        self._base = self._side / "base"
        self._log = self._side / "log"
        self._buffer = b""
        self._count = 0
        home = self._side / "home"
        home.mkdir(parents=True)
        reading, writing = os.pipe()
        environment = stack_environment(stack, day, home) | clock_environment(stack.prefix, day)
        environment |= {"PYTHONPATH": str(CODE_ROOT), "FAKETIME_CACHE_DURATION": "1"}
        program = [str(stack.python), "-P", "-m", "stages.dates.rebuild.worker"]
        try:
            self._process = subprocess.Popen(
                [*program, str(writing), str(self._log)],
                cwd=project,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        SESSIONS.began(self._process.pid)
        self._answers = reading
        self.keep_base()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        SESSIONS.over(self._process.pid)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        os.close(self._answers)
        for name in (f"sem.faketime_sem_{self._process.pid}", f"faketime_shm_{self._process.pid}"):
            Path("/dev/shm", name).unlink(missing_ok=True)
        shutil.rmtree(self._side, ignore_errors=True)

    def keep_base(self) -> None:
        """Take the project's databases as they are now for what each build starts from."""
        shutil.rmtree(self._base, ignore_errors=True)
        self._base.mkdir(parents=True)
        for path in walk(self.project):
            if path.suffix in (".duckdb", ".db"):
                place = self._base / path.relative_to(self.project)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)

    def parse(self) -> dict[str, Parsed]:
        """Parse the project; its nodes by name. Raises `RebuildError` with dbt's message."""
        answer = self._ask(command="parse")
        return {item["name"]: Parsed(**item) for item in answer["nodes"]}

    def stub(self, tables: Path, schema: str) -> None:
        """Copy every table of a database into a schema of the project's own."""
        self._ask(
            command="stub",
            database=str(self.database),
            tables=str(tables.resolve()),
            schema=schema,
        )
        self.keep_base()

    def build(
        self, day: datetime.date, names: Iterable[str], export: Sequence[tuple[str, str, str]]
    ) -> tuple[Path, dict[str, str]]:
        """Build the named nodes on a day from the kept base.

        Returns a database with the relations of `export` (name, schema, table) as tables of
        that name, and the reason of each node that failed. Raises `RebuildError` where dbt
        builds nothing at all, `BrokenOffError` where that says nothing of the task.
        """
        self._restore()
        self._count += 1
        out = self._side / f"{self._count}-{day}.duckdb"
        answer = self._ask(
            command="build",
            day=day.isoformat(),
            select=sorted(names),
            database=str(self.database),
            export=[list(item) for item in export],
            out=str(out) if export else None,
        )
        return out, answer["failed"]

    def _restore(self) -> None:
        for path in walk(self._base):
            place = self.project / path.relative_to(self._base)
            place.with_name(f"{place.name}.wal").unlink(missing_ok=True)
            shutil.copyfile(path, place)

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._line())
        except (BrokenPipeError, EOFError):
            raise BrokenOffError(f"the stack's dbt ended: {reason(self._logged())}") from None
        if not answer["ok"]:
            told = str(answer["error"])
            if answer.get("broken") or NO_SPACE in told:
                raise BrokenOffError(told)
            raise RebuildError(told)
        return answer

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            left = self.deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise BrokenOffError(f"not done after {self.limit_s:g} s")
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise EOFError
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _logged(self) -> str:
        try:
            return self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
