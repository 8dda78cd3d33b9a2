"""One read of the database: opened for a call, governed, closed before the call is answered."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb

from stages.gateway.models import CallError, Settings, failed, refused
from stages.gateway.policy import Allowed

PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Waits between two tries on a lock; the last is repeated."""

Tell = Callable[[str], None]
"""Reports a phase of a call: `waiting` for a lock, or `reading`."""


class Reader:
    """An open connection. Every statement of a call goes through it."""

    def __init__(self, connection: Any, settings: Settings, waited_s: float) -> None:
        self._connection = connection
        self._settings = settings
        self.waited_s = waited_s
        self.statements: list[str] = []
        """What was run for the client, for the log."""
        self.expired = threading.Event()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a statement of our own or one that was judged, and stream its rows.

        Raises:
            CallError: at the time or memory limit, or with DuckDB's message.
        """
        yield from self.select(sql, parameters)[1]

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        return list(self.run(sql, parameters))

    def catalog(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a look into the catalog, which is not worth a line in the log."""
        found = self.rows(sql)
        self.statements.pop()
        return found

    def select(
        self, sql: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Column names and the streamed rows of a statement."""
        self.statements.append(sql)
        with self._translated():
            done = self._connection.execute(sql, list(parameters))
            names = [str(column[0]) for column in done.description or []]
        return names, self._fetch(done)

    def _fetch(self, done: Any) -> Iterator[tuple[Any, ...]]:
        size = 1
        while True:
            with self._translated():
                rows = done.fetchmany(size)
            yield from rows
            if len(rows) < size:
                return
            # Single rows first, since one may be huge; then chunks.
            size = min(size * 2, 256)

    def check(self, allowed: Allowed) -> None:
        """Refuse names that DuckDB would take for files or built-in readers.

        Raises:
            CallError: the statement names a path, or a table function that is no macro here.
        """
        if allowed.path_like:
            rows = self.catalog(
                "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views()"
            )
            names = {str(row[0]).lower() for row in rows}
            if paths := {name for name in allowed.path_like if name.lower() not in names}:
                raise refused(
                    f"reading files is not allowed: {', '.join(sorted(paths))} is no table here",
                    "list_tables shows what can be read",
                )
        if allowed.unknown_functions:
            rows = self.catalog(
                "SELECT DISTINCT function_name FROM duckdb_functions() "
                "WHERE function_type = 'table_macro'"
            )
            macros = {str(row[0]).lower() for row in rows}
            if unknown := allowed.unknown_functions - macros:
                raise refused(
                    f"the table function {', '.join(sorted(unknown))} is not allowed",
                    "only the tables of this database, range, generate_series, unnest, "
                    "json_each and duckdb_*() can stand in FROM",
                )

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        limits = self._settings.limits
        if self.expired.is_set():
            raise self._timeout()
        try:
            yield
        except duckdb.InterruptException:
            raise self._timeout() from None
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise failed(
                f"the query needs more than the memory limit of {limits.memory_mb} MB "
                f"({_first(error)})",
                "aggregate or filter earlier, sort less, or check the join for fan-out",
            ) from None
        except duckdb.Error as error:
            if self.expired.is_set():
                raise self._timeout() from None
            raise failed(str(error).strip()) from None

    def _timeout(self) -> CallError:
        return CallError(
            "timeout",
            f"interrupted at the time limit of {self._settings.limits.query_s:g} s",
            remedy="filter or aggregate earlier, and check that every join has its condition",
        )


@contextlib.contextmanager
def open_reader(settings: Settings, tell: Tell) -> Iterator[Reader]:
    """Open the database read-only, without access to files, with its configuration locked.

    Waits with growing pauses while another process writes. The connection, and with it the
    lock, is gone when the block ends.

    Raises:
        CallError: `locked` after `lock_s`; `failed` where there is no readable database.
    """
    connection, waited = _wait(settings, tell)
    reader = Reader(connection, settings, waited)
    closed = threading.Event()
    watch = threading.Thread(target=_watch, args=(reader, connection, closed, settings))
    watch.start()
    tell("reading")
    try:
        yield reader
    finally:
        closed.set()
        watch.join()
        connection.close()


def _watch(reader: Reader, connection: Any, closed: threading.Event, settings: Settings) -> None:
    if closed.wait(settings.limits.query_s):
        return
    reader.expired.set()
    # Again and again: an interrupt between two statements has no effect.
    while not closed.wait(0.1):
        connection.interrupt()


def _wait(settings: Settings, tell: Tell) -> tuple[Any, float]:
    started = time.monotonic()
    for attempt in range(1_000_000):
        try:
            return _open(settings), time.monotonic() - started if attempt else 0.0
        except duckdb.Error as error:
            if "lock" not in str(error).lower() or "Conflicting" not in str(error):
                raise _cannot_open(settings, error) from None
        waited = time.monotonic() - started
        if waited >= settings.limits.lock_s:
            break
        tell("waiting")
        pause = PAUSES_S[min(attempt, len(PAUSES_S) - 1)]
        time.sleep(min(pause, settings.limits.lock_s - waited))
    raise CallError(
        "locked",
        f"another process (a dbt run?) has held the lock of {settings.database.name} for "
        f"{settings.limits.lock_s:g} s",
        remedy="wait until it has ended, or end it, and call again",
    )


def _open(settings: Settings) -> Any:
    limits = settings.limits
    connection = duckdb.connect(
        str(settings.database),
        read_only=True,
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "allow_community_extensions": "false",
            # Without it a name in a query could be a Python variable of this process.
            "python_enable_replacements": "false",
            "memory_limit": f"{limits.memory_mb}MB",
            "threads": str(limits.threads),
            # No spilling: a query that does not fit would fill the disk instead.
            "temp_directory": "",
        },
    )
    connection.execute("SET lock_configuration = true")
    return connection


def _cannot_open(settings: Settings, error: Exception) -> CallError:
    name = settings.database.name
    if not settings.database.exists():
        return failed(f"there is no database {name}", "`dbt run` or `dbt seed` creates it")
    return failed(f"{name} cannot be opened by DuckDB {duckdb.__version__}: {_first(error)}")


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
