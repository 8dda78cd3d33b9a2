"""A trial's disk limit: what its volume holds, as a container of its own counts it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from docker.types import LogConfig

from stages.common.errors import UserError
from stages.run.docker.engine import BROKEN, engine, remove_container

PLACE = "/volume"


class DiskWatch:
    """Looks at a volume's size now and then, and kills the container that has let it grow too big.

    The trial's own container cannot count: without capabilities, nobody there can read a folder
    that the agent has shut.
    """

    def __init__(
        self,
        image: str,
        volume: str,
        name: str,
        *,
        labels: Mapping[str, str],
        most: float,
        every_s: float,
    ) -> None:
        """`most` is in bytes; `name` is for the container that counts, made at the first look."""
        self._image = image
        self._volume = volume
        self._name = name
        self._labels = dict(labels)
        self._most = most
        self._every_s = every_s
        self._made = False
        self._threads: list[threading.Thread] = []

    @contextmanager
    def watched(self, container: str) -> Iterator[threading.Event]:
        """Watch while the context lasts; the event is set when the container was killed for it."""
        over, filled = threading.Event(), threading.Event()

        def watch() -> None:
            while not over.wait(self._every_s):
                with contextlib.suppress(*BROKEN, UserError, ValueError, IndexError):
                    if self._size() > self._most and not over.is_set():
                        filled.set()
                        engine().kill(container)
                        return

        thread = threading.Thread(target=watch, name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)
        try:
            yield filled
        finally:
            over.set()

    def close(self) -> None:
        """Remove the container that counts."""
        for thread in self._threads:
            thread.join()
        if self._made:
            remove_container(self._name)

    def _size(self) -> int:
        client = engine()
        if not self._made:
            self._make()
        asked = client.exec_create(self._name, ["du", "-sxB1", PLACE])
        return int(client.exec_start(asked["Id"]).split()[0])

    def _make(self) -> None:
        client = engine()
        host = client.create_host_config(
            network_mode="none",
            binds={self._volume: {"bind": PLACE, "mode": "ro"}},
            read_only=True,
            cap_drop=["ALL"],
            cap_add=["DAC_READ_SEARCH"],
            security_opt=["no-new-privileges"],
            mem_limit="256m",
            pids_limit=16,
            log_config=LogConfig(type="none"),
        )
        self._made = True
        client.create_container(
            self._image,
            ["infinity"],
            entrypoint=["sleep"],
            user="0",
            name=self._name,
            host_config=host,
            labels=self._labels,
            network_disabled=True,
        )
        client.start(self._name)
