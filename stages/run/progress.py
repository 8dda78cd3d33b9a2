"""What a user sees of a run: a live display on a terminal, plain lines elsewhere, and a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from stages.run.models import TaskResult

LOGGER = logging.getLogger("spider2.run")


@contextmanager
def run_log(path: Path) -> Iterator[None]:
    """Write the run's events to `path`, one line each, with UTC times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    formatter = logging.Formatter("%(asctime)sZ %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        handler.close()


class Display:
    """Shows finished trials as lines and, on a terminal, those at work below them."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.futures: Mapping[Future[TaskResult], str] = {}
        self.progress = Progress(
            TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        )
        self.bar = self.progress.add_task("trials", total=total)
        self.live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=4,
            transient=True,
            auto_refresh=console.is_terminal,
        )

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def _render(self) -> RenderableType:
        running = [name for future, name in self.futures.items() if future.running()]
        return Group(self.progress, Text(f"at work: {', '.join(running) or '-'}", style="dim"))

    def reused(self, name: str, key: str) -> None:
        """A trial was found in the store."""
        LOGGER.info("reuse %s %s", name, key[:12])
        self.progress.advance(self.bar)
        self.console.print(f"reuse {name}", highlight=False, soft_wrap=True)

    def starting(self, name: str, reason: str) -> None:
        """A trial was handed to a worker."""
        LOGGER.info("run %s (%s)", name, reason)

    def finished(self, name: str, result: TaskResult) -> None:
        """A trial ended."""
        LOGGER.info(
            "done %s %s %.1f s, attempt %d%s",
            name,
            result.status,
            result.elapsed_s,
            result.attempts,
            f": {' '.join(result.detail.split())}" if result.detail else "",
        )
        self.progress.advance(self.bar)
        first = result.detail.splitlines()[0] if result.detail else ""
        self.console.print(
            f"done  {name}  {result.status}  {result.elapsed_s:.1f} s  {first}".rstrip(),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
