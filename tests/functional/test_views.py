"""Freezing views and taking the snapshot, with both stacks' DuckDB."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from stages.common.errors import UserError
from stages.stack.environments import Stack, ensure_stack, stack_lock
from stages.stack.host import freeze_views, run_bounded

DAY = datetime.date(2024, 2, 29)


@pytest.fixture(params=["current", "spider2"])
def stack(request: pytest.FixtureRequest) -> Stack:
    """Each stack in turn."""
    name: str = request.param
    return ensure_stack(name, stack_lock(name))


def make(stack: Stack, path: Path, *statements: str) -> None:
    """Make a database with the stack's own DuckDB."""
    program = (
        "import duckdb, sys\nc = duckdb.connect(sys.argv[1])\n[c.execute(s) for s in sys.argv[2:]]"
    )
    subprocess.run([stack.python, "-c", program, str(path), *statements], check=True)


def findings(out: Path) -> dict[str, str]:
    """Status by view."""
    return {item["view"]: item["status"] for item in json.loads((out / "views.json").read_text())}


def test_every_view_is_read_once_on_the_given_day(stack: Stack, tmp_path: Path) -> None:
    make(
        stack,
        tmp_path / "x.duckdb",
        "create table t as select 1 as a",
        "create schema other",
        'create view other."order" as select a, current_date as day from main.t',
        "create view nothing as select a from t where false",
        "create view broken as select * from t",
        "drop table t",
        "create table t as select 1 as a, current_date as day",
        'create or replace view "order" as select 2 as b',
    )
    freeze_views(stack, tmp_path / "x.duckdb", tmp_path / "out", DAY)
    with duckdb.connect(tmp_path / "out" / "views.duckdb", read_only=True) as frozen:
        assert frozen.sql('select day from other."order"').fetchall() == [(DAY,)]
        assert frozen.sql('select * from main."order"').fetchall() == [(2,)]
        assert frozen.sql("select * from nothing").fetchall() == []


def test_a_view_that_cannot_be_read_is_listed_and_the_others_go_on(
    stack: Stack, tmp_path: Path
) -> None:
    make(
        stack,
        tmp_path / "x.duckdb",
        "create table t as select 1 as a",
        "create view bad as select * from t",
        "create view good as select 3 as c",
        "drop table t",
    )
    freeze_views(stack, tmp_path / "x.duckdb", tmp_path / "out", DAY)
    assert findings(tmp_path / "out") == {"bad": "failed", "good": "frozen"}


def test_views_of_a_renamed_file_are_read(stack: Stack, tmp_path: Path) -> None:
    """DuckDB 1.1 writes the file's stem into each view."""
    make(
        stack,
        tmp_path / "first.duckdb",
        "create table t as select 1 as a",
        "create view plain as select * from t",
        "create view qualified as select * from first.main.t",
    )
    (tmp_path / "first.duckdb").rename(tmp_path / "second.duckdb")
    freeze_views(stack, tmp_path / "second.duckdb", tmp_path / "out", DAY)
    assert findings(tmp_path / "out") == {"plain": "frozen", "qualified": "frozen"}


def test_a_view_without_an_end_is_cut_at_the_limit(stack: Stack, tmp_path: Path) -> None:
    endless = "select count(*) as n from range(10000000000) a, range(10000000000) b"
    make(
        stack,
        tmp_path / "x.duckdb",
        f"create view a_endless as {endless}",
        "create view b_after as select 1 as x",
    )
    freeze_views(stack, tmp_path / "x.duckdb", tmp_path / "out", DAY, timeout_s=2)
    assert findings(tmp_path / "out") == {"a_endless": "failed", "b_after": "failed"}


def test_what_a_killed_process_left_in_the_log_is_merged(stack: Stack, tmp_path: Path) -> None:
    program = (
        "import duckdb, os, sys\nc = duckdb.connect(sys.argv[1])\n"
        "c.execute('create table t as select 7 as a'); c.execute('checkpoint')\n"
        "c.execute('insert into t values (8)')\nc.execute('create view v as select * from t')\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([stack.python, "-c", program, str(tmp_path / "x.duckdb")])
    assert (tmp_path / "x.duckdb.wal").exists()
    freeze_views(stack, tmp_path / "x.duckdb", tmp_path / "out", DAY)
    assert not (tmp_path / "x.duckdb.wal").exists()
    with duckdb.connect(tmp_path / "out" / "views.duckdb", read_only=True) as frozen:
        assert frozen.sql("select a from v order by a").fetchall() == [(7,), (8,)]


def test_a_file_that_is_no_database_is_a_clear_error(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("text")
    with pytest.raises(UserError, match="not a valid DuckDB database"):
        freeze_views(stack, tmp_path / "x.duckdb", tmp_path / "out", DAY)


def test_a_newer_format_is_refused_by_the_older_engine_by_name(tmp_path: Path) -> None:
    make(ensure_stack("current", stack_lock("current")), tmp_path / "x.duckdb", "select 1")
    older = ensure_stack("spider2", stack_lock("spider2"))
    with pytest.raises(UserError, match=r"DuckDB 1\.1\.3 of stack 'spider2'"):
        freeze_views(older, tmp_path / "x.duckdb", tmp_path / "out", DAY)


def test_a_bounded_command_is_killed_with_all_its_children(tmp_path: Path) -> None:
    done = run_bounded(
        ["/bin/sh", "-c", "echo begun; sleep 300 & sleep 300"],
        cwd=tmp_path,
        environment={"PATH": "/usr/bin:/bin"},
        timeout_s=1,
    )
    assert done.returncode == -9
    assert "begun" in done.stdout
    assert "not done after 1 s" in done.stdout


def test_the_snapshot_counts_describes_and_samples(stack: Stack, tmp_path: Path) -> None:
    make(
        stack,
        tmp_path / "x.duckdb",
        'create table "group" as select range as id, \'v|\' || range as "odd ""name" from range(5)',
        "create table empty_one (a integer, b date)",
        "create view v as select current_date as today",
    )
    program = [str(stack.python), "-m", "stages.stack.snapshot"]
    done = run_bounded(
        [*program, str(tmp_path / "x.duckdb"), str(tmp_path / "snapshot.md")],
        cwd=tmp_path,
        environment={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout_s=60,
    )
    assert done.returncode == 0, done.stdout
    text = (tmp_path / "snapshot.md").read_text()
    assert "## main.group (5 rows)" in text
    assert '- `odd "name` VARCHAR' in text
    assert r"| 0 | v\|0 |" in text
    assert "| 3 |" not in text
    assert "## main.empty_one (0 rows)" in text
    assert "## main.v (view)" in text
