"""The builder, on a tiny suite with real dbt and DuckDB."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from stages.common.errors import UserError
from stages.common.files import digest_file, walk
from stages.common.params import SuiteParams
from stages.stack.environments import ensure_stack, stack_lock
from stages.suite.build import build_databases
from stages.suite.databases import build_start
from stages.suite.sources import read_sources

DAY = datetime.date(2023, 4, 5)
PROJECT = """\
name: shop
version: "1.0.0"
profile: shop
models:
  shop:
    +materialized: table
"""
PROFILE = """\
shop:
  target: dev
  outputs:
    dev: {type: duckdb, path: shop.duckdb, threads: 1}
"""
SOURCES = """\
version: 2
sources:
  - name: shop
    schema: main
    tables: [{name: order}]
"""
BUILD = f"""\
build_date: {DAY}
databases:
  - file: shop.duckdb
    tables:
      - name: order
        csv: orders.csv
        columns: {{id: INTEGER, sold_on: DATE, note: VARCHAR}}
      - name: numbers
        schema: extra
        sql: numbers.sql
    views:
      - name: latest
        sql: latest.sql
"""
CSV = 'id,sold_on,note\n3,2023-01-31,"a, b"\n1,,\n2,2023-02-01,c\n'
AGE = """\
select id, date_diff('day', sold_on, current_date) as days_ago
from {{ source('shop', 'order') }}
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _add_task(root: Path, task: str, solution: str) -> None:
    example, sources = root / "examples" / task, root / "sources" / task
    _write(example / "dbt_project.yml", PROJECT)
    _write(example / "profiles.yml", PROFILE)
    _write(example / "models" / "sources.yml", SOURCES)
    _write(sources / "build.yaml", BUILD)
    _write(sources / "orders.csv", CSV)
    _write(sources / "numbers.sql", "-- twice\nselect i, i * 2 as twice from range(100) as t(i);\n")
    _write(sources / "latest.sql", 'select max(sold_on) as latest from main."order"')
    _write(root / "solutions" / task / "models" / "age.sql", solution)


def _suite(root: Path, *, stack: str = "current") -> SuiteParams:
    return SuiteParams(name="tiny", root=root, built=root / "built", sources=True, gold_stack=stack)


def _content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        names = connection.execute(
            "select table_schema, table_name from information_schema.tables order by all"
        ).fetchall()
        return {
            f"{schema}.{name}": connection.execute(f'from "{schema}"."{name}"').fetchall()
            for schema, name in names
        }


