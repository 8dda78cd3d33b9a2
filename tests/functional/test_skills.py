"""Every example in the skills and prompts, executed on both stacks."""

from __future__ import annotations

import datetime
import json
import subprocess
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stages.agent import prompts, skills
from stages.common.files import write_text
from stages.stack.clock import clock_environment
from stages.stack.environments import Stack, ensure_stack, stack_lock
from stages.stack.host import run_dbt, stack_environment
from tests.functional.skills_examples import (
    DbtSteps,
    Example,
    faults_of_query,
    faults_of_steps,
    read_examples,
    read_steps,
)

DAY = datetime.date(2024, 3, 15)
"""The day of every example, unless it says another."""

PROJECT = 'name: demo\nversion: "1.0"\nprofile: demo\n'
PROFILE = "demo: {{target: dev, outputs: {{dev: {{type: duckdb, path: {path}, threads: 1}}}}}}\n"
FILES = sorted([*skills.FOLDER.glob("*/SKILL.md"), *prompts.FOLDER.glob("*.md")])


@pytest.fixture(scope="module", params=["current", "spider2"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Each stack in turn."""
    name: str = request.param
    return ensure_stack(name, stack_lock(name))


def observe(stack: Stack, kind: str, given: Any, day: datetime.date, folder: Path) -> Any:
    """Run `skills_observe.py` under the stack's Python in a folder, at `day`."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    out = home / "seen.json"
    done = subprocess.run(
        [stack.python, Path(__file__).with_name("skills_observe.py"), kind, out],
        cwd=folder,
        env=stack_environment(stack, day, home) | clock_environment(stack.prefix, day),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def query_faults(stack: Stack, files: list[Path], folder: Path) -> list[str]:
    """What is wrong with the SQL examples of the files, each file on a database of its own."""
    read = [[item for item in read_examples(file) if item.kind != "dbt"] for file in files]
    given = [[example.code for example in examples] for examples in read]
    seen = observe(stack, "queries", given, DAY, folder)
    faults = [
        faults_of_query(example, found, stack.versions)
        for examples, results in zip(read, seen, strict=True)
        for example, found in zip(examples, results, strict=True)
    ]
    return [fault for fault in faults if fault]


Group = tuple[str, list[dict[str, Any]]]


def carry_out(stack: Stack, blocks: list[DbtSteps], folder: Path) -> list[list[Any]]:
    """Carry out each block's steps in a new project; what each gave.

    `dbt deps` goes through the sandbox's own wrapper. The rest goes through dbt in one process
    for all blocks, and a further one for those that go on after `dbt deps` or on another day.
    """
    left: list[list[Group]] = [
        [(kind, list(steps)) for kind, steps in groupby(block.steps, key=_handler)]
        for block in blocks
    ]
    seen: list[list[Any]] = [[] for _ in blocks]
    days = [DAY for _ in blocks]
    projects = [folder / str(number) for number in range(len(blocks))]
    for project in projects:
        write_text(project / "dbt_project.yml", PROJECT)
        # dbt-duckdb tells databases apart by their path as written.
        write_text(project / "profiles.yml", PROFILE.format(path=project / "demo.duckdb"))
    while any(left):
        batches: dict[datetime.date, list[int]] = {}
        for number, groups in enumerate(left):
            while groups and groups[0][0] != "process":
                for step in groups.pop(0)[1]:
                    if step["do"] == "day":
                        days[number] = datetime.date.fromisoformat(step["day"])
                        seen[number].append({})
                    else:
                        done = run_dbt(stack, projects[number], step["words"], day=days[number])
                        found = {"failed": done.returncode != 0, "output": done.stdout}
                        seen[number].append(found)
            if groups:
                batches.setdefault(days[number], []).append(number)
        for day, numbers in batches.items():
            given = [[str(projects[number]), left[number].pop(0)[1]] for number in numbers]
            for number, found in zip(
                numbers, observe(stack, "dbt", given, day, folder), strict=True
            ):
                seen[number] += found
    return seen


def _handler(step: dict[str, Any]) -> str:
    if step["do"] == "day":
        return "host"
    return "wrapper" if step.get("words", [""])[0] == "deps" else "process"


def dbt_faults(stack: Stack, examples: list[Example], folder: Path) -> list[str]:
    """What is wrong with the dbt examples, each in a project of its own."""
    blocks = [read_steps(example, stack.versions) for example in examples]
    return [
        fault
        for example, steps, seen in zip(
            examples, blocks, carry_out(stack, blocks, folder), strict=True
        )
        for fault in faults_of_steps(example.place, steps, seen)
    ]


def dbt_examples(files: list[Path]) -> list[Example]:
    return [example for file in files for example in read_examples(file) if example.kind == "dbt"]


def test_every_sql_example_comes_out_as_written(stack: Stack, tmp_path: Path) -> None:
    assert query_faults(stack, FILES, tmp_path) == []


def test_every_dbt_example_comes_out_as_written(stack: Stack, tmp_path: Path) -> None:
    assert dbt_faults(stack, dbt_examples(FILES), tmp_path) == []


def broken_copy(tmp_path: Path, skill: str, right: str, wrong: str) -> Path:
    """A copy of a skill with one of its examples changed."""
    path = tmp_path / "copy" / skill / "SKILL.md"
    text = (skills.FOLDER / skill / "SKILL.md").read_text()
    assert text.count(right) == 1
    write_text(path, text.replace(right, wrong))
    return path


def test_a_wrong_value_is_found(stack: Stack, tmp_path: Path) -> None:
    """With the belief that an integer quotient truncates, for one."""
    broken = broken_copy(tmp_path, "duckdb-sql", "-- 2.5\n", "-- 2\n")
    [fault] = query_faults(stack, [broken], tmp_path)
    assert "written '2', found '2.5': select 5 / 2" in fault


def test_a_wrong_row_and_an_absent_error_are_found(stack: Stack, tmp_path: Path) -> None:
    row = broken_copy(tmp_path, "dbt-date-spines", "b | 2024-03-01 | 1", "b | 2024-03-01 | 2")
    gone = broken_copy(
        tmp_path, "duckdb-sql", 'select order from (select 1 as "order")', "select 1"
    )
    faults = query_faults(stack, [row, gone], tmp_path)
    assert ["dbt-date-spines" in faults[0], "duckdb-sql" in faults[1]] == [True, True]
    assert len(faults) == 2


def test_a_wrong_claim_on_dbt_is_found(tmp_path: Path) -> None:
    broken = broken_copy(tmp_path, "dbt-date-spines", "= 2024-04-01 |", "= 2024-03-15 |")
    stack = ensure_stack("current", stack_lock("current"))
    [fault] = dbt_faults(stack, dbt_examples([broken]), tmp_path)
    assert "written ['2024-03-15 | 2024-03-15'], found ['2024-04-01 | 2024-03-15']" in fault


def test_a_writer_keeps_readers_out_as_the_skill_says(stack: Stack, tmp_path: Path) -> None:
    path = str(tmp_path / "x.duckdb")
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"
    read = "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True)"
    with subprocess.Popen(
        [stack.python, "-c", hold, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        reader = [stack.python, "-c", read, path]
        refused = subprocess.run(reader, capture_output=True, text=True)
        writer.communicate("\n")
    assert "Conflicting lock is held" in refused.stderr
    assert subprocess.run(reader).returncode == 0
    assert "Conflicting lock is held" in (skills.FOLDER / "dbt-debugging/SKILL.md").read_text()
