"""A small workspace in which the run stage works without DVC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from docker import APIClient

from stages.common.errors import UserError
from stages.common.files import write_json, write_text
from stages.run.docker.engine import engine
from stages.run.docker.image import agent_image, checked_agent, checked_relay
from stages.run.models import TaskResult
from stages.suite.models import Task, write_tasks
from tests.functional.docker_tools import build_image, listed

REPOSITORY = Path(__file__).resolve().parents[2]

MODEL = (
    "select id, current_date as seen_on, date '2024-01-01' as fixed from {{ source('raw', 'a') }}"
)
SOURCES = {"version": 2, "sources": [{"name": "raw", "schema": "main", "tables": [{"name": "a"}]}]}


def wait_for(condition: Callable[[], object], what: str, seconds: float = 180) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    pytest.fail(f"waited {seconds} s in vain for {what}")


class Workspace:
    """A folder with tasks, parameters and a trial store of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tasks: dict[str, Task] = {}
        self.dates: dict[str, str] = {}
        self.params: dict[str, Any] = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
        self.params["suite"].update(name="small", root="suite", built="built")
        self.params["retries"] = {"count": 1, "pause_s": 0.05}
        self.params["stack"]["lock"] = str(REPOSITORY / "stacks" / "current.lock")
        self.agent("stages.agent.nop.NopAgent")
        (root / ".stacks").symlink_to(REPOSITORY / ".stacks")

    def agent(self, target: str, **settings: Any) -> None:
        """Choose the agent by its class."""
        name = target.rpartition(".")[2]
        self.params["agent"] = {
            "name": name,
            "_target_": target,
            "needs_solution": False,
            "needs_model": False,
            **settings,
        }

    def claude(self, relay: dict[str, Any], **settings: Any) -> None:
        """Choose the agent `claude`, with its model behind the given relay."""
        default = yaml.safe_load((REPOSITORY / "conf/agent/claude.yaml").read_text())
        self.params["agent"] = default | settings
        self.params["model"] = {
            "name": "test",
            "id": "claude-sonnet-4-6",
            "recordings": None if relay["mode"] == "pass" else "recordings",
            "relay": relay,
        }

    def record(self, name: str, *turns: Any, verifier: Any = None) -> Path:
        """Write a recording for a task; the verifier's turns by default only report."""
        report = verifier or [{"answer": [{"text": "Checked."}]}]
        path = self.root / "recordings" / f"{name}.yaml"
        conversations = {"main": {"turns": list(turns)}, "verifier": {"turns": report}}
        write_text(path, yaml.safe_dump({"conversations": conversations}, sort_keys=False))
        return path

    def add(self, name: str, *, day: str = "2024-02-29") -> Task:
        """A task with one source table of two rows and one model."""
        project = self.root / "suite" / "examples" / name
        profile = {
            "target": "dev",
            "outputs": {"dev": {"type": "duckdb", "path": f"{name}.duckdb", "threads": 1}},
        }
        write_text(
            project / "dbt_project.yml",
            yaml.safe_dump({"name": "small", "profile": "small", "model-paths": ["models"]}),
        )
        write_text(project / "profiles.yml", yaml.safe_dump({"small": profile}))
        write_text(project / "models" / "sources.yml", yaml.safe_dump(SOURCES))
        write_text(project / "models" / "seen.sql", MODEL)
        database = project / f"{name}.duckdb"
        database.unlink(missing_ok=True)
        with duckdb.connect() as connection:
            # In the format that every DuckDB opens, as the suites' start databases are.
            connection.execute(f"attach '{database}' as made (storage_version 'v1.0.0')")
            connection.execute("use made")
            connection.execute("create table a as select range as id from range(2)")
            connection.execute("create view clock as select current_date as today")
        self.tasks[name] = Task(
            instance_id=name,
            instruction=f"Write the model of {name}.",
            project=project.relative_to(self.root),
            overlay=None,
            database=Path(database.name),
            start_digest=f"start of {name}",
        )
        self.dates[name] = day
        return self.tasks[name]

    def change(self, name: str, **fields: Any) -> None:
        """Change fields of a task."""
        self.tasks[name] = self.tasks[name].model_copy(update=fields)

    def write(self) -> None:
        """Put down everything that the run stage reads."""
        write_tasks(self.root / "results/suite/tasks.json", list(self.tasks.values()))
        write_json(self.root / "results/suite/solutions.json", {})
        write_json(self.root / "results/suite/unscoreable.json", {})
        write_json(self.root / "data/gold_build_dates.json", self.dates)
        write_text(self.root / "params.yaml", yaml.safe_dump(self.params))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a stage's process in this workspace."""
        return {**os.environ, "DVC_ROOT": str(self.root), "PYTHONPATH": str(REPOSITORY)}

    def start(self, module: str = "stages.run") -> subprocess.Popen[str]:
        """Start a stage and come back at once."""
        self.write()
        return subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, module: str = "stages.run") -> subprocess.CompletedProcess[str]:
        """Run a stage to its end; output and errors together."""
        process = self.start(module)
        try:
            output, _ = process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            raise
        return subprocess.CompletedProcess(module, process.returncode, output)

    def log(self, word: str) -> set[str]:
        """The trials of which the run log says `word` (`run`, `reuse` or `done`)."""
        lines = (self.root / "results" / "run.log").read_text().splitlines()
        return {line.split()[2] for line in lines if line.split()[1] == word}

    def trial(self, name: str, trial: int = 0) -> Path:
        """A trial's folder in results/runs."""
        return self.root / "results" / "runs" / name / str(trial)

    def result(self, name: str, trial: int = 0) -> TaskResult:
        """A trial's result."""
        return TaskResult.read(self.trial(name, trial) / "task_result.json")

    def stored(self) -> list[Path]:
        """The finished trials in the store."""
        return sorted((self.root / ".cache" / "trials").glob("*"))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with the tasks `one` and `two` and the agent `nop`."""
    space = Workspace(tmp_path)
    space.add("one")
    space.add("two", day="2023-05-06")
    return space


@pytest.fixture(scope="session")
def docker_images() -> Iterator[str]:
    """The agent's image with the tests' agents in it; skips without an engine, except in CI."""
    try:
        checked_agent("current", None)
        checked_relay()
    except UserError as error:
        reason = f"the sealed sandbox cannot be tested here: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    name = f"spider2-dbt-agent:tests-{uuid.uuid4().hex[:8]}"
    build_image(engine(), agent_image("current"), name)
    yield name
    engine().remove_image(name)


@pytest.fixture
def client(docker_images: str) -> APIClient:
    """The engine."""
    return engine()


@pytest.fixture
def sealed(
    workspace: Workspace, docker_images: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    """A workspace whose trials run in containers, and that leaves none behind."""
    monkeypatch.setenv("DVC_ROOT", str(workspace.root))
    sandbox = yaml.safe_load((REPOSITORY / "conf/sandbox/docker.yaml").read_text())
    workspace.params["sandbox"] = sandbox | {"image": docker_images}
    before = listed(engine())
    yield workspace
    assert listed(engine()) == before, "the test has left something in the engine"