def _digests(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): digest_file(path) for path in walk(root)}


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this file's own, beside the repository's real stacks."""
    stacks = ensure_stack("current", stack_lock("current")).prefix.parent
    root = tmp_path_factory.mktemp("root")
    (root / ".stacks").symlink_to(stacks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_ROOT", str(root))
        yield root


@dataclass
class Built:
    """A suite of two tasks, one of which cannot be built."""

    suite: SuiteParams
    error: UserError

    @property
    def root(self) -> Path:
        return self.suite.root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    root = tmp_path_factory.mktemp("suite")
    _add_task(root, "broken001", "select no_such_column from {{ source('shop', 'order') }}")
    _add_task(root, "shop001", AGE)
    suite = _suite(root)
    with pytest.raises(UserError, match=r"broken001") as caught:
        build_databases(suite)
    return Built(suite, caught.value)


def test_a_broken_task_is_reported_with_dbts_reason_after_the_others_are_done(
    built: Built,
) -> None:
    assert "no_such_column" in str(built.error)
    assert "shop001" not in str(built.error)
    assert sorted(_digests(built.suite.built / "gold")) == ["shop001/shop.duckdb"]
    assert "shop001/shop.duckdb" in _digests(built.suite.built / "start")


def test_the_start_database_holds_what_the_csv_says(built: Built) -> None:
    content = _content(built.suite.built / "start" / "shop001" / "shop.duckdb")
    assert content["main.order"] == [
        (3, datetime.date(2023, 1, 31), "a, b"),
        (1, None, None),
        (2, datetime.date(2023, 2, 1), "c"),
    ]
    assert content["extra.numbers"][-1] == (99, 198)
    assert content["main.latest"] == [(datetime.date(2023, 2, 1),)]
    assert len(content) == 3


def test_gold_is_built_on_the_declared_day(built: Built) -> None:
    gold = _content(built.suite.built / "gold" / "shop001" / "shop.duckdb")
    expected = [(3, (DAY - datetime.date(2023, 1, 31)).days), (1, None), (2, 63)]
    assert gold["main.age"] == expected


def test_the_content_is_the_same_twice_though_the_bytes_are_not(
    built: Built, tmp_path: Path
) -> None:
    folder = built.root / "sources" / "shop001"
    for name in ("one", "two"):
        build_start(read_sources(folder), folder, tmp_path / name)
    one, two = (_content(tmp_path / name / "shop.duckdb") for name in ("one", "two"))
    assert one == two
    assert [path.name for path in walk(tmp_path)] == ["shop.duckdb", "shop.duckdb"]


def test_the_start_database_opens_with_the_oldest_stacks_duckdb(built: Built) -> None:
    stack = ensure_stack("spider2", stack_lock("spider2"))
    program = (
        "import sys, duckdb\n"
        "connection = duckdb.connect(sys.argv[1], read_only=True)\n"
        "print(duckdb.__version__, connection.sql('from latest').fetchone()[0])\n"
        "print(connection.sql('select sum(twice) from extra.numbers').fetchone()[0])\n"
    )
    database = built.suite.built / "start" / "shop001" / "shop.duckdb"
    done = subprocess.run(
        [str(stack.python), "-c", program, str(database)], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout.split() == [stack.versions["duckdb"], "2023-02-01", "9900"]


def test_a_mended_solution_builds_gold_anew_and_nothing_else(
    built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = _suite(built.root)
    before = _digests(suite.built)
    _write(suite.solutions / "broken001" / "models" / "age.sql", AGE + "order by id")
    digests = build_databases(suite)
    # The start database was built before dbt failed.
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "built broken001 (gold)",
        "kept shop001",
    ]
    mended = _digests(suite.built)
    assert before.items() < mended.items()

    _write(suite.solutions / "broken001" / "models" / "age.sql", AGE + "order by id desc")
    assert build_databases(suite) == digests
    changed = _digests(suite.built)
    assert {path for path in changed if changed[path] != mended[path]} == {
        "gold/broken001/shop.duckdb"
    }
    gold = _content(suite.built / "gold" / "broken001" / "shop.duckdb")
    assert [row[0] for row in gold["main.age"]] == [3, 2, 1]

    shutil.rmtree(suite.built)
    assert build_databases(suite) == digests
    assert _digests(suite.built) == changed


def test_the_start_digest_changes_with_the_data_and_not_with_the_solution(
    tmp_path: Path, built: Built
) -> None:
    root = tmp_path / "suite"
    _add_task(root, "shop001", AGE)
    first = build_databases(_suite(root))["shop001"]
    _write(root / "sources" / "shop001" / "orders.csv", CSV + "4,2023-02-02,d\n")
    second = build_databases(_suite(root))["shop001"]
    assert first != second
    assert len(_content(root / "built" / "start" / "shop001" / "shop.duckdb")["main.order"]) == 4
    assert len(_content(root / "built" / "gold" / "shop001" / "shop.duckdb")["main.age"]) == 4

    _add_task(root, "other001", AGE)
    shutil.rmtree(root / "sources" / "shop001")
    build_databases(_suite(root))
    assert sorted(_digests(root / "built")) == [
        "gold/other001/shop.duckdb",
        "start/other001/shop.duckdb",
    ]


def test_what_dbt_left_in_a_project_that_was_tried_by_hand_is_no_part_of_the_task(
    tmp_path: Path, built: Built, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "suite"
    _add_task(root, "shop001", AGE)
    build_databases(_suite(root))
    _write(root / "examples" / "shop001" / "target" / "manifest.json", "{}")
    for name in ("shop.duckdb", "shop.duckdb.wal"):
        _write(root / "examples" / "shop001" / name, "tried")
    capsys.readouterr()
    build_databases(_suite(root))
    assert capsys.readouterr().out == "kept shop001\n"

    _write(root / "solutions" / "shop001" / "models" / "age.sql", AGE + "limit 1")
    build_databases(_suite(root))
    assert len(_content(root / "built" / "gold" / "shop001" / "shop.duckdb")["main.age"]) == 1


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("build.yaml", BUILD + "golden: x\n", r"task shop001 .*golden: Extra inputs"),
        ("build.yaml", BUILD.replace("numbers.sql", "none.sql"), r"not there: none\.sql"),
        ("build.yaml", BUILD.replace("orders.csv", "none.csv"), r"not there: none\.csv"),
        ("orders.csv", CSV + "x,2023-01-01,d\n", r"order of task shop001 .*(?s:.)*INTEGER"),
        ("numbers.sql", "select 1 as i, nothing", r"numbers of task shop001 .*nothing"),
        ("latest.sql", "select latest from nowhere", r"latest of task shop001 .*nowhere"),
        ("latest.sql", "select * from database", r"Table with name database does not exist"),
    ],
)
def test_faulty_sources_are_refused_before_dbt_runs(
    tmp_path: Path, name: str, text: str, match: str
) -> None:
    _add_task(tmp_path, "shop001", AGE)
    _write(tmp_path / "sources" / "shop001" / name, text)
    with pytest.raises(UserError, match=match) as caught:
        build_databases(_suite(tmp_path))
    assert str(tmp_path / "sources" / "shop001") in str(caught.value)
    assert not (tmp_path / "built" / "gold").exists()


def test_every_failure_is_told_when_several_tasks_fail(tmp_path: Path) -> None:
    for task in ("one001", "two001"):
        _add_task(tmp_path, task, AGE)
        (tmp_path / "sources" / task / "orders.csv").unlink()
    with pytest.raises(UserError, match=r"2 of 2 tasks(?s:.)*one001(?s:.)*two001"):
        build_databases(_suite(tmp_path))


def test_a_task_without_a_solution_is_refused(tmp_path: Path) -> None:
    _add_task(tmp_path, "shop001", AGE)
    shutil.rmtree(tmp_path / "solutions")
    with pytest.raises(UserError, match=r"task shop001 has no solution"):
        build_databases(_suite(tmp_path))


def test_a_suite_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no task to build"):
        build_databases(_suite(tmp_path))


def test_an_unknown_stack_is_answered_with_the_valid_ones(tmp_path: Path) -> None:
    _add_task(tmp_path, "shop001", AGE)
    with pytest.raises(UserError, match=r"unknown stack 'spider'(?s:.)*spider2"):
        build_databases(_suite(tmp_path, stack="spider"))
