"""What an agent finds in its container: no network, no rights, no secret, and one door."""

from __future__ import annotations

import errno
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
import yaml
from docker import APIClient

from stages.agent.models import TrialStatus
from stages.common.files import write_text
from stages.run.docker.sandbox import USER
from stages.run.models import TaskResult
from tests.functional.conftest import REPOSITORY, Workspace
from tests.functional.docker_inspector import holds, requests
from tests.functional.docker_tools import bridge, listed, relays, running, serve_endpoint

pytestmark = pytest.mark.docker

PREFIX = "canary-of-the-seal-"
KEY = f"{PREFIX}key"
VARIABLE = "SEAL_TEST_KEY"
UNREACHABLE = {errno.ENETUNREACH, errno.ECONNREFUSED, errno.EPERM, errno.EACCES, errno.EAFNOSUPPORT}
METADATA = "169.254.169.254"


@dataclass(frozen=True)
class Inspected:
    """What the agent reported, and what the engine and the world outside saw meanwhile."""

    report: dict[str, Any]
    result: TaskResult
    trial: Path
    containers: list[str]
    """`docker inspect` of both trials' containers and of the relay's, as text."""
    heard: list[tuple[str, dict[str, str], bytes]]
    knocked: list[str]
    """Who reached the test's listener on this machine."""


