"""The sealed sandbox: a fresh container and a fresh volume a trial, and no network."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from docker.types import LogConfig, Ulimit
from requests.exceptions import ConnectionError as Disconnected
from requests.exceptions import Timeout

from stages.agent.models import TrialFolder
from stages.common.errors import UserError
from stages.common.files import clear_folder
from stages.relay.config import RelayConfig
from stages.run.docker import labels
from stages.run.docker.archive import TooMuchError, pack, unpack
from stages.run.docker.disk import DiskWatch
from stages.run.docker.engine import (
    BROKEN,
    EngineError,
    check_disk,
    engine,
    in_words,
    remove_container,
    remove_volume,
)
from stages.run.docker.image import agent_image, checked_agent, checked_relay, content_digest
from stages.run.docker.relay import ContainerRelay
from stages.run.sandbox import Cut, Door, Ended, LimitError, Site
from stages.stack.environments import Stack
from stages.stack.host import sandbox_environment

TRIAL = Path("/trial")
STACK = Path("/opt/stack")
PROGRAMS = Path("/usr/local/bin")
PIPELINE = "/opt/pipeline"
RELAY = "/relay"
USER = 10001
"""The image's user."""

GB = 10**9
KILLED = 137
"""Exit code of a container whose first process was killed."""
KILL_S = 30.0
"""Longest wait for a killed container to end, seconds."""


@dataclass(frozen=True)
class DockerSandbox:
    """Isolates an agent: no network, no capability, no root, a read-only system, and limits."""

    trial_s: float
    """Wall-clock limit of the agent, seconds."""
    freeze_s: float
    """Wall-clock limit of reading all views afterwards, seconds."""
    memory_gb: float
    """Memory of a container, swap included."""
    cpus: float
    """Processors of a container."""
    processes: int
    """Processes and threads of a container."""
    disk_gb: float
    """What a trial's volume may hold; the kernel holds single files to it."""
    disk_check_s: float
    """How often the volume's size is looked at, seconds."""
    least_free_gb: float
    """What must be free on the engine's disk before a run."""
    image: str | None = None
    """Another image's name, made `FROM` the one that `make image` builds for the stack."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside the scrubbed ones."""
    sealed: bool = True

    def check(self, stack: Stack) -> None:
        """See `Sandbox.check`: the engine, both images, and room on its disk."""
        checked_agent(stack.name, self.image)
        checked_relay()
        check_disk(self.least_free_gb)

    def identity(self, stack: Stack) -> dict[str, str]:
        """The digest of what the image holds."""
        return {"image": content_digest(checked_agent(stack.name, self.image))}

    def inside(self, folder: TrialFolder) -> TrialFolder:
        """Every trial works in the same place."""
        return TrialFolder(TRIAL)

    def relay(self, config: RelayConfig, run_id: str) -> ContainerRelay:
        """A relay in a container of its own."""
        return ContainerRelay(config, run_id)

    def runs(self) -> set[str]:
        """See `Sandbox.runs`."""
        return labels.runs()

    def cleanup(self, run_id: str) -> int:
        """Remove a run's containers, volumes and networks.

        Where the engine is gone, the next start does it.
        """
        with contextlib.suppress(UserError):
            return labels.remove(run_id)
        return 0

    @contextmanager
    def open(self, site: Site) -> Iterator[Containers]:
        """See `Sandbox.open`."""
        containers = Containers(self, site)
        try:
            with in_words("set up a trial's container"):
                containers.set_up()
            yield containers
        finally:
            containers.remove()


