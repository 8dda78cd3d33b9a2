"""An agent that looks for every way out of its container and writes down what it found."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus
from stages.common.files import write_json
from tests.functional.docker_agents import ask

WRITABLE = ("/trial", "/tmp", "/dev/shm")
NOT_FILES = ("/proc", "/sys")
ABSTRACT = "\0neighbour"
NEIGHBOUR_PORT = 7777
PROGRAMS = {
    "su": ["su", "-c", "id -u"],
    "unshare": ["unshare", "-Ur", "id", "-u"],
    "mount": ["mount", "-t", "tmpfs", "none", "/tmp"],
    "nsenter": ["nsenter", "-t", "1", "-a", "id", "-u"],
    "chroot": ["chroot", "/", "id", "-u"],
}


@dataclass(frozen=True)
class Inspector:
    """Looks around in the task `one`, while in every other one a neighbour listens."""

    hosts: Sequence[str]
    """Names and addresses to be reached for."""
    port: int
    """Where the test listens on this machine."""
    backwards: str
    """How all canaries begin, backwards."""
    model: str
    skills: Sequence[str]
    gateway: Mapping[str, Any]

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        endpoint = spec.endpoint or ""
        if spec.instance_id != "one":
            listen = socket.create_server(("0.0.0.0", NEIGHBOUR_PORT))
            abstract = socket.socket(socket.AF_UNIX)
            abstract.bind(ABSTRACT)
            abstract.listen()
            ask(endpoint, "the neighbour is here")
            listen.close()
            return Outcome(status=TrialStatus.COMPLETED)
        ask(endpoint, "the inspector is here")
        found = {
            "interfaces": [path.name for path in Path("/sys/class/net").iterdir()],
            "routes": Path("/proc/net/route").read_text().splitlines()[1:],
            "reached": self.reached(),
            "names": self.names(),
            "neighbour": neighbour(),
            "relay": {name: talk(request) for name, request in requests().items()},
            "sockets": docker_sockets(),
            "status": status(),
            "root": root(folder),
            "created": sorted(created()),
            "modifiable": sorted(modifiable()),
            "socket": tamper(),
            "canaries": sorted(self.canaries()),
            "processes": sorted(processes()),
        }
        write_json(folder.project / "report.json", found)
        return Outcome(status=TrialStatus.COMPLETED)

    def reached(self) -> dict[str, str]:
        """What came of each attempt; an error is what the test wants to see."""
        found = {}
        for host in self.hosts:
            for port in (self.port, 80, 443, 2375):
                found[f"tcp {host} {port}"] = attempt(lambda h=host, p=port: tcp(h, p))
            found[f"udp {host}"] = attempt(lambda h=host: udp(h, self.port))
            found[f"icmp {host}"] = attempt(lambda h=host: icmp(h, socket.SOCK_DGRAM))
            found[f"raw icmp {host}"] = attempt(lambda h=host: icmp(h, socket.SOCK_RAW))
        return found

    def names(self) -> dict[str, str]:
        """Names that cannot be resolved."""
        names = ("example.com", "api.anthropic.com", "host.docker.internal", "gateway", "two")
        return {name: attempt(lambda n=name: socket.getaddrinfo(n, 80)) for name in names}

    def canaries(self) -> Iterator[str]:
        """Readable files, environments and command lines that hold a canary."""
        wanted = self.backwards[::-1].encode()
        for path in files():
            if path != f"{WRITABLE[0]}/project/report.json" and holds(path, wanted):
                yield path
        for place in Path("/proc").glob("[0-9]*"):
            for name in ("environ", "cmdline", "mountinfo", "status"):
                if holds(str(place / name), wanted):
                    yield str(place / name)


def attempt(do: Any) -> str:
    """`reached`, or the error."""
    try:
        do()
    except (OSError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}"
    return "reached"


def tcp(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=3).close()


def udp(host: str, port: int) -> None:
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as out:
        out.sendto(b"from the sandbox", address)


def icmp(host: str, kind: int) -> None:
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    echo = b"\x80\0\0\0\0\1\0\1" if family == socket.AF_INET6 else b"\x08\0\xf7\xfd\0\1\0\1"
    with socket.socket(family, kind, protocol) as out:
        out.settimeout(3)
        out.sendto(echo, address)
        out.recv(64)


def neighbour() -> dict[str, str]:
    """Another trial listens on all its addresses, and on an abstract socket."""

    def abstract() -> None:
        with socket.socket(socket.AF_UNIX) as out:
            out.connect(ABSTRACT)

    return {
        "tcp": attempt(lambda: tcp("127.0.0.1", NEIGHBOUR_PORT)),
        "abstract": attempt(abstract),
        "sockets": " ".join(path.name for path in Path("/relay").iterdir()),
    }


def requests() -> dict[str, bytes]:
    """What the relay is asked for, byte by byte."""
    own, body = "127.0.0.1:8080", b'{"model": "m", "messages": []}'

    def ask_for(line: str, host: str = own, more: str = "", data: bytes = b"") -> bytes:
        head = f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    return {
        "models": ask_for("GET /v1/models"),
        "files": ask_for("POST /v1/files", data=body),
        "batches": ask_for("POST /v1/messages/batches", data=body),
        "climbing": ask_for("POST /v1/messages/../models", data=body),
        "encoded": ask_for("POST /v1/messages%2f..%2fmodels", data=body),
        "double slash": ask_for("POST //v1/messages", data=body),
        "get messages": ask_for("GET /v1/messages"),
        "delete messages": ask_for("DELETE /v1/messages"),
        "made-up method": ask_for("STEAL /v1/messages"),
        "other host": ask_for("POST /v1/messages", host="example.com", data=body),
        "other port": ask_for("POST /v1/messages", host="127.0.0.1:22", data=body),
        "absolute": ask_for("POST http://example.com/v1/messages", data=body),
        "absolute, other host": ask_for("GET http://example.com/", host="example.com"),
        "connect": b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n",
        "connect, own host": f"CONNECT {own} HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(),
        "websocket": ask_for("GET /v1/ws", more=upgrade).replace(b": close", b": Upgrade"),
        "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "allowed": ask_for("POST /v1/messages/count_tokens", data=COUNT),
    }


COUNT = b'{"model": "m", "messages": [{"role": "user", "content": "count me"}]}'


def talk(request: bytes) -> str:
    """The first line of the relay's answer."""
    with socket.create_connection(("127.0.0.1", 8080), timeout=30) as out:
        out.sendall(request)
        with contextlib.suppress(TimeoutError, ConnectionError):
            return out.recv(4096).partition(b"\r\n")[0].decode(errors="replace")
    return "no answer"