class Listener:
    """Waits on all addresses of this machine, over TCP and UDP, for somebody to knock."""

    def __init__(self) -> None:
        self.knocked: list[str] = []
        self._tcp = socket.create_server(("0.0.0.0", 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("0.0.0.0", self.port))
        for target in (self._accept, self._receive):
            threading.Thread(target=target, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, (host, _) = self._tcp.accept()
            self.knocked.append(f"tcp {host}")
            connection.close()

    def _receive(self) -> None:
        while True:
            data, _ = self._udp.recvfrom(100)
            self.knocked.append(f"udp {data.decode()}")


def plant(space: Workspace) -> None:
    """Canaries where gold, the evaluation config and keys lie."""
    gold = space.root / "suite/evaluation_suite/gold"
    for folder in (gold / "one", space.root / "data/built/gold/one", space.root / "built/gold/one"):
        folder.mkdir(parents=True)
        with duckdb.connect(folder / "one.duckdb") as connection:
            connection.execute(f"create table graded as select '{PREFIX}gold' as answer")
    write_text(gold / "spider2_eval.jsonl", f'{{"instance_id": "one", "note": "{PREFIX}config"}}\n')
    write_text(space.root / "results/suite/evaluation.json", f'"{PREFIX}suite"')
    write_text(space.root / ".env", f"ANOTHER_KEY={PREFIX}dotenv\n")


@pytest.fixture(scope="module")
def inspected(docker_images: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    client = APIClient(version="auto")
    space = Workspace(tmp_path_factory.mktemp("seal"))
    listener = Listener()
    addresses = {
        address.address.partition("%")[0]
        for interface in psutil.net_if_addrs().values()
        for address in interface
        if address.family in (socket.AF_INET, socket.AF_INET6)
    }
    hosts = sorted({*addresses, METADATA, "1.1.1.1", "2606:4700:4700::1111", "example.com"})
    with pytest.MonkeyPatch.context() as patch, serve_endpoint() as endpoint:
        patch.setenv("DVC_ROOT", str(space.root))
        patch.setenv(VARIABLE, KEY)
        for name in ("one", "two"):
            space.add(name)
        plant(space)
        sandbox = yaml.safe_load((REPOSITORY / "conf/sandbox/docker.yaml").read_text())
        space.params["sandbox"] = sandbox | {"image": docker_images}
        url = f"http://{bridge(client)}:{endpoint.port}"
        credential = {"variable": VARIABLE, "kind": "api_key"}
        space.claude({"mode": "pass", "base_url": url, "credential": credential})
        space.agent(
            "tests.functional.docker_inspector.Inspector",
            hosts=hosts,
            port=listener.port,
            backwards=PREFIX[::-1],
            needs_model=True,
        )
        before = listed(client)
        process = space.start()
        try:
            assert endpoint.wait_for("the inspector is here", "the neighbour is here")
            found = [*running(client, "one"), *running(client, "two"), *relays(client)]
            containers = [json.dumps(client.inspect_container(name)) for name in found]
        finally:
            endpoint.go.set()
            output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        assert PREFIX not in output
        report = json.loads((space.trial("one") / "project/report.json").read_text())
        yield Inspected(
            report=report,
            result=space.result("one"),
            trial=space.trial("one"),
            containers=containers,
            heard=endpoint.heard,
            knocked=listener.knocked,
        )
        assert listed(client) == before


def test_the_trial_counts_as_sealed(inspected: Inspected) -> None:
    assert inspected.result.sealed
    assert inspected.result.status is TrialStatus.COMPLETED


def test_there_is_no_interface_but_the_container_s_own(inspected: Inspected) -> None:
    # Some kernels give each network namespace tunnels that lead nowhere; none is routed.
    assert "lo" in inspected.report["interfaces"]
    assert not [name for name in inspected.report["interfaces"] if re.match(r"eth|en|veth", name)]
    assert inspected.report["routes"] == []


def test_no_host_is_reached_by_name_or_address(inspected: Inspected) -> None:
    """But its own loopback, where nobody listens but the door to the relay."""
    reached = {
        what
        for what, outcome in inspected.report["reached"].items()
        if outcome == "reached" and what.split()[-1 if "tcp" not in what else 1] not in LOOPBACK
    }
    assert reached == set()
    assert len(inspected.report["reached"]) >= 7 * 6
    assert any(f" {METADATA}" in what for what in inspected.report["reached"])
    assert inspected.knocked == []


LOOPBACK = ("127.0.0.1", "::1")


def test_nothing_of_the_host_listens_on_the_container_s_loopback(inspected: Inspected) -> None:
    for address in LOOPBACK:
        tcp = [v for k, v in inspected.report["reached"].items() if k.startswith(f"tcp {address} ")]
        assert tcp
        assert not [outcome for outcome in tcp if outcome == "reached"]


def test_no_name_is_resolved(inspected: Inspected) -> None:
    assert set(inspected.report["names"]) >= {"example.com", "host.docker.internal"}
    assert all("gaierror" in outcome for outcome in inspected.report["names"].values())


def test_another_trial_that_runs_at_the_same_time_is_not_reached(inspected: Inspected) -> None:
    assert "refused" in inspected.report["neighbour"]["tcp"]
    assert "refused" in inspected.report["neighbour"]["abstract"]


def test_a_trial_is_given_its_own_socket_alone(inspected: Inspected) -> None:
    assert inspected.report["neighbour"]["sockets"] == "socket"
    assert inspected.report["sockets"] == ["/relay/socket"]


def test_the_socket_can_be_neither_replaced_nor_removed(inspected: Inspected) -> None:
    for what, outcome in inspected.report["socket"].items():
        assert re.search(r"Read-only|not permitted|Permission|cross-device", outcome), what


NOT_SERVED = sorted(set(requests()) - {"allowed"})


@pytest.mark.parametrize("name", NOT_SERVED)
def test_the_relay_serves_nothing_but_the_messages_api(inspected: Inspected, name: str) -> None:
    told = inspected.report["relay"][name]
    assert re.match(r"HTTP/1.1 4\d\d ", told), told


def test_the_relay_serves_the_messages_api(inspected: Inspected) -> None:
    assert inspected.report["relay"]["allowed"].startswith("HTTP/1.1 200")


def test_what_was_refused_is_listed_in_the_result(inspected: Inspected) -> None:
    refused = "\n".join(inspected.result.refused)
    for what in (
        "GET /v1/models",
        "POST /v1/files",
        "POST /v1/messages/batches",
        "GET /v1/messages",
        "DELETE /v1/messages",
        "STEAL /v1/messages",
        "POST example.com/v1/messages",
        "POST 127.0.0.1:22/v1/messages",
        "GET /v1/ws",
        "http://example.com/v1/messages",
        "CONNECT example.com:443",
    ):
        assert what in refused, inspected.result.refused
    # What is no HTTP at all asks for nothing that could be listed.
    assert sum(inspected.result.refused.values()) == len(NOT_SERVED) - len(["no http"])


def test_the_endpoint_hears_of_the_messages_api_alone(inspected: Inspected) -> None:
    paths = {path for path, _, _ in inspected.heard}
    assert paths <= {"/v1/models?limit=1", "/v1/models", "/v1/messages", COUNT}
    bodies = [body for path, _, body in inspected.heard if path == COUNT]
    assert [json.loads(body)["messages"][0]["content"] for body in bodies] == ["count me"]


COUNT = "/v1/messages/count_tokens"


def test_the_endpoint_is_given_the_key_by_the_relay(inspected: Inspected) -> None:
    keys = {headers.get("x-api-key") for path, headers, _ in inspected.heard if "messages" in path}
    assert keys == {KEY}


def test_the_agent_is_not_root_and_has_no_capability(inspected: Inspected) -> None:
    status = inspected.report["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split() == [str(USER)] * 4
    assert status["Gid"].split() == [str(USER)] * 4
    assert status["Groups"].split() in ([], [str(USER)])


def test_root_cannot_be_gained(inspected: Inspected) -> None:
    for name, outcome in inspected.report["root"].items():
        assert outcome == "not there" or re.match(r"[1-9]\d* $|PermissionError", outcome), name


def test_no_folder_takes_a_file_but_the_work_directory_and_memory(inspected: Inspected) -> None:
    """Message queues have a folder too: the kernel's memory, in the container's own namespace."""
    assert set(inspected.report["created"]) <= {"/dev/mqueue"}
    assert inspected.report["modifiable"] == []


def test_no_canary_is_in_any_file_or_environment(inspected: Inspected) -> None:
    assert inspected.report["canaries"] == []


def test_no_canary_is_in_what_the_engine_says_of_the_containers(inspected: Inspected) -> None:
    assert len(inspected.containers) == 3
    for text in inspected.containers:
        assert PREFIX not in text


def test_no_canary_is_in_what_the_trial_left(inspected: Inspected) -> None:
    for path in inspected.trial.rglob("*"):
        if path.is_file():
            assert PREFIX.encode() not in path.read_bytes(), path


def test_only_the_trial_s_own_processes_are_seen(inspected: Inspected) -> None:
    ours = {"docker-init", "python", "python3", "socat", "git", "sh"}
    assert set(inspected.report["processes"]) <= ours


def test_the_inspector_would_have_found_a_canary(inspected: Inspected, tmp_path: Path) -> None:
    """The search itself works: on a file, across the border of two reads."""
    (tmp_path / "file").write_bytes(b"x" * ((8 << 20) - 5) + PREFIX.encode() + b"rest")
    assert holds(str(tmp_path / "file"), PREFIX.encode())
    assert not holds(str(tmp_path / "file"), b"something else")