class Containers:
    """One trial's volume, and a container on it for each command."""

    def __init__(self, sandbox: DockerSandbox, site: Site) -> None:
        self._sandbox = sandbox
        self._site = site
        name = re.sub(r"[^\w.-]", "-", f"spider2-{site.run_id}-{site.trial_id}")
        self._name = name
        self._volume = f"{name}-work"
        self._names = {"solve": f"{name}-solve", "finish": f"{name}-finish"}
        self._labels = labels.labels(site.run_id, site.trial_id)
        self._image = sandbox.image or agent_image(site.stack.name)
        self._disk = DiskWatch(
            self._image,
            self._volume,
            f"{name}-disk",
            labels=self._labels,
            most=sandbox.disk_gb * GB,
            every_s=sandbox.disk_check_s,
        )
        self._made: threading.Thread | None = None
        self._failure: BaseException | None = None

    def set_up(self) -> None:
        """Make the volume with the trial's files on it, and the container that is to solve."""
        engine().create_volume(self._volume, labels=self._labels)
        self._create("solve", self._site.door)
        folder = self._site.folder
        folder.home.mkdir(exist_ok=True)
        engine().put_archive(self._names["solve"], str(TRIAL), pack(folder.root, USER))
        # What comes back is all that there is then: the agent may have deleted files.
        clear_folder(folder.root)

    def run(self, *command: str, limit_s: float) -> Ended:
        """See `Workplace.run`. Output goes to `agent.log` on the volume."""
        name = self._names[command[0]]
        with in_words("run a trial's container"):
            if command[0] == "finish":
                self._await_second()
            engine().start(name)
            if command[0] == "solve":
                self._make_second()
            with self._disk.watched(name) as filled:
                late = not self._wait(name, limit_s)
                if late:
                    self._kill(name)
            state = engine().inspect_container(name)["State"]
        return self._ended(state, late=late, filled=filled.is_set())

    def collect(self, *, everything: bool) -> None:
        """Stream the volume, or the log and the outcome alone, into the trial's folder."""
        root = self._site.folder.root
        with in_words("read what a trial left"):
            if everything:
                try:
                    unpack(self._read(f"{TRIAL}/."), root, most=self._sandbox.disk_gb * GB)
                except TooMuchError:
                    raise LimitError(self._full()) from None
                return
            for name in ("agent.log", "outcome.json"):
                with contextlib.suppress(NotFound):
                    unpack(self._read(f"{TRIAL}/{name}"), root)

    def remove(self) -> None:
        """Remove everything of the trial; what cannot be removed now is left to the next start."""
        if self._made is not None:
            self._made.join()
        with contextlib.suppress(*BROKEN):
            self._disk.close()
            for name in self._names.values():
                remove_container(name)
            remove_volume(self._volume)

    def _read(self, place: str) -> Iterator[bytes]:
        stream: Iterator[bytes]
        stream, _ = engine().get_archive(self._names["solve"], place, chunk_size=1 << 20)
        return stream

    def _make_second(self) -> None:
        """Make the second container while the first is at work."""

        def make() -> None:
            try:
                self._create("finish", None)
            except BaseException as error:
                self._failure = error

        self._made = threading.Thread(target=make, name=self._name, daemon=True)
        self._made.start()

    def _await_second(self) -> None:
        assert self._made is not None
        self._made.join()
        if self._failure is not None:
            raise self._failure

    def _create(self, phase: str, door: Door | None) -> None:
        sandbox, site = self._sandbox, self._site
        client = engine()
        binds: dict[str, Mapping[str, str]] = {self._volume: {"bind": str(TRIAL), "mode": "rw"}}
        if door is not None and door.volume is not None:
            binds[door.volume] = {"bind": RELAY, "mode": "ro"}
        memory = int(sandbox.memory_gb * GB)
        largest = int(sandbox.disk_gb * GB)
        host: dict[str, Any] = client.create_host_config(
            network_mode="none",
            binds=binds,
            tmpfs={"/tmp": "size=64m,mode=1777"},
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=memory,
            memswap_limit=memory,
            nano_cpus=int(sandbox.cpus * GB),
            pids_limit=sandbox.processes,
            ulimits=[Ulimit(name="fsize", soft=largest, hard=largest)],
            init=True,
            log_config=LogConfig(type="none"),
        )
        home = TrialFolder(TRIAL).home
        environment = {
            **sandbox.environment,
            **sandbox_environment(STACK, site.day, home, PROGRAMS),
            "PYTHONPATH": PIPELINE,
        }
        command = ["solve"] if phase == "solve" else ["finish", str(sandbox.freeze_s)]
        client.create_container(
            self._image,
            command,
            name=self._names[phase],
            host_config=host,
            environment=environment,
            labels=self._labels,
            network_disabled=True,
        )

    def _wait(self, name: str, limit_s: float) -> bool:
        """Whether the container ended within the limit, as the engine itself reports."""
        started = time.monotonic()
        try:
            engine().wait(name, timeout=math.ceil(limit_s))
        except (Timeout, Disconnected):
            # A limit that is over and an engine that is gone look alike to the library.
            if time.monotonic() - started < limit_s:
                raise
            return False
        return True

    def _kill(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            engine().kill(name)
        if not self._wait(name, KILL_S):
            raise EngineError(f"the Docker engine did not end a killed container: {name}")

    def _full(self) -> str:
        return f"out of disk: the sandbox's limit is {self._sandbox.disk_gb:g} GB"

    def _ended(self, state: Mapping[str, Any], *, late: bool, filled: bool) -> Ended:
        sandbox, code = self._sandbox, int(state["ExitCode"])
        note = ""
        cut = None
        if state["OOMKilled"]:
            note = f"out of memory: the sandbox's limit is {sandbox.memory_gb:g} GB"
        if filled:
            cut, note = Cut.DISK, self._full()
        elif late:
            cut = Cut.TIME
        elif code == KILLED:
            cut = Cut.MEMORY if state["OOMKilled"] else Cut.OUTSIDE
        seconds = (_time(state["FinishedAt"]) - _time(state["StartedAt"])).total_seconds()
        return Ended(code=code, cut=cut, seconds=seconds, note=note)


def _time(text: str) -> datetime.datetime:
    """The engine's time, which has nanoseconds or fewer digits."""
    whole, _, rest = text.partition(".")
    digits = re.match(r"\d*", rest)
    fraction = digits[0][:6] if digits else ""
    return datetime.datetime.fromisoformat(f"{whole.rstrip('Z')}.{fraction:0<6}")
