"""Agents for tests of the sealed sandbox. They run in a container, where only this file is known.

What a test must not write into their settings, since it looks for it inside, is given backwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stages.agent.models import Outcome, TrialFolder, TrialSpec, TrialStatus
from stages.common.files import write_json

DONE = Outcome(status=TrialStatus.COMPLETED)
MB = 1 << 20


def ask(endpoint: str, text: str) -> dict[str, Any]:
    """Say something to the model; it answers when the test lets it."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{endpoint}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        told: dict[str, Any] = json.load(answer)
    return told


@dataclass(frozen=True)
class Held:
    """Works until the test puts a file into its folder; `quick…` tasks end by themselves."""

    model: str = ""
    skills: Sequence[str] = ()
    gateway: Mapping[str, Any] | None = None

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3000)"])
        while not (spec.instance_id.startswith("quick") or (folder.root / "go").exists()):
            time.sleep(0.05)
        return DONE


@dataclass(frozen=True)
class Hog:
    """Takes more memory than there is: itself, or a child in tasks that begin with `child`."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        (folder.project / "mark.txt").write_text("was here")
        if not spec.instance_id.startswith("child"):
            fill_memory()
        program = "from tests.functional.docker_agents import fill_memory; fill_memory()"
        done = subprocess.run([sys.executable, "-c", program])
        (folder.project / "code.txt").write_text(str(done.returncode))
        return DONE


def fill_memory() -> None:
    """Allocate and touch memory without end."""
    held = []
    while True:
        held.append(b"x" * (16 * MB))


@dataclass(frozen=True)
class ForkBomb:
    """Starts children without end, and writes down how far it came."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        children = []
        with contextlib.suppress(OSError):
            while len(children) < 20_000:
                child = os.fork()
                if not child:
                    time.sleep(3000)
                children.append(child)
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        (folder.project / "children.txt").write_text(str(len(children)))
        return DONE


@dataclass(frozen=True)
class Filler:
    """Fills its disk in a way that the task's name says."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        if spec.instance_id.startswith("big"):
            try:
                with (folder.project / "big").open("wb", buffering=0) as file:
                    while True:
                        file.write(bytes(MB))
            except OSError as error:
                size = (folder.project / "big").stat().st_size
                (folder.project / "big").unlink()
                write_json(folder.project / "told.json", {"errno": error.errno, "size": size})
                return DONE
        if spec.instance_id.startswith("sparse"):
            for number in range(50):
                with (folder.project / f"sparse{number}").open("wb") as file:
                    file.truncate(40 * MB)
            return DONE
        hidden = folder.project / "hidden"
        hidden.mkdir()
        place = os.open(hidden, os.O_RDONLY)
        hidden.chmod(0)
        held = []
        for number in range(10):
            # Shut folders hide nothing from who counts, and no file is beyond its own limit.
            hidden.chmod(0o700)
            name = f"{number}"
            file = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=place)
            hidden.chmod(0)
            held.append(file)
            for _ in range(20):
                os.write(file, os.urandom(MB))
        time.sleep(3000)
        return DONE


@dataclass(frozen=True)
class Litterer:
    """Deletes a file that it was given, and leaves what could harm who collects."""

    def solve(self, spec: TrialSpec, folder: TrialFolder) -> Outcome:
        project = folder.project
        (project / "models" / "sources.yml").unlink()
        (project / "to_host").symlink_to("/etc/passwd")
        (project / "to_parent").symlink_to("../../../../../../../../etc/passwd")
        (project / "around").symlink_to("models/../../../../outside")
        (project / "harmless").symlink_to("models/seen.sql")
        os.mkfifo(project / "a_pipe")
        os.link(project / "a_pipe", project / "b_pipe")
        (project / "shut").mkdir()
        (project / "shut" / "file").write_text("in a shut folder")
        (project / "shut").chmod(0)
        (project / "secret").write_text("unreadable")
        (project / "secret").chmod(0)
        (project / ".git").mkdir()
        (project / ".git" / "object").write_text("bulk")
        deep = os.open(project, os.O_RDONLY)
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=deep)
            deep = os.open("d" * 200, os.O_RDONLY, dir_fd=deep)
        (project / "zz_last").write_text("comes after all that")
        return DONE
