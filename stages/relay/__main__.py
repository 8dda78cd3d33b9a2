"""The relay as a process of its own: `python -m stages.relay --config relay.yaml --trial NAME`.

It prints one JSON line a trial with its URL, serves until SIGTERM or Ctrl-C, and then prints one
JSON line a trial with its `Usage`.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import threading
from pathlib import Path

import yaml
from pydantic import ValidationError

from stages.common.errors import UserError, main
from stages.relay.config import RelayConfig
from stages.relay.relay import Relay


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m stages.relay", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="YAML of a RelayConfig")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--unix", type=Path, help="listen on this Unix socket instead")
    parser.add_argument(
        "--trial", action="append", default=[], metavar="NAME[=RECORDING]", help="may be repeated"
    )
    given = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Relay(_config(given.config), listen=_listen(given.unix, given.host, given.port)) as relay:
        relay.check()
        names = []
        for trial in given.trial:
            name, _, recording = trial.partition("=")
            url = relay.open_trial(name, Path(recording) if recording else None)
            print(json.dumps({"trial": name, "url": url}), flush=True)
            names.append(name)
        stop.wait()
        for name in names:
            print(relay.close_trial(name).model_dump_json(), flush=True)
    return 0


def _config(path: Path) -> RelayConfig:
    try:
        return RelayConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise UserError(
            f"the relay's configuration cannot be read: {error}", where=str(path)
        ) from None


def _listen(unix: Path | None, host: str, port: int) -> socket.socket:
    if unix is None:
        return socket.create_server((host, port))
    unix.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(unix))
    return listening


if __name__ == "__main__":
    main(_main)
