"""The whole pipeline through DVC and Hydra, in a clone of this repository, on the starter suite."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
import yaml

from stages.stack.clock import faketime_library

REPOSITORY = Path(__file__).resolve().parents[2]
TASKS = 15
FEW = "tasks=[courier001,harbor001,tram001]"

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(2400), pytest.mark.xdist_group("pipeline")]


class Clone:
    """A clone with one committed run of the oracle, as a user has after the first day."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("GIT_")
        }
        self.environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "tests",
            "GIT_AUTHOR_EMAIL": "tests@localhost",
            "GIT_COMMITTER_NAME": "tests",
            "GIT_COMMITTER_EMAIL": "tests@localhost",
        }
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            if (REPOSITORY / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, root / name)
        # Stacks are a matter of their own tests; two minutes are saved here.
        (root / ".stacks").symlink_to(REPOSITORY / ".stacks")
        self.call("git", "init", "-q", "-b", "main")
        self.commit("start")

    def call(self, *command: str, code: int = 0) -> str:
        """Run a command in the clone; its output and errors together."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, f"{command} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.call("git", "add", "-A")
        self.call("git", "commit", "-q", "--no-verify", "-m", message)

    def back(self) -> None:
        """Put the workspace back to the committed state, results included."""
        self.call("git", "checkout", "-q", ".")
        self.call("git", "clean", "-qfd")
        self.call("dvc", "checkout", "-q")

    def json(self, name: str) -> Any:
        """One of the results."""
        return json.loads((self.root / "results" / name).read_text())

    def forget_log(self) -> None:
        """Delete the run log, so that a later one is a later run's."""
        (self.root / "results" / "run.log").unlink(missing_ok=True)

    def log(self, word: str) -> set[str]:
        """The tasks of which the run log says `word`; none where nothing was logged."""
        path = self.root / "results" / "run.log"
        lines = path.read_text().splitlines() if path.is_file() else []
        fields = [line.split() for line in lines]
        return {items[2].partition("/")[0] for items in fields if items[1] == word}

    def passed(self) -> set[str]:
        """The tasks that passed."""
        return {name for name, task in self.json("tasks.json").items() if task["passed"]}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone after its first run, which is committed."""
    clone = Clone(tmp_path_factory.mktemp("pipeline"))
    clone.call("dvc", "exp", "run", "-S", "agent=oracle")
    assert clone.log("run") == set(clone.json("tasks.json"))
    clone.commit("first run")
    return clone


@pytest.fixture
def clone(first: Clone) -> Clone:
    """The clone in its committed state."""
    first.back()
    first.forget_log()
    return first


REPLAYED = {
    "allotment001": ("completed", True),
    "bakery001": ("completed", False),
    "beehive001": ("completed", True),
    "cafe001": ("completed", True),
    "clinic001": ("completed", False),
    "courier001": ("completed", False),
    "harbor001": ("completed", True),
    "meter001": ("completed", False),
    "museum001": ("completed", True),
    "orchard001": ("completed", True),
    "recipe001": ("completed", False),
    "shelter001": ("max_turns", False),
    "theatre001": ("completed", True),
    "toolshed001": ("completed", True),
    "tram001": ("completed", True),
}
"""What each recording was written for; data/starter/README.md says why."""


def test_the_default_run_replays_every_task_to_the_end_it_was_written_for(clone: Clone) -> None:
    output = clone.call("dvc", "exp", "run", "-S", "agent=claude", "-S", "model=replay")
    results = {name: clone.json(f"runs/{name}/0/task_result.json") for name in REPLAYED}
    found = {
        name: (results[name]["status"], name in clone.passed()) for name in clone.json("tasks.json")
    }
    assert found == REPLAYED
    assert "says nothing of a model" in output
    assert "there is no table product_week" in output
    assert results["allotment001"]["attempts"] == 2
    assert all(result["model"] == "replay" for result in results.values())
    assert all(result["tokens"]["output"] > 0 for result in results.values())
    assert clone.json("metrics.json")["cost"]["usd"] > 0


@pytest.mark.docker
@pytest.mark.usefixtures("docker_images")
def test_the_sealed_sandbox_gives_every_task_the_same_verdict(clone: Clone) -> None:
    clone.call("dvc", "exp", "run", "-S", "sandbox=docker", "-S", "concurrency.max_workers=3")
    outcomes = {}
    for path in sorted((clone.root / "results/runs").glob("*/0/task_result.json")):
        result = json.loads(path.read_text())
        assert result["sealed"] is True
        outcomes[result["instance_id"]] = result["status"]
    passed = clone.passed()
    assert {name: (status, name in passed) for name, status in outcomes.items()} == REPLAYED
    assert clone.json("metrics.json")["trials"] == {"all": TASKS, "sealed": TASKS}


def test_the_oracle_passes_every_starter_task(clone: Clone) -> None:
    metrics = clone.json("metrics.json")
    assert metrics["tasks"]["all"] == metrics["tasks"]["passed"] == TASKS
    assert metrics["tasks"]["passed_of_scoreable"] == 1.0
    assert metrics["trials"] == {"all": TASKS, "sealed": 0}
    assert len(clone.passed()) == TASKS


def test_a_second_repro_runs_nothing(clone: Clone) -> None:
    output = clone.call("dvc", "repro")
    assert "Running stage" not in output
    assert "up to date" in output


def test_nop_fails_every_task_the_diff_lists_them_and_going_back_runs_nothing(
    clone: Clone,
) -> None:
    clone.call("dvc", "exp", "run", "-S", "agent=nop")
    assert len(clone.log("run")) == TASKS
    assert clone.passed() == set()
    changed = json.loads(clone.call("dvc", "metrics", "diff", "--json"))["results/tasks.json"]
    tasks = {key for key in changed if key.endswith(".passed")}
    assert len(tasks) == TASKS
    assert all(changed[key]["old"] is True and changed[key]["new"] is False for key in tasks)
    clone.forget_log()
    clone.call("dvc", "exp", "run", "-S", "agent=oracle")
    assert clone.log("run") == set()
    assert len(clone.passed()) == TASKS
    for view in (("exp", "show"), ("plots", "show")):
        assert clone.call("dvc", *view)


@pytest.mark.parametrize("part", ["instruction", "model", "start data"])
def test_touching_one_task_reruns_exactly_that_one(clone: Clone, part: str) -> None:
    suite = clone.root / "data" / "starter"
    if part == "instruction":
        path = suite / "examples" / "spider2-dbt.jsonl"
        text = path.read_text()
        path.write_text(
            text.replace('"courier001", "instruction": "', '"courier001", "instruction": "Please: ')
        )
        assert path.read_text() != text
    elif part == "model":
        path = next((suite / "examples" / "courier001" / "models").rglob("*.yml"))
        path.write_text(path.read_text() + "\n# touched\n")
    else:
        path = next((suite / "sources" / "courier001").glob("*.csv"))
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-2], lines[-1], lines[-2]]) + "\n")
    clone.call("dvc", "repro")
    assert clone.log("run") == {"courier001"}
    assert len(clone.log("reuse")) == TASKS - 1
    assert len(clone.passed()) == TASKS


def test_another_solution_changes_gold_and_reruns_no_trial_of_another_agent(clone: Clone) -> None:
    clone.call("dvc", "exp", "run", "-S", "agent=nop", "-S", FEW)
    clone.forget_log()
    solution = next((clone.root / "data/starter/solutions/tram001").rglob("fact_*.sql"))
    solution.write_text(solution.read_text() + "\nlimit 3\n")
    output = clone.call("dvc", "repro")
    assert "Running stage 'evaluate'" in output
    assert clone.log("run") == set()
    assert clone.log("reuse") == {"courier001", "harbor001", "tram001"}


def test_after_a_kill_in_mid_run_only_what_had_not_finished_is_run(clone: Clone) -> None:
    store = clone.root / ".cache" / "trials"
    before = set(store.iterdir())
    params = clone.root / "params.yaml"
    changed = yaml.safe_load(params.read_text())
    changed["sandbox"]["trial_s"] = 1799
    params.write_text(yaml.safe_dump(changed))
    repro = subprocess.Popen(
        ["dvc", "repro"], cwd=clone.root, env=clone.environment, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while len(set(store.iterdir()) - before) < 4:
        assert time.monotonic() < deadline, "no trial finished"
        assert repro.poll() is None, "the run ended before it could be killed"
        time.sleep(0.1)
    stage = [
        process
        for process in psutil.Process(repro.pid).children(recursive=True)
        if "stages.run" in process.cmdline() and "python" in process.name()
    ]
    assert stage
    for process in stage:
        process.kill()
    assert repro.wait(timeout=60) != 0
    finished = len(set(store.iterdir()) - before)
    clone.forget_log()
    output = clone.call("dvc", "repro")
    assert "killed run(s)" in output
    assert len(clone.log("reuse")) == finished
    assert len(clone.log("run")) == TASKS - finished
    assert len(clone.passed()) == TASKS
    assert list((clone.root / ".cache" / "work").iterdir()) == []


def test_a_subset_states_its_own_denominators(clone: Clone) -> None:
    output = clone.call("dvc", "exp", "run", "-S", "agent=oracle", "-S", FEW)
    assert clone.log("reuse") == {"courier001", "harbor001", "tram001"}
    assert "passed 3/3 (100.0%) scoreable, 3/3 (100.0%) all tasks" in output


def test_wrong_choices_are_answered_with_the_valid_ones(clone: Clone) -> None:
    output = clone.call("dvc", "exp", "run", "-S", "agent=oracel", code=255)
    assert "Available options in 'agent'" in output
    assert "oracle" in output
    output = clone.call("dvc", "exp", "run", "-S", "tasks=[tram01]", code=255)
    assert "unknown task 'tram01'" in output
    assert "did you mean tram001?" in output


def test_a_suite_that_is_not_there_names_the_remedy(clone: Clone) -> None:
    output = clone.call("dvc", "exp", "run", "-S", "suite=spider2-dbt", code=255)
    assert "make spider2" in output


def test_a_queued_sweep_runs_each_choice_and_shares_the_store(clone: Clone) -> None:
    clone.call("dvc", "exp", "run", "--queue", "-S", "agent=oracle,nop", "-S", FEW)
    clone.call("dvc", "queue", "start")
    deadline = time.monotonic() + 300
    while any(word in clone.call("dvc", "queue", "status") for word in ("Queued", "Running")):
        assert time.monotonic() < deadline, clone.call("dvc", "queue", "status")
        time.sleep(1)
    status = clone.call("dvc", "queue", "status")
    assert status.count("Success") == 2, status
    shown = json.loads(clone.call("dvc", "exp", "show", "--json"))
    rates = set()
    for base in shown:
        for experiment in base.get("experiments") or []:
            for rev in experiment["revs"]:
                data = rev["data"]
                if data["params"]["params.yaml"]["data"]["tasks"]:
                    metrics = data["metrics"]["results/metrics.json"]["data"]
                    rates.add(metrics["tasks"]["passed"])
    assert {0, 3} <= rates


def verdicts_on(clone: Clone, day: str) -> str:
    """What the evaluate stage writes when the machine's clock shows `day`, gold frozen anew."""
    shutil.rmtree(clone.root / ".cache" / "frozen", ignore_errors=True)
    library = faketime_library(Path(sys.prefix))
    clock = {"LD_PRELOAD": str(library), "FAKETIME": f"@{day} 08:00:00", "TZ": "UTC"}
    subprocess.run(
        [sys.executable, "-m", "stages.evaluate"],
        cwd=clone.root,
        env=clone.environment | clock | {"FAKETIME_DONT_FAKE_MONOTONIC": "1"},
        check=True,
        capture_output=True,
    )
    return (clone.root / "results" / "verdicts.json").read_text()


