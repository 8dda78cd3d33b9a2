"""A relay in a container of its own, spoken to through its standard input and output."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import struct
import threading
from concurrent.futures import Future
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docker.types import LogConfig

from stages.common.errors import UserError
from stages.common.files import write_text
from stages.relay.budget import BudgetSpentError
from stages.relay.config import Mode, RelayConfig
from stages.relay.control import ADDRESS, SOCKETS, Command, Do, Hello, Reply
from stages.relay.credential import find_secret
from stages.relay.usage import Usage
from stages.run.docker.engine import (
    BROKEN,
    EngineError,
    engine,
    in_words,
    remove_container,
    remove_volume,
)
from stages.run.docker.image import PROXIES, RELAY
from stages.run.docker.labels import labels
from stages.run.sandbox import Door

ANSWER_S = 60.0
"""Longest wait for an answer to a command, seconds."""
MEMORY = "1g"


class ContainerRelay:
    """Holds the credential; reaches the model's endpoint, in `play` nothing at all."""

    def __init__(self, config: RelayConfig, run_id: str) -> None:
        """Start the container.

        Raises:
            UserError: the credential is missing.
            EngineError: the engine refuses.
        """
        self._config = config
        self._run_id = run_id
        self._name = f"spider2-{run_id}-relay-{secrets.token_hex(4)}"
        self._numbers = count()
        self._waiting: dict[int, Future[Reply]] = {}
        self._open: dict[str, tuple[str, Path | None]] = {}
        self._lock = threading.Lock()
        self.alive = True
        self._network: str | None = None
        with in_words("start the relay"):
            self._start()

    def check(self) -> str:
        """See `RelayServer.check`."""
        if self._config.mode is not Mode.PLAY:
            # Told here, since the container knows no `.env`.
            find_secret(self._config)
        return self._ask(Do.CHECK).amiss

    def open_trial(self, name: str, recording: Path | None, *, project: Path, attempt: int) -> Door:
        """See `RelayServer.open_trial`. The trial's socket gets a volume that it alone is given."""
        folder = re.sub(r"\W", "-", name) + secrets.token_hex(4)
        plays = recording is not None and self._config.mode is Mode.PLAY
        self._ask(
            Do.OPEN,
            trial=name,
            folder=folder,
            recording=recording.name if recording else None,
            content=recording.read_text(encoding="utf-8") if plays and recording else None,
            project=str(project),
            attempt=attempt,
        )
        volume = f"{self._name}-{folder}"
        self._open[name] = volume, recording
        device = f"{self._place}/{folder}"
        try:
            with in_words("make the volume of a trial's socket"):
                engine().create_volume(
                    volume,
                    driver="local",
                    driver_opts={"type": "none", "o": "bind", "device": device},
                    labels=labels(self._run_id, name),
                )
        except EngineError:
            with contextlib.suppress(EngineError, UserError):
                self.close_trial(name)
            raise
        return Door(ADDRESS, volume)

    def close_trial(self, name: str) -> Usage:
        """See `RelayServer.close_trial`."""
        volume, recording = self._open.pop(name)
        reply = self._ask(Do.CLOSE, trial=name)
        if reply.recorded is not None and recording is not None:
            write_text(recording, reply.recorded)
        # One that is still in use, or an engine that is gone, is left to the end of the run.
        with contextlib.suppress(*BROKEN):
            remove_volume(volume)
        return reply.usage or Usage(trial=name)

    def close(self) -> None:
        """Remove the container and what belongs to it; an engine that is gone is no error."""
        self.alive = False
        with contextlib.suppress(*BROKEN):
            remove_container(self._name)
            remove_volume(self._name)
            if self._network:
                engine().remove_network(self._network)

    def _start(self) -> None:
        client = engine()
        mine = labels(self._run_id)
        volume = client.create_volume(self._name, labels=mine)
        # Where the engine keeps it, so that one folder of it can be a volume of its own.
        self._place = volume["Mountpoint"]
        mode = self._network_mode()
        if mode is None:
            self._network = self._name
            client.create_network(self._name, driver="bridge", labels=mine)
        host = client.create_host_config(
            network_mode=mode or self._name,
            binds={self._name: {"bind": SOCKETS, "mode": "rw"}},
            tmpfs={"/tmp": "size=256m"},
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=MEMORY,
            pids_limit=256,
            init=True,
            auto_remove=True,
            log_config=LogConfig(type="none"),
        )
        client.create_container(
            RELAY, name=self._name, host_config=host, labels=mine, stdin_open=True
        )
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        self._socket = client.attach_socket(self._name, params=streams)
        raw = self._socket._sock
        raw.settimeout(None)
        client.start(self._name)
        threading.Thread(target=self._listen, name=self._name, daemon=True).start()
        self._say(Hello(config=self._config, environment=self._environment()).model_dump_json())

    def _network_mode(self) -> str | None:
        """`none` where nothing is to be reached, `host` for a model of this machine's own."""
        if self._config.mode is Mode.PLAY:
            return "none"
        own = urlsplit(self._config.base_url).hostname in ("127.0.0.1", "localhost", "::1")
        return "host" if own else None

    def _environment(self) -> dict[str, str]:
        given = {key: os.environ[key] for key in PROXIES if key in os.environ}
        if self._config.mode is not Mode.PLAY and self._config.credential is not None:
            # One that is missing is told by `check`.
            with contextlib.suppress(UserError):
                secret = find_secret(self._config)
                if secret is not None:
                    given[self._config.credential.variable] = secret.get_secret_value()
        return given

    def _say(self, line: str) -> None:
        with self._lock:
            self._socket._sock.sendall(line.encode() + b"\n")

    def _ask(self, do: Do, **given: Any) -> Reply:
        number = next(self._numbers)
        future = self._waiting[number] = Future()
        try:
            # Looked at only now: whoever ends it tells those that wait already.
            if not self.alive:
                raise EngineError("the relay's container has ended")
            with in_words("reach the relay"):
                self._say(Command(number=number, do=do, **given).model_dump_json())
            reply = future.result(ANSWER_S)
        except TimeoutError:
            raise EngineError(f"the relay's container gave no answer in {ANSWER_S:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if reply.error is not None:
            what, where, remedy = reply.error
            kind = BudgetSpentError if reply.spent else UserError
            raise kind(what, where=where, remedy=remedy)
        return reply

    def _listen(self) -> None:
        """The thread: hand each reply to who waits for it; tell all when the relay has ended."""
        held, said = b"", b""
        with contextlib.suppress(OSError, ValueError):
            for stream, data in _frames(self._socket):
                if stream != 1:
                    said = (said + data)[-2000:]
                    continue
                *lines, held = (held + data).split(b"\n")
                for line in lines:
                    reply = Reply.model_validate_json(line)
                    if (waiting := self._waiting.get(reply.number)) is not None:
                        waiting.set_result(reply)
        self.alive = False
        last = said.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
        for waiting in list(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(EngineError(f"the relay's container ended: {last[0]}"))


def _frames(source: Any) -> Any:
    """The engine's frames of an attached container: stream number (1 output, 2 errors), bytes."""
    read = partial(_exactly, source._sock)
    while header := read(8):
        stream, size = struct.unpack(">BxxxL", header)
        yield stream, read(size)


def _exactly(source: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data