def docker_sockets() -> list[str]:
    """Sockets in the file system, but the relay's."""
    found = []
    for folder, _, names in os.walk("/", onerror=None):
        for name in names:
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.lstat(f"{folder}/{name}").st_mode):
                    found.append(f"{folder}/{name}")
    return found


def status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def root(folder: TrialFolder) -> dict[str, str]:
    """What each way to more rights gives."""
    found = {}
    for name, command in PROGRAMS.items():
        if shutil.which(name) is None:
            found[name] = "not there"
            continue
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        found[name] = f"{done.returncode} {done.stdout.strip()}"
    found["setuid"] = attempt(lambda: os.setuid(0))
    found["setgid"] = attempt(lambda: os.setgid(0))
    copy = folder.root / "id"
    shutil.copy("/usr/bin/id", copy)
    found["chown"] = attempt(lambda: os.chown(copy, 0, 0))
    found["mknod"] = attempt(lambda: os.mknod(folder.root / "disk", 0o600 | stat.S_IFBLK, 0xFE00))
    return found


def created() -> Iterator[str]:
    """Folders outside of those for it that take a new file."""
    for folder, names, _ in os.walk("/"):
        above = folder.rstrip("/")
        names[:] = [name for name in names if f"{above}/{name}" not in WRITABLE]
        if folder.startswith("/proc/"):
            names[:] = []
        with contextlib.suppress(OSError):
            place = Path(folder, "made-by-the-agent")
            place.touch(exist_ok=False)
            yield folder
            place.unlink()


def modifiable() -> Iterator[str]:
    """Regular files outside of its folders that can be opened for writing."""
    for path in files():
        if not path.startswith(tuple(f"{place}/" for place in WRITABLE)):
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY))
                yield path


def tamper() -> dict[str, str]:
    """Attempts to take the relay's place."""
    return {
        "create": attempt(lambda: Path("/relay/other").write_text("")),
        "unlink": attempt(lambda: Path("/relay/socket").unlink()),
        "rename": attempt(lambda: Path("/relay/socket").rename("/relay/other")),
        "chmod": attempt(lambda: Path("/relay/socket").chmod(0)),
        "link": attempt(lambda: os.link("/relay/socket", "/trial/socket")),
    }


def files() -> Iterator[str]:
    """Every regular file but the kernel's."""
    for folder, names, here in os.walk("/"):
        above = folder.rstrip("/")
        names[:] = [name for name in names if f"{above}/{name}" not in NOT_FILES]
        for name in here:
            path = f"{above}/{name}"
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield path


def holds(path: str, wanted: bytes) -> bool:
    """Whether a file that can be read holds some bytes."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
        held = b""
        while data := file.read(8 << 20):
            if wanted in held + data:
                return True
            held = data[-len(wanted) :]
    return False


def processes() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            yield place.read_text().strip()