def loans_out_today(clone: Clone) -> object:
    """What the starter suite's graded view shows when it is read now."""
    database = next((clone.root / "data/built/starter/gold/museum001").glob("*.duckdb"))
    with duckdb.connect(database, read_only=True) as connection:
        return connection.sql("select days_until_due from loans_out order by loan_id").fetchall()


def test_a_graded_view_scores_the_same_on_any_day(clone: Clone) -> None:
    before = (clone.root / "results" / "verdicts.json").read_text()
    frozen = clone.root / "results/runs/museum001/0/frozen/views.duckdb"
    with duckdb.connect(frozen, read_only=True) as connection:
        then = connection.sql("select days_until_due from loans_out order by loan_id").fetchall()
    assert loans_out_today(clone) != then, "the view must depend on the day, or this shows nothing"
    assert verdicts_on(clone, "2027-03-04") == verdicts_on(clone, "2031-12-31") == before


def test_the_other_stack_builds_and_passes_too(clone: Clone) -> None:
    clone.call("dvc", "exp", "run", "-S", "agent=oracle", "-S", "stack=spider2")
    assert len(clone.log("run")) == TASKS
    assert len(clone.passed()) == TASKS
    result = clone.json("runs/museum001/0/task_result.json")
    assert result["versions"]["duckdb"].startswith("1.1")
    before = (clone.root / "results" / "verdicts.json").read_text()
    assert verdicts_on(clone, "2031-12-31") == before
    # The graded view was frozen by its own engine, on the gold date.
    frozen = clone.root / "results/runs/museum001/0/frozen/views.duckdb"
    with duckdb.connect(frozen, read_only=True) as connection:
        assert connection.sql("select count(*) from loans_out").fetchall()[0][0] > 0


