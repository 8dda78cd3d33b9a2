"""Runs work on files that nobody vouches for in a process apart, so that its death is a finding."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ProcessDiedError(Exception):
    """The process apart ended without an answer: a crash in DuckDB, or too little memory."""


class Apart:
    """One child process that calls functions one after another; a new one follows a dead one."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a module's function with values that can be pickled.

        Raises:
            ProcessDiedError: the child process died; the next call gets a new one.
            Exception: whatever the function raises.
        """
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=context)
        try:
            return self._pool.submit(function, *args, **kwargs).result()
        except BrokenProcessPool:
            self._close()
            raise ProcessDiedError(
                "the process that read the databases died (out of memory, or a crash in DuckDB)"
            ) from None

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
