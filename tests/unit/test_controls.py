"""Controls and mutants: each kind gets its verdict, and a broken comparator is found out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stages.common.errors import UserError
from stages.common.files import digest_file, read_json
from stages.evaluate.controls import check, expected
from stages.evaluate.controls.__main__ import run
from stages.evaluate.controls.check import Found, Subject, check_task
from stages.evaluate.controls.models import Control, Kind, Report, report
from stages.evaluate.models import TableVerdict
from stages.evaluate.official.plain import matches
from stages.evaluate.score import judge
from stages.evaluate.table import Table, open_table
from stages.suite.models import Evaluation

ORDERS = """
    CREATE TABLE orders AS
    SELECT i AS id, 'order ' || i AS label, (100 + i)::VARCHAR AS code,
           DATE '2024-01-01' + i::INTEGER AS ordered, TIMESTAMP '2024-05-01 10:00:00' AS loaded,
           i % 3 = 0 AS urgent, CASE WHEN i % 4 = 0 THEN 0 ELSE i * 1.2345 END AS amount,
           CASE WHEN i % 5 > 0 THEN i / 7 END AS share, 1 AS one
    FROM range(1, 13) AS t(i)
"""
RANKED = """
    CREATE TABLE ranked AS
    SELECT i AS place, 'player ' || (i * 7 % 11) AS player, (i * 7 % 11) * 1.5::DOUBLE AS points
    FROM range(1, 11) AS t(i)
"""
BOTH = {
    "condition_tabs": ["orders", "ranked"],
    "condition_cols": [[], [0, 1, 2]],
    "ignore_orders": [True, False],
}


def database(path: Path, *statements: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


class Folders:
    """Gold, start and config of any number of tasks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: list[str] = []
        (root / "gold").mkdir(parents=True)
        (root / "start").mkdir()

    def add(self, name: str, parameters: dict[str, Any], *statements: str) -> Path:
        gold = database(self.root / "gold" / name / "shop.duckdb", *statements)
        database(self.root / "start" / name / "shop.duckdb", "CREATE TABLE raw AS SELECT 1 AS a")
        line = {"func": "duckdb_match", "parameters": {"gold": "shop.duckdb", **parameters}}
        self.lines.append(json.dumps({"instance_id": name, "evaluation": line}))
        return gold

    def run(self, judging: Callable[..., TableVerdict] = judge) -> tuple[int, Report]:
        config = self.root / "config.jsonl"
        config.write_text("\n".join(self.lines))
        out = self.root / "controls.json"
        arguments = ["--gold", self.root / "gold", "--start", self.root / "start"]
        arguments += ["--config", config, "--json", out]
        code = run([str(item) for item in arguments], judging)
        return code, Report.model_validate(read_json(out))


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def tallies(found: Report) -> dict[Kind | Control, Any]:
    return {item.kind: item for item in (*found.controls, *found.mutants)}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """What the controls find with the pipeline's own comparators; gold stays as it is."""
    folders = Folders(tmp_path_factory.mktemp("good"))
    gold = folders.add("shop001", BOTH, ORDERS, RANKED)
    before = digest_file(gold)
    code, found = folders.run()
    assert (code, digest_file(gold)) == (0, before)
    yield found


def test_every_kind_is_made_and_gets_its_verdict(good: Report) -> None:
    assert (good.wrong, good.not_made, good.skipped) == ((), (), {})
    by_kind = tallies(good)
    assert [kind for kind in Kind if by_kind[kind].made == 0] == []
    for kind in Kind:
        must = by_kind[kind].made if kind.must_pass else 0
        assert by_kind[kind].passed_strictly == must, kind
    assert by_kind[Control.GOLD].passed_officially == by_kind[Control.GOLD].passed_strictly == 1
    assert by_kind[Control.START].passed_officially == by_kind[Control.EMPTY].passed_strictly == 0


def test_what_the_official_score_lets_through_is_counted(good: Report) -> None:
    small = tallies(good)[Kind.SMALL_NUMBER]
    assert small.made > 0
    assert small.passed_officially == small.made
    passed = {item.kind for item in good.let_through_officially}
    assert {Kind.SMALL_NUMBER, Kind.SCRAMBLED} <= passed
    assert Kind.ROW_DROPPED not in passed
    assert all(item.disagreement for item in good.let_through_officially)
    assert good.let_through_strictly == ()


def test_two_runs_make_the_same_mutants(good: Report, folders: Folders) -> None:
    folders.add("shop001", BOTH, ORDERS, RANKED)
    assert folders.run() == (0, good)


