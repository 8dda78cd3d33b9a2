"""Keeps a worker at hand, and replaces one that dies or does not answer in time."""

from __future__ import annotations

import multiprocessing
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from stages.gateway.models import Reply, Settings
from stages.gateway.worker import serve

GRACE_S = 10.0
"""Beyond the time limit, for a query that does not heed its interrupt at once."""

START_S = 120.0


class Supervisor:
    """Runs calls one after another in a child process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._one_at_a_time = threading.Lock()
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """The reply to a call; a worker that crashed or hangs is a failed call, no more."""
        with self._one_at_a_time:
            try:
                pipe = self._worker()
                pipe.send((tool, arguments))
                reply = self._wait(pipe)
                if reply.spent:
                    self.stop()
            except (EOFError, OSError):
                reply = Reply(
                    text="the call took the process that carries out queries down (out of memory, "
                    "or nested too deeply). A new one answers the next call.",
                    outcome="failed",
                    sql=str(arguments.get("sql", "")),
                )
                self.stop()
            return reply

    def _wait(self, pipe: Connection) -> Reply:
        limits = self._settings.limits
        deadline = time.monotonic() + limits.query_s + GRACE_S
        while pipe.poll(max(0.0, deadline - time.monotonic())):
            message = pipe.recv()
            if isinstance(message, Reply):
                return message
            allowed = limits.lock_s if message == "waiting" else limits.query_s
            deadline = time.monotonic() + allowed + GRACE_S
        self.stop()
        return Reply(
            text=f"the call did not end within its {limits.query_s:g} s and was ended by force",
            outcome="timeout",
        )

    def _worker(self) -> Connection:
        if self._closed:
            raise EOFError
        if self._pipe is not None and self._process is not None and self._process.is_alive():
            return self._pipe
        self.stop()
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(START_S):
            raise EOFError
        self._pipe.recv()
        return self._pipe

    def close(self) -> None:
        """End the worker for good; calls that are still queued fail."""
        self._closed = True
        self.stop()

    def stop(self) -> None:
        """End the worker, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None
