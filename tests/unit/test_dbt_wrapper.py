"""The dbt wrapper: which subcommands live on the task's clock, and what it leaves alone."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stages.stack.clock import clock_environment
from stages.stack.dbt import ON_TASK_CLOCK, TAKES_VALUE, subcommand
from stages.stack.environments import ensure_stack, stack_lock
from stages.stack.host import WRAPPER, stack_environment

OPTIONS = """
import json
from dbt.cli.main import cli
valued = [o for p in cli.params if not getattr(p, "is_flag", True) and p.nargs for o in p.opts]
print(json.dumps({"valued": valued, "commands": sorted(cli.commands)}))
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run"], "run"),
        (["--no-use-colors", "run", "--select", "seed"], "run"),
        (["--profiles-dir", "deps", "build"], "build"),
        (["--target=prod", "test"], "test"),
        (["-t", "run", "parse"], "parse"),
        (["--log-level", "debug", "--quiet", "run-operation", "x"], "run-operation"),
        (["--version"], None),
        ([], None),
    ],
)
def test_the_subcommand_is_found_past_global_flags(words: list[str], expected: str | None) -> None:
    assert subcommand(words) == expected


@pytest.mark.parametrize("name", ["current", "spider2"])
def test_every_option_that_takes_a_value_is_known(name: str) -> None:
    """dbt itself is asked, so that a new version's option cannot hide a subcommand."""
    stack = ensure_stack(name, stack_lock(name))
    done = subprocess.run([stack.python, "-c", OPTIONS], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["valued"], "dbt lists no options: the question is wrong"
    assert set(told["valued"]) <= TAKES_VALUE
    assert set(told["commands"]) >= ON_TASK_CLOCK


def fake_stack(root: Path) -> Path:
    """A stack whose dbt prints its arguments, its day and its clock variables."""
    program = root / "bin" / "dbt"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!{sys.executable}\n"
        "import datetime, json, os, sys\n"
        "print(json.dumps({'arguments': sys.argv[1:], 'today': str(datetime.date.today()),"
        " 'monotonic': os.environ.get('FAKETIME_DONT_FAKE_MONOTONIC')}))\n"
    )
    program.chmod(0o755)
    real = ensure_stack("current", stack_lock("current"))
    (root / "lib").symlink_to(real.prefix / "lib")
    return root


def call(folder: Path, *words: str, prefix: Path) -> subprocess.CompletedProcess[str]:
    """Call the wrapper as a sandbox would."""
    stack = ensure_stack("current", stack_lock("current"))
    environment = stack_environment(stack, datetime.date(2024, 2, 29), folder)
    environment["SPIDER2_STACK"] = str(prefix)
    return subprocess.run(
        [WRAPPER / "dbt", *words], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("command", sorted(ON_TASK_CLOCK))
def test_what_evaluates_sql_lives_on_the_gold_date(tmp_path: Path, command: str) -> None:
    done = call(tmp_path, "--no-use-colors", command, "--x", prefix=fake_stack(tmp_path / "stack"))
    told = json.loads(done.stdout)
    assert told["today"] == "2024-02-29"
    assert told["monotonic"] == "1"
    assert told["arguments"] == ["--no-use-colors", command, "--x"]


@pytest.mark.parametrize("command", ["parse", "deps", "debug", "list", "clean"])
def test_the_rest_lives_on_the_real_clock(tmp_path: Path, command: str) -> None:
    done = call(tmp_path, command, prefix=fake_stack(tmp_path / "stack"))
    assert json.loads(done.stdout)["today"] == datetime.date.today().isoformat()


def test_deps_leaves_vendored_packages_alone(tmp_path: Path) -> None:
    package = tmp_path / "project" / "dbt_packages" / "ours"
    package.mkdir(parents=True)
    (package / "dbt_project.yml").write_text("name: ours\n")
    prefix = fake_stack(tmp_path / "stack")
    done = call(tmp_path, "deps", "--project-dir", "project", prefix=prefix)
    assert done.returncode == 0
    assert "installed already" in done.stdout
    assert "ours" in done.stdout
    assert package.is_dir()


def test_without_a_sandbox_the_wrapper_says_what_is_missing() -> None:
    environment = {key: os.environ[key] for key in ("PATH",)}
    done = subprocess.run([WRAPPER / "dbt", "run"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "SPIDER2_GOLD_DATE must be set" in done.stderr


def test_a_stack_without_libfaketime_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no libfaketime below"):
        clock_environment(tmp_path, datetime.date(2024, 1, 1))
