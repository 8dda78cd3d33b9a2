"""The relay as the run stage holds it: open a trial, hand out its URL, close it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import uvicorn
from pydantic import SecretStr
from starlette.types import ASGIApp

from stages.common.errors import UserError
from stages.relay.answer import Gate, Source
from stages.relay.app import always, by_token, make_app
from stages.relay.budget import Purse
from stages.relay.config import Mode, RelayConfig
from stages.relay.credential import find_secret
from stages.relay.endpoint import Endpoint, check_endpoint
from stages.relay.faults import FaultySource
from stages.relay.play import Player
from stages.relay.record import Recorder
from stages.relay.recording import load_recording, write_recording
from stages.relay.stream import INCOMPLETE
from stages.relay.trial import Trial
from stages.relay.usage import Meter, Usage

START_S = 30.0
SETTLE_S = 5.0
"""How long a closing trial waits for calls whose client has gone."""


class Relay:
    """A server of its own thread, on a free port of this machine, while the context lasts.

    Its methods may be called from any thread.
    """

    def __init__(self, config: RelayConfig, *, listen: socket.socket | None = None) -> None:
        """`listen` is a bound socket to serve instead; a Unix socket, for example."""
        self._config = config
        self._given = listen
        self._trials: dict[str, Trial] = {}
        self._open: dict[str, tuple[str, Path | None]] = {}
        self._gate = Gate()
        self._purse = Purse(config.budget)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own: dict[str, uvicorn.Server] = {}
        """The servers of trials that have an address to themselves, by token."""
        self.strangers: Counter[str] = Counter()
        """Calls without a trial's token, by method."""

    def __enter__(self) -> Self:
        self._secret: SecretStr | None = None
        if self._config.mode is not Mode.PLAY:
            # One that is missing is told by `check` and `open_trial`.
            with contextlib.suppress(UserError):
                self._secret = find_secret(self._config)
        self._socket = self._given or socket.create_server(("127.0.0.1", 0))
        logging.getLogger("uvicorn.error").addFilter(_on_purpose)
        self._server = _server(
            make_app(by_token(self._trials), _host(self.address), self.strangers)
        )
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the relay's server did not start")
            time.sleep(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    @property
    def address(self) -> str:
        """The server's base URL, without a trial's token; a Unix socket has no host to name."""
        name = self._socket.getsockname()
        if isinstance(name, str):
            return "http://localhost"
        host, port = name[:2]
        return f"http://{host}:{port}"

    def check(self) -> str:
        """Make sure of the credential before the first trial; `play` needs none.

        Returns what is amiss but no reason to stop (an endpoint that cannot be reached: each
        trial will say so), else nothing.

        Raises:
            UserError: the credential is missing or refused; with the remedy.
        """
        if self._config.mode is Mode.PLAY:
            return ""
        return check_endpoint(self._config, find_secret(self._config))

    def open_trial(
        self,
        name: str,
        recording: Path | None = None,
        *,
        project: Path | None = None,
        attempt: int = 1,
        listen: socket.socket | None = None,
        address: str = "",
    ) -> str:
        """Admit a trial; returns its base URL.

        By default the URL holds a secret token, which proves who calls. With `listen`, whoever
        reaches that socket is the trial, and the URL is `address`.

        Args:
            name: the trial's, for its `Usage`; not open already.
            recording: read in `play`, written by `close_trial` in `record`.
            project: the work directory as the sandbox sees it; by default what the requests
                say of it.
            attempt: which attempt of the trial this is; some faults are made in one only.
            listen: a bound socket that only this trial can reach; it is closed with the trial.
            address: the base URL under which the trial reaches `listen`.

        Raises:
            UserError: the recording is missing or not valid, or so is the credential.
            BudgetSpentError: the run's budget is spent.
        """
        self._purse.admit()
        config = self._config
        meter = Meter(trial=name, prices=config.prices)
        place = str(project) if project else None
        keeper: Player | Recorder | None = None
        source: Source
        gate = self._gate
        if config.mode is not Mode.PASS and recording is None:
            raise UserError(
                f"no recording is named for trial {name}",
                remedy=f"mode `{config.mode.value}` needs one; docs/recordings.md",
            )
        if config.mode is Mode.PLAY and recording is not None:
            keeper = source = Player(load_recording(recording), recording.name, place)
            gate = Gate()  # A recording holds up its own trial alone.
        else:
            find_secret(config)
            source = self._endpoint
            keeper = Recorder(place) if config.mode is Mode.RECORD else None
        source = FaultySource(source, config.faults, attempt, meter.faults)
        token = secrets.token_urlsafe(24)
        with self._lock:
            if name in self._open:
                raise ValueError(f"trial {name} is open already")
            self._open[name] = token, recording
            trial = self._trials[token] = Trial(config, meter, source, gate, self._purse, keeper)
        if listen is None:
            return f"{self.address}/{token}"
        server = _server(make_app(always(trial), _host(address), self.strangers))
        assert self._loop is not None
        self._own[token] = server
        asyncio.run_coroutine_threadsafe(server.serve(sockets=[listen]), self._loop)
        return address

    def close_trial(self, name: str) -> Usage:
        """Refuse the trial's further calls and say what it used; in `record`, write it down."""
        with self._lock:
            token, path = self._open.pop(name)
        trial = self._trials.pop(token)
        if server := self._own.pop(token, None):
            server.should_exit = True
        deadline = time.monotonic() + SETTLE_S
        while trial.active and time.monotonic() < deadline:
            time.sleep(0.01)
        if isinstance(trial.keeper, Recorder) and path is not None:
            recording = trial.keeper.recording(f"Recorded from {name}.")
            if recording is not None:
                write_recording(path, recording)
        return trial.usage()

    def _serve(self) -> None:
        """The thread: one event loop with the server and the endpoint's connections."""

        async def serve() -> None:
            self._endpoint = Endpoint(self._config, self._secret)
            self._loop = asyncio.get_running_loop()
            try:
                await self._server.serve(sockets=[self._socket])
            finally:
                await self._endpoint.close()

        asyncio.run(serve())


def _server(app: ASGIApp) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )


def _host(address: str) -> str:
    """What a client of a base URL sends as `Host`."""
    return urlsplit(address).netloc


def _on_purpose(record: logging.LogRecord) -> bool:
    """Keeps one line out of the log: that of a stream which is cut because its source was."""
    return record.getMessage() != INCOMPLETE