def test_an_official_layout_runs_and_new_gold_is_scored_without_a_run(clone: Clone) -> None:
    """`make spider2` on what the starter suite built: the official shape, with other content."""
    built = clone.root / "data" / "built" / "starter"
    source = clone.root / ".cache" / "source"
    shutil.copytree(clone.root / "data" / "starter", source / "spider2-dbt")
    clone.call(
        sys.executable,
        "-m",
        "stages.suite.install",
        f"--source={source}",
        f"--start={built / 'start'}",
        f"--gold={built / 'gold'}",
    )
    clone.commit("add a suite in the official layout")
    choice = ("-S", "suite=spider2-dbt", "-S", "stack=current", "-S", "agent=nop")
    output = clone.call("dvc", "exp", "run", *choice)
    assert "15 tasks, 15 can be run, 15 scoreable" in output
    assert len(clone.log("run")) == TASKS
    assert clone.passed() == set()
    clone.forget_log()
    gold = clone.root / "data/spider2-dbt/evaluation_suite/gold/recipe001/recipe.duckdb"
    start = clone.root / "data/spider2-dbt/examples/recipe001/recipe.duckdb"
    renewed = gold.with_name("renewed.duckdb")
    shutil.copyfile(gold, renewed)
    with duckdb.connect(renewed) as connection:
        connection.execute("delete from recipe_cost where rowid = 0")
    renewed.replace(gold)
    output = clone.call("dvc", "repro")
    assert "Stage 'run' didn't change, skipping" in output
    assert "Running stage 'evaluate'" in output
    assert clone.log("run") == clone.log("reuse") == set()
    assert start.is_file()