def passes_always(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    return judge(wanted, wanted, columns, ignore_order)


def fails_always(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    found = judge(wanted, offered, columns, ignore_order)
    return found.model_copy(update={"official": False, "strict": False})


def looks_at_one_column(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    return judge(wanted, offered, [0], ignore_order)


def forgets_the_order(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    return judge(wanted, offered, columns, True)


def is_no_stricter(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    found = judge(wanted, offered, columns, ignore_order)
    return found.model_copy(update={"strict": found.official})


def raises(
    wanted: Table, offered: Table, columns: Sequence[int], ignore_order: bool
) -> TableVerdict:
    raise ZeroDivisionError("a broken comparator")


@pytest.mark.parametrize(
    ("broken", "shown_by"),
    [
        (passes_always, {Kind.NUMBER, Kind.ROW_DROPPED, Kind.TABLES_SWAPPED}),
        (fails_always, {Kind.EXTRA_COLUMN, Kind.COLUMNS_RENAMED, Kind.ROWS_REORDERED}),
        (looks_at_one_column, {Kind.TEXT}),
        (forgets_the_order, {Kind.ROWS_REORDERED_COUNTS}),
        (is_no_stricter, {Kind.SCRAMBLED, Kind.SMALL_NUMBER}),
        (raises, set(Kind)),
    ],
)
def test_a_broken_comparator_is_found_out(
    folders: Folders,
    broken: Callable[..., TableVerdict],
    shown_by: set[Kind],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folders.add("shop001", BOTH, ORDERS, RANKED)
    code, found = folders.run(broken)
    assert code == 1
    assert shown_by <= {item.kind for item in found.wrong}
    assert capsys.readouterr().out.startswith("WRONG shop001")


def test_a_mutation_that_changes_nothing_is_no_mutant(folders: Folders) -> None:
    one = {"condition_tabs": ["alike"], "condition_cols": [[]], "ignore_orders": [True]}
    folders.add("shop001", one, "CREATE TABLE alike AS SELECT 5 AS a, 'x' AS b FROM range(4)")
    code, found = folders.run()
    by_kind = tallies(found)
    assert code == 0
    for kind in (Kind.SCRAMBLED, Kind.ROW_REPLACED, Kind.ROWS_REORDERED):
        assert by_kind[kind].made == 0
        assert by_kind[kind].no_change > 0


def test_a_table_that_holds_the_other_is_let_through_with_its_reason(folders: Folders) -> None:
    two = {
        "condition_tabs": ["narrow", "wide"],
        "condition_cols": [[], []],
        "ignore_orders": [True, True],
    }
    folders.add(
        "shop001",
        two,
        "CREATE TABLE wide AS SELECT i AS key, 'text ' || i AS b FROM range(5) AS t(i)",
        "CREATE TABLE narrow AS SELECT key AS id FROM wide",
    )
    code, found = folders.run()
    assert (code, found.wrong) == (0, ())
    (through,) = found.let_through_strictly
    assert (through.table, through.kind) == ("narrow", Kind.TABLES_SWAPPED)
    assert through.explained.endswith("'id' in 'key'")


def test_an_empty_table_needs_its_names_strictly(folders: Folders) -> None:
    one = {"condition_tabs": ["none"], "condition_cols": [[]], "ignore_orders": [True]}
    folders.add("shop001", one, 'CREATE TABLE "none" (a INTEGER, b VARCHAR)')
    code, found = folders.run()
    by_kind = tallies(found)
    assert (code, found.wrong) == (0, ())
    assert by_kind[Kind.COLUMNS_RENAMED].passed_officially == 1
    assert by_kind[Kind.COLUMNS_RENAMED].passed_strictly == 0
    assert by_kind[Kind.COLUMNS_REORDERED].passed_strictly == 1


def test_odd_names_schemas_and_types_are_taken(folders: Folders) -> None:
    one = {"condition_tabs": ["select"], "condition_cols": [[]], "ignore_orders": [False]}
    folders.add(
        "shop001",
        one,
        "CREATE SCHEMA marts",
        """CREATE TABLE marts."select" AS
           SELECT i AS "n", 9 - i AS "c0", i * 2 AS "c1", 'a' || i AS "extra", i AS "say ""x"" ",
                  (ENUM_RANGE(NULL::ENUM('low', 'high')))[i % 2 + 1] AS "level",
                  i * 1e15 AS "large", (i * 0.3)::FLOAT AS "single",
                  TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_days(i::INTEGER) AS "at"
           FROM range(8) AS t(i)""",
    )
    code, found = folders.run()
    assert (code, found.wrong, found.not_made) == (0, (), ())
    assert found.tables == 1


def test_tasks_that_cannot_be_scored_are_left_out_and_named(folders: Folders) -> None:
    folders.add("shop001", BOTH, ORDERS, RANKED)
    folders.add("shop002", BOTH, ORDERS)
    folders.add("shop003", BOTH, ORDERS, RANKED).write_bytes(b"no database at all")
    code, found = folders.run()
    assert (code, found.tasks) == (0, 1)
    assert found.skipped["shop002"].startswith("gold_incomplete")
    assert found.skipped["shop003"].startswith("gold_unreadable")


def test_a_start_database_that_passes_is_wrong(tmp_path: Path) -> None:
    gold = database(tmp_path / "gold.duckdb", ORDERS, RANKED)
    start = database(tmp_path / "start.duckdb", ORDERS, RANKED)
    evaluation = Evaluation.model_validate({"instance_id": "a", "gold": "gold.duckdb", **BOTH})
    found = Found()
    check_task(Subject("a", gold, None, start, evaluation), found)
    wrong = [item for item in found.outcomes if item.wrong]
    assert [item.kind for item in wrong] == [Control.START]
    assert wrong[0].wrong.startswith("officially passes, not fails, strictly passes, not fails")


def test_a_view_of_gold_is_taken_as_it_was_frozen(tmp_path: Path) -> None:
    gold = database(tmp_path / "gold.duckdb", "CREATE VIEW orders AS SELECT today() AS id")
    frozen = tmp_path / "frozen"
    database(frozen / "views.duckdb", ORDERS)
    view = {"schema": "main", "view": "orders", "status": "frozen", "error": None}
    (frozen / "views.json").write_text(json.dumps([view]))
    start = database(tmp_path / "start.duckdb", "CREATE TABLE raw AS SELECT 1 AS a")
    evaluation = Evaluation(
        instance_id="a",
        gold="gold.duckdb",
        condition_tabs=("orders",),
        condition_cols=None,
        ignore_orders=None,
    )
    found = Found()
    check_task(Subject("a", gold, frozen, start, evaluation), found)
    assert [item.wrong for item in found.outcomes if item.wrong] == []
    assert tallies(report(found.outcomes, 1, 1, [], {}))[Kind.ROW_DROPPED].made == 1


def test_a_table_too_large_for_mutants_is_named(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "HUGE", 50)
    folders.add("shop001", BOTH, ORDERS, RANKED)
    code, found = folders.run()
    assert (code, found.tables) == (0, 1)
    assert found.not_made == ("shop001 orders: 12 rows are too many for mutants",)


def test_folders_belong_together(folders: Folders) -> None:
    with pytest.raises(UserError, match="belong together"):
        run(["--gold", str(folders.root / "gold")])


def test_folders_without_a_task_that_can_be_scored_are_an_error(folders: Folders) -> None:
    folders.add("shop001", BOTH, ORDERS)
    with pytest.raises(UserError, match="nothing was checked"):
        folders.run()


@pytest.mark.parametrize("ignore_order", [True, False])
def test_the_changed_columns_alone_give_the_plain_verdict(ignore_order: bool) -> None:
    """Of a table too large to transcribe whole, only the changed columns are compared."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE gold AS SELECT i AS a, i / 7 AS b, 't' || i AS c, "
            "DATE '2024-01-01' + (i % 9)::INTEGER AS d FROM range(2000) AS t(i)"
        )
        gold = open_table(connection, "gold")
        assert gold.rows * len(gold.columns) > expected.WHOLE
        for at, sql in (
            (0, "a + (a = 5)::BIGINT AS a, b, c, d"),
            (1, "a, b + 0.004 AS b, c, d"),
            (1, "a, b + 0.04 AS b, c, d"),
            (2, "a, b, upper(c) AS c, d"),
            (3, "a, b, c, d::TIMESTAMP AS d"),
            (3, "a, b, c, d::VARCHAR AS d"),
            (1, "a, b::VARCHAR AS b, c, d"),
        ):
            connection.execute(f"CREATE OR REPLACE TABLE other AS SELECT {sql} FROM gold")
            other = open_table(connection, "other")
            whole = matches(gold.frame(), other.frame(), [], ignore_order)
            assert expected.official(gold, other, [], [at], ignore_order) is whole, sql


@pytest.mark.heavy
@pytest.mark.spider2_data
def test_the_real_databases_have_no_control_wrong(spider2_shared: Path, tmp_path: Path) -> None:
    folder, out = spider2_shared / "spider2", tmp_path / "controls.json"
    arguments = ["--gold", folder / "gold", "--start", folder / "start", "--json", out]
    arguments += ["--config", folder / "gold" / "spider2_eval.jsonl"]
    assert run([str(item) for item in arguments]) == 0
    found = Report.model_validate(read_json(out))
    assert (found.tasks, found.tables, found.skipped, found.not_made) == (34, 57, {}, ())
    assert {(item.instance_id, item.table) for item in found.let_through_strictly} == {
        ("analytics_engineering001", "fact_purchase_order"),
        ("chinook001", "fct_invoice"),
    }
    assert all(item.explained for item in found.let_through_strictly)
    assert sum(tally.made for tally in found.mutants) > 1_400
