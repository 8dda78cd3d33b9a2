"""The relay in a container of its own: `python -m stages.relay.serve`.

Commands come on standard input and are answered on standard output (stages/relay/control.py).
It ends with its standard input, so that it never outlives who started it. Each trial has a Unix
socket of its own, in a folder that only its container is given.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stages.common.errors import UserError, main
from stages.relay.budget import BudgetSpentError
from stages.relay.config import Mode
from stages.relay.control import ADDRESS, SOCKET, SOCKETS, Command, Do, Hello, Reply
from stages.relay.relay import Relay

AT_ONCE = 64
"""Commands that may wait at the same time."""


class Server:
    """Carries out commands on one relay."""

    def __init__(self, relay: Relay, mode: Mode, sockets: Path, scratch: Path) -> None:
        self._relay = relay
        self._mode = mode
        self._sockets = sockets
        self._scratch = scratch
        self._folders: dict[str, Path] = {}

    def answer(self, command: Command) -> Reply:
        """Carry out one command; what goes wrong is told in the reply."""
        try:
            if command.do is Do.CHECK:
                return Reply(number=command.number, amiss=self._relay.check())
            if command.do is Do.OPEN:
                return self._open(command)
            return self._close(command)
        except BudgetSpentError as error:
            told = error.what, error.where, error.remedy
            return Reply(number=command.number, error=told, spent=True)
        except UserError as error:
            told = error.what, error.where, error.remedy
        except Exception as error:
            told = f"{type(error).__name__}: {error}", "", ""
        return Reply(number=command.number, error=told)

    def _open(self, command: Command) -> Reply:
        folder = self._sockets / command.folder
        folder.mkdir()
        place = folder / SOCKET
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(place))
        # The trial is another user; nobody else has the folder.
        place.chmod(0o666)
        listening.listen()
        recording = self._scratch / f"{command.folder}.yaml" if command.recording else None
        if recording is not None and command.content is not None:
            recording = self._scratch / command.folder / str(command.recording)
            recording.parent.mkdir()
            recording.write_text(command.content, encoding="utf-8")
        self._relay.open_trial(
            command.trial,
            recording,
            project=Path(command.project) if command.project else None,
            attempt=command.attempt,
            listen=listening,
            address=ADDRESS,
        )
        self._folders[command.trial] = folder
        return Reply(number=command.number)

    def _close(self, command: Command) -> Reply:
        usage = self._relay.close_trial(command.trial)
        folder = self._folders.pop(command.trial)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(self._scratch / folder.name, ignore_errors=True)
        recorded = None
        if self._mode is Mode.RECORD:
            written = self._scratch / f"{folder.name}.yaml"
            recorded = written.read_text(encoding="utf-8") if written.is_file() else None
        return Reply(number=command.number, usage=usage, recorded=recorded)


def run() -> int:
    """Serve until standard input ends."""
    hello = Hello.model_validate_json(sys.stdin.readline())
    os.environ.update(hello.environment)
    saying = threading.Lock()

    def carry_out(server: Server, line: str) -> None:
        reply = server.answer(Command.model_validate_json(line))
        with saying:
            print(reply.model_dump_json(), flush=True)

    scratch = Path(tempfile.mkdtemp())
    inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    inner.bind(str(scratch / "inner"))
    with Relay(hello.config, listen=inner) as relay, ThreadPoolExecutor(AT_ONCE) as pool:
        server = Server(relay, hello.config.mode, Path(SOCKETS), scratch)
        for line in sys.stdin:
            pool.submit(carry_out, server, line)
    return 0


if __name__ == "__main__":
    main(run)
