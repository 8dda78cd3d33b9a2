"""Builds models day after day in one process, each day in a fork of it: `… <answers> <log>`.

Runs under the stack's Python, in the private project's folder. It reads one JSON request a line
from standard input and writes one JSON answer a line to the file descriptor `answers`; dbt's own
output goes to the file `log`. A fork shares dbt's imports and the parsed project, and takes with
it what DuckDB and dbt keep in memory. Needs dbt, DuckDB and the standard library only.

libfaketime reads its variable anew each second (FAKETIME_CACHE_DURATION), so that a fork sets
its own day.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import duckdb

from stages.common.sql import quote, quote_text

FLAGS = [
    "--quiet",
    "--no-partial-parse",
    "--no-use-colors",
    "--no-send-anonymous-usage-stats",
    "--no-write-json",
    "--log-level-file=none",
]
CLOCK_S = 60.0
"""How long a fork waits for its clock to show its day, seconds."""


class Worker:
    """The parsed project, and the answers to requests about it."""

    def __init__(self) -> None:
        self.runner: Any = importlib.import_module("dbt.cli.main").dbtRunner
        self.manifest: Any = None

    def parse(self) -> dict[str, Any]:
        """Parse the project: its models, seeds and snapshots, or dbt's reason against it."""
        done = self.runner().invoke([*FLAGS, "parse"])
        if not done.success:
            return {"ok": False, "error": str(done.exception or "dbt parse failed")}
        self.manifest = done.result
        nodes = [
            {
                "name": node.name,
                "kind": str(node.resource_type.value),
                "schema": node.schema,
                "alias": node.alias,
                "materialized": str(node.config.materialized),
            }
            for node in self.manifest.nodes.values()
        ]
        return {"ok": True, "nodes": nodes}

    def stub(self, database: str, tables: str, schema: str) -> None:
        """Copy every table of the file `tables` into a schema of the database."""
        with duckdb.connect(database) as connection:
            connection.execute(f"ATTACH {quote_text(tables)} AS stubs_of_task (READ_ONLY)")
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
            names = connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = 'stubs_of_task'"
            ).fetchall()
            for (name,) in names:
                connection.execute(
                    f"CREATE TABLE {quote(schema, name)} AS "
                    f"SELECT * FROM {quote('stubs_of_task', name)}"
                )

    def build(
        self, day: str, select: list[str], database: str, export: list[list[str]], out: str | None
    ) -> dict[str, Any]:
        """Build the selected nodes on a day, and copy relations to `out` as that day shows them.

        `export` is `[name, schema, table]` each; each becomes a table of its name in `out`.
        """
        os.environ["FAKETIME"] = f"@{day} 12:00:00"
        deadline = time.monotonic() + CLOCK_S
        while datetime.date.today().isoformat() != day:
            if time.monotonic() > deadline:
                return {"ok": False, "error": f"the clock does not show {day}", "broken": True}
            time.sleep(0.02)
        failed: dict[str, str] = {}
        if select:
            kinds = [f"--resource-type={kind}" for kind in ("model", "seed", "snapshot")]
            chosen = ["--select", *select]
            done = self.runner(manifest=self.manifest).invoke([*FLAGS, "build", *kinds, *chosen])
            if done.exception is not None:
                return {"ok": False, "error": str(done.exception)}
            for item in done.result.results:
                if str(item.status.value) != "success":
                    failed[item.node.name] = str(item.message or item.status.value)
        if out is not None:
            failed |= _export(database, [item for item in export if item[0] not in failed], out)
        else:
            _close()
            with duckdb.connect(database) as connection:
                connection.execute("CHECKPOINT")
        return {"ok": True, "failed": failed}


def _export(database: str, export: list[list[str]], out: str) -> dict[str, str]:
    failed = {}
    with _connect(database) as connection:
        connection.execute(f"ATTACH {quote_text(out)} AS exported_tables")
        for name, *place in export:
            try:
                connection.execute(
                    f"CREATE TABLE {quote('exported_tables', name)} AS SELECT * FROM "
                    f"{quote(*place)}"
                )
            except duckdb.Error as error:
                failed[name] = str(error)
        connection.execute("DETACH exported_tables")
    return failed


def _connect(database: str) -> Any:
    """The instance that dbt has open, with what it attached; else one of our own."""
    try:
        return duckdb.connect(database)
    except duckdb.Error:
        _close()
        return duckdb.connect(database)


def _close() -> None:
    """End what dbt has open, so that the database is whole on disk."""
    module = importlib.import_module("dbt.adapters.duckdb.connections")
    module.DuckDBConnectionManager.close_all_connections()


def _forked(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a fork; one that dies is an answer, too."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        found = _answer(worker, request)
        with contextlib.suppress(OSError), os.fdopen(writing, "w") as file:
            file.write(json.dumps(found))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    for name in (f"sem.faketime_sem_{child}", f"faketime_shm_{child}"):
        Path("/dev/shm", name).unlink(missing_ok=True)
    if not text:
        return {"ok": False, "error": f"a build ended with status {status}", "broken": True}
    answer: dict[str, Any] = json.loads(text)
    return answer


def _answer(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    command = request.pop("command")
    try:
        return getattr(worker, command)(**request) or {"ok": True}
    except BaseException as error:
        traceback.print_exc()
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer requests until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(int(sys.argv[1]), "w")
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    worker = Worker()
    for line in requests:
        request = json.loads(line)
        inside = request["command"] == "parse"
        answer = _answer(worker, request) if inside else _forked(worker, request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
