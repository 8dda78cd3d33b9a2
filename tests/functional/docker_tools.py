"""What the tests of the sealed sandbox share: the engine's lists, a model's endpoint, an image."""

from __future__ import annotations

import io
import json
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
from docker import APIClient

from stages.relay.message import make_message
from stages.relay.usage import TokenCount
from stages.run.docker.labels import OWNER, RUN, TRIAL, owner

REPOSITORY = Path(__file__).resolve().parents[2]
AGENTS = "tests.functional.docker_agents"
KINDS = ("docker_agents.py", "docker_inspector.py", "agents.py")
"""The files that the tests' image holds on top."""
TOKENS = TokenCount(input=100, output=20)


def build_image(client: APIClient, base: str, name: str, *, label: str = "") -> None:
    """An image made from another: the tests' agents on top, or an outdated label."""
    lines = [f"FROM {base}"]
    lines += [f"LABEL {label}"] if label else ["COPY tests /opt/pipeline/tests"]
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        text = "\n".join(lines).encode()
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
        for kind in KINDS:
            archive.add(REPOSITORY / "tests" / "functional" / kind, f"tests/functional/{kind}")
    context.seek(0)
    output = client.build(
        fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True, decode=True
    )
    errors = [item["error"] for item in output if "error" in item]
    assert not errors, errors


def listed(client: APIClient) -> dict[str, set[str]]:
    """All containers, volumes and networks, but those of other checkouts."""
    mine = owner()

    def names(items: list[dict[str, Any]], key: str) -> set[str]:
        return {item[key] for item in items if (item["Labels"] or {}).get(OWNER, mine) == mine}

    return {
        "containers": names(client.containers(all=True), "Id"),
        "volumes": names(client.volumes()["Volumes"] or [], "Name"),
        "networks": names(client.networks(), "Id"),
    }


def running(client: APIClient, trial: str = "") -> list[str]:
    """The running containers of trials whose id begins so; without one, all of this workspace."""
    mine = {"label": f"{OWNER}={owner()}", "status": "running"}
    return [
        item["Id"]
        for item in client.containers(filters=mine)
        if item["Labels"].get(TRIAL, "").startswith(trial)
    ]


def relays(client: APIClient) -> list[str]:
    """The running containers of relays."""
    mine = {"label": f"{OWNER}={owner()}", "status": "running"}
    return [item["Id"] for item in client.containers(filters=mine) if TRIAL not in item["Labels"]]


def let_go(client: APIClient, container: str) -> None:
    """Let an agent `Held` end."""
    asked = client.exec_create(container, ["touch", "/trial/go"])
    client.exec_start(asked["Id"])


def leave_behind(client: APIClient, image: str, name: str, whose: str) -> None:
    """A container and a volume with somebody's labels."""
    labels = {OWNER: whose, RUN: "a-run"}
    client.create_volume(name, labels=labels)
    client.create_container(image, ["true"], name=name, labels=labels, entrypoint=[])


class Endpoint:
    """A model's endpoint on all addresses of this machine; it holds each call until let go."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, str], bytes]] = []
        self.arrived = threading.Condition()
        self.go = threading.Event()
        self.port = 0

    def wait_for(self, *texts: str, seconds: float = 180) -> bool:
        """Whether calls that say so have come."""

        def all_here() -> bool:
            return all(any(text.encode() in body for *_, body in self.heard) for text in texts)

        with self.arrived:
            return self.arrived.wait_for(all_here, seconds)


@contextmanager
def serve_endpoint() -> Iterator[Endpoint]:
    """An endpoint while the context lasts."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.hear(b"")
            self.say({"data": []})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.hear(body)
            if self.path.endswith("count_tokens"):
                self.say({"input_tokens": 7})
                return
            endpoint.go.wait(300)
            self.say(make_message("claude-test", [{"type": "text", "text": "Go on."}], TOKENS))

        def hear(self, body: bytes) -> None:
            headers = {key.lower(): value for key, value in self.headers.items()}
            with endpoint.arrived:
                endpoint.heard.append((self.path, headers, body))
                endpoint.arrived.notify_all()

        def say(self, told: dict[str, Any]) -> None:
            data = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Keep the tests' output clean."""

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    server.daemon_threads = True
    endpoint.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        endpoint.go.set()
        server.shutdown()
        server.server_close()


def bridge(client: APIClient) -> str:
    """This machine's address on the engine's own bridge."""
    name = client.inspect_network("bridge")["Options"]["com.docker.network.bridge.name"]
    found = psutil.net_if_addrs()[name]
    return next(each.address for each in found if each.family == socket.AF_INET)