def test_two_recorded_models_three_trials_each_are_compared(clone: Clone) -> None:
    few = ["-S", "tasks=[bakery001,harbor001,tram001]", "-S", "trials=3"]
    compare = ("python", "-m", "stages.report.compare", "first", "second")
    clone.call("dvc", "exp", "run", "-n", "first", *few)
    before = clone.json("tasks.json")
    clone.call("dvc", "exp", "run", "-n", "second", *few, "-S", "model=replay-second")
    after = clone.json("tasks.json")
    told = clone.call(*compare)
    sentence = "No evidence of a difference between first and second: 1 gained, 1 lost of 3 tasks"
    assert sentence in " ".join(told.split())
    lines = {line.split()[0]: line for line in told.splitlines() if line.split()}
    for name, word, cause in (
        ("bakery001", "gained", "table_missing"),
        ("harbor001", "lost", "row_count"),
    ):
        assert word in lines[name]
        assert cause in lines[name]
    # `dvc metrics diff` is made from these files.
    flipped = {name for name in before if before[name] != after[name]}
    assert flipped == {"bakery001", "harbor001"}
    metrics = clone.json("metrics.json")
    assert metrics["trials"]["all"] == 9
    assert metrics["pass_at"] == {k: pytest.approx(2 / 3, abs=1e-4) for k in ("1", "2", "3")}
    assert "harbor001 flipped" in clone.call(*compare, "--fail-on-flip", "harbor001", code=2)
    unknown = clone.call(*compare[:-1], "nobody", code=1)
    assert "there is no revision or experiment 'nobody'" in unknown
