"""One result database against gold: what is read, under which name, and what comes of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

from stages.common.files import write_json
from stages.evaluate.models import Cause, Reason, Resolution, TableVerdict
from stages.evaluate.score import evaluate_database, task_verdict
from stages.run.models import TrialStatus
from stages.suite.models import Evaluation

TABLE = "CREATE TABLE t AS SELECT 1 AS a, 'x' AS b"


class Pair:
    """A gold and a result database, and what the comparison finds."""

    def __init__(self, root: Path) -> None:
        self.gold = root / "gold" / "g.duckdb"
        self.result = root / "result" / "r.duckdb"
        self.frozen = root / "frozen"
        self.use_frozen = False
        self.gold.parent.mkdir()
        self.result.parent.mkdir()

    def build(self, gold: str | list[str], result: str | list[str]) -> None:
        for path, given in ((self.gold, gold), (self.result, result)):
            with duckdb.connect(str(path)) as connection:
                for statement in [given] if isinstance(given, str) else given:
                    connection.execute(statement)

    def freeze(self, *findings: dict[str, Any], tables: tuple[str, ...] = ()) -> None:
        """Put down what freezing the result's views would."""
        self.frozen.mkdir()
        with duckdb.connect(str(self.frozen / "views.duckdb")) as connection:
            for statement in tables:
                connection.execute(statement)
        write_json(self.frozen / "views.json", list(findings))
        self.use_frozen = True

    def judge(
        self,
        *tables: str,
        columns: tuple[tuple[int, ...], ...] | None = None,
        orders: tuple[bool, ...] | None = None,
        gold_name: str = "g.duckdb",
    ) -> tuple[TableVerdict, ...]:
        evaluation = Evaluation(
            instance_id="task001",
            gold=gold_name,
            condition_tabs=tables or None,
            condition_cols=columns,
            ignore_orders=orders,
        )
        frozen = self.frozen if self.use_frozen else None
        return evaluate_database(self.result, frozen, self.gold, None, evaluation)

    def only(self, table: str, **config: Any) -> TableVerdict:
        (verdict,) = self.judge(table, **config)
        return verdict


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def finding(view: str, *, schema: str = "main", error: str | None = None) -> dict[str, Any]:
    status = "failed" if error else "frozen"
    return {"schema": schema, "view": view, "status": status, "rows": 1, "error": error}


def test_equal_tables_match_without_resolutions(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason, verdict.resolutions) == (True, Reason.MATCHED, ())


def test_differing_values_say_where(pair: Pair) -> None:
    pair.build(TABLE, "CREATE TABLE t AS SELECT 2 AS a, 'x' AS b")
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.VALUES_DIFFER)
    assert "'a' (position 0): at row 1 gold has 1, the result's column" in verdict.detail


def test_without_a_list_all_gold_tables_are_graded(pair: Pair) -> None:
    pair.build([TABLE, "CREATE TABLE u AS SELECT 1 AS a"], TABLE)
    found = pair.judge()
    assert [(item.table, item.official) for item in found] == [("t", True), ("u", False)]


def test_columns_and_orders_belong_to_their_table(pair: Pair) -> None:
    pair.build(
        [TABLE, "CREATE TABLE u AS SELECT unnest([1, 2]) AS a"],
        ["CREATE TABLE t AS SELECT 'x' AS b", "CREATE TABLE u AS SELECT unnest([2, 1]) AS a"],
    )
    found = pair.judge("u", "t", columns=((), (1,)), orders=(True, False))
    assert [item.official for item in found] == [True, True]


def test_a_missing_table_is_named_as_missing(pair: Pair) -> None:
    pair.build(TABLE, "CREATE TABLE other AS SELECT 1 AS a")
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.TABLE_MISSING)
    assert verdict.detail == "there is no table t"


def test_an_empty_result_table_differs_from_a_filled_gold(pair: Pair) -> None:
    pair.build(TABLE, "CREATE TABLE t(a INTEGER, b VARCHAR)")
    verdict = pair.only("t")
    assert verdict.reason is Reason.VALUES_DIFFER
    assert "gold has 1 rows, the result 0" in verdict.detail


def test_a_reserved_word_is_read_quoted_and_said_so(pair: Pair) -> None:
    table = 'CREATE TABLE "order" AS SELECT 1 AS a'
    pair.build(table, table)
    verdict = pair.only("order")
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.QUOTED_NAME,))


def test_odd_characters_are_read_quoted_and_said_so(pair: Pair) -> None:
    table = 'CREATE TABLE "a-""b c" AS SELECT 1 AS a'
    pair.build(table, table)
    verdict = pair.only('a-"b c')
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.QUOTED_NAME,))


def test_letter_case_needs_no_resolution_where_duckdb_folds_it(pair: Pair) -> None:
    pair.build("CREATE TABLE T AS SELECT 1 AS a", "CREATE TABLE t AS SELECT 1 AS a")
    assert pair.only("T").resolutions == ()


def test_letter_case_beyond_ascii_is_resolved(pair: Pair) -> None:
    pair.build('CREATE TABLE "ÉTAT" AS SELECT 1 AS a', 'CREATE TABLE "état" AS SELECT 1 AS a')
    verdict = pair.only("ÉTAT")
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.LETTER_CASE,))


@pytest.mark.parametrize(
    ("asked", "there"), [("fct_sales", "fact_sales"), ("FACT_sales", "fct_sales")]
)
def test_fct_and_fact_stand_for_each_other(pair: Pair, asked: str, there: str) -> None:
    pair.build(f"CREATE TABLE {asked} AS SELECT 1 AS a", f"CREATE TABLE {there} AS SELECT 1 AS a")
    verdict = pair.only(asked)
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.FCT_FACT,))


def test_the_official_name_goes_before_a_respelled_one(pair: Pair) -> None:
    pair.build(
        "CREATE TABLE fct_sales AS SELECT 1 AS a",
        ["CREATE TABLE fact_sales AS SELECT 1 AS a", "CREATE TABLE fct_sales AS SELECT 2 AS a"],
    )
    verdict = pair.only("fct_sales")
    assert (verdict.official, verdict.resolutions) == (False, ())


def test_a_table_in_one_other_schema_is_found_there(pair: Pair) -> None:
    pair.build(TABLE, ["CREATE SCHEMA main_marts", "CREATE TABLE main_marts.t AS SELECT 1, 'x'"])
    verdict = pair.only("t")
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.SCHEMA,))


def test_main_goes_before_other_schemas(pair: Pair) -> None:
    other = "CREATE TABLE s.t AS SELECT 1 AS a, 'x' AS b"
    pair.build(TABLE, ["CREATE TABLE t AS SELECT 2 AS a", "CREATE SCHEMA s", other])
    verdict = pair.only("t")
    assert (verdict.official, verdict.resolutions) == (False, ())


def test_a_table_in_two_other_schemas_is_not_guessed_at(pair: Pair) -> None:
    schemas = [f"CREATE SCHEMA {name}" for name in ("s1", "s2")]
    tables = [f"CREATE TABLE {name}.t AS SELECT 1 AS a, 'x' AS b" for name in ("s1", "s2")]
    pair.build(TABLE, schemas + tables)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.TABLE_MISSING)
    assert verdict.detail == 'table t is in several schemas: "s1"."t", "s2"."t"'


def test_a_view_counts_with_what_it_showed_when_frozen(pair: Pair) -> None:
    pair.build(
        "CREATE TABLE v AS SELECT DATE '2024-09-08' AS day",
        "CREATE VIEW v AS SELECT current_date AS day",
    )
    pair.freeze(finding("v"), tables=("CREATE TABLE v AS SELECT DATE '2024-09-08' AS day",))
    verdict = pair.only("v")
    assert (verdict.official, verdict.resolutions) == (True, ())


def test_a_reserved_view_in_another_schema_comes_from_the_frozen_ones(pair: Pair) -> None:
    pair.build(
        'CREATE TABLE "order" AS SELECT 1 AS a',
        ["CREATE SCHEMA s", 'CREATE VIEW s."order" AS SELECT 2 AS a'],
    )
    tables = ("CREATE SCHEMA s", 'CREATE TABLE s."order" AS SELECT 1 AS a')
    pair.freeze(finding("order", schema="s"), tables=tables)
    verdict = pair.only("order")
    marks = (Resolution.QUOTED_NAME, Resolution.SCHEMA)
    assert (verdict.official, verdict.resolutions) == (True, marks)


def test_a_view_that_could_not_be_frozen_is_unreadable_with_its_error(pair: Pair) -> None:
    pair.build(TABLE, ["CREATE TABLE x(a INTEGER)", "CREATE VIEW t AS SELECT a FROM x"])
    pair.freeze(finding("t", error="Binder Error: no column b"))
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)
    assert verdict.detail == "view t cannot be read: Binder Error: no column b"


def test_a_view_is_never_read_live(pair: Pair) -> None:
    pair.build(TABLE, "CREATE VIEW t AS SELECT 1 AS a, 'x' AS b")
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)
    assert "was not frozen" in verdict.detail


def test_frozen_views_that_are_damaged_make_the_view_unreadable(pair: Pair) -> None:
    pair.build(TABLE, "CREATE VIEW t AS SELECT 1 AS a, 'x' AS b")
    pair.freeze(finding("t"))
    (pair.frozen / "views.duckdb").write_text("no database")
    assert pair.only("t").reason is Reason.UNREADABLE
    (pair.frozen / "views.json").write_text("{")
    assert "the views were not frozen" in pair.only("t").detail


def test_a_text_file_under_the_databases_name_is_unreadable(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    pair.result.write_text("not a database\n" * 1000)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)
    assert "r.duckdb cannot be opened" in verdict.detail


@pytest.mark.parametrize("damage", ["overwritten", "cut off", "emptied"])
def test_a_damaged_result_is_unreadable(pair: Pair, damage: str) -> None:
    pair.build(TABLE, "CREATE TABLE t AS SELECT i AS a, i::VARCHAR AS b FROM range(50000) r(i)")
    data = bytearray(pair.result.read_bytes())
    if damage == "overwritten":
        data[4096:] = os.urandom(len(data) - 4096)
    elif damage == "cut off":
        del data[len(data) // 2 :]
    else:
        data.clear()
    pair.result.write_bytes(data)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)


def test_a_missing_result_database_is_said_to_be_missing(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    pair.result.unlink()
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.TABLE_MISSING)
    assert verdict.detail == "there is no database r.duckdb"


def test_changes_still_in_the_write_ahead_log_count(pair: Pair, tmp_path: Path) -> None:
    pair.build(TABLE, "CREATE TABLE other AS SELECT 1 AS a")
    open_still = tmp_path / "writing.duckdb"
    with duckdb.connect(str(open_still)) as connection:
        connection.execute("SET checkpoint_threshold = '1GB'")
        connection.execute(TABLE)
        log = open_still.with_name("writing.duckdb.wal")
        assert log.stat().st_size > 0
        pair.result.write_bytes(open_still.read_bytes())
        pair.result.with_name("r.duckdb.wal").write_bytes(log.read_bytes())
    assert pair.only("t").official is True


def test_a_type_that_pandas_cannot_take_makes_the_result_unreadable(pair: Pair) -> None:
    pair.build(TABLE, "CREATE TABLE t AS SELECT '10:00:00+01'::TIMETZ AS a")
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.UNREADABLE)
    assert "TIME WITH TIME ZONE" in verdict.detail


def test_a_table_name_is_never_taken_for_a_file_or_a_variable(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n")
    monkeypatch.chdir(tmp_path)
    pair.build("CREATE TABLE \"t.csv\" AS SELECT 1 AS a, 'x' AS b", "CREATE TABLE o(i INTEGER)")
    assert pair.only("t.csv").reason is Reason.TABLE_MISSING


def test_a_wrong_position_in_the_config_leaves_the_table_without_a_verdict(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    verdict = pair.only("t", columns=((7,),))
    assert (verdict.official, verdict.reason) == (None, Reason.ERROR)


def test_lists_of_unequal_length_leave_all_tables_without_a_verdict(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    verdict = pair.only("t", columns=((), ()))
    assert verdict.official is None
    assert "1 tables, 2 lists of columns and 1 orders" in verdict.detail


def test_gold_without_the_table_leaves_it_without_a_verdict(pair: Pair) -> None:
    pair.build("CREATE TABLE other AS SELECT 1 AS a", TABLE)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (None, Reason.ERROR)
    assert verdict.detail == "gold cannot be scored: there is no table t"


def test_unreadable_gold_leaves_all_tables_without_a_verdict(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    pair.gold.write_text("not a database")
    assert [item.official for item in pair.judge("t", "u")] == [None, None]
    assert [item.table for item in pair.judge()] == ["*"]


def test_a_result_that_makes_the_evaluator_raise_fails(pair: Pair) -> None:
    zoned = "CREATE TABLE t AS SELECT 'infinity'::TIMESTAMPTZ AS a, now() AS b"
    pair.build(TABLE, zoned)
    verdict = pair.only("t")
    assert (verdict.official, verdict.reason) == (False, Reason.ERROR)
    assert "the official evaluator raises" in verdict.detail


def test_another_gold_file_than_the_config_names_is_told(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    verdict = pair.only("t", gold_name="named.duckdb")
    assert (verdict.official, verdict.resolutions) == (True, (Resolution.MISNAMED_GOLD,))


def test_a_trial_passes_officially_only_where_no_resolution_was_needed(pair: Pair) -> None:
    pair.build(TABLE, TABLE)
    plain = task_verdict("task001", 0, TrialStatus.COMPLETED, pair.judge("t"))
    assert (plain.passed, plain.passed_officially) == (True, True)
    tables = pair.judge("t", gold_name="named.duckdb")
    resolved = task_verdict("task001", 0, TrialStatus.COMPLETED, tables)
    assert (resolved.passed, resolved.passed_officially) == (True, False)
    assert resolved.resolutions == (Resolution.MISNAMED_GOLD,)


def test_one_failing_table_fails_the_trial_and_is_named(pair: Pair) -> None:
    pair.build([TABLE, "CREATE TABLE u AS SELECT 1 AS a"], TABLE)
    verdict = task_verdict("task001", 0, TrialStatus.TIMEOUT, pair.judge("t", "u"))
    assert (verdict.passed, verdict.passed_officially) == (False, False)
    assert verdict.reason == "u: table missing (1 of 2 tables): there is no table u"


def test_a_table_without_a_verdict_leaves_the_trial_unscored(pair: Pair) -> None:
    pair.build("CREATE TABLE u AS SELECT 1 AS a", TABLE)
    verdict = task_verdict("task001", 0, TrialStatus.COMPLETED, pair.judge("t", "u"))
    assert (verdict.passed, verdict.passed_officially) == (None, False)


def test_a_trial_passes_strictly_where_every_table_does(pair: Pair) -> None:
    second = "CREATE TABLE u AS SELECT unnest([1, 2]) AS a, unnest([1, 2]) AS b"
    pair.build([TABLE, second], [TABLE, second])
    verdict = task_verdict("task001", 0, TrialStatus.COMPLETED, pair.judge("t", "u"))
    assert (verdict.passed, verdict.passed_strictly) == (True, True)
    pair.result.unlink()
    with duckdb.connect(str(pair.result)) as connection:
        connection.execute(TABLE)
        connection.execute(second.replace("[1, 2]) AS b", "[2, 1]) AS b"))
    tables = pair.judge("t", "u", orders=(True, True))
    verdict = task_verdict("task001", 0, TrialStatus.COMPLETED, tables)
    assert (verdict.passed, verdict.passed_strictly) == (True, False)
    assert [bool(table.disagreement) for table in verdict.tables] == [False, True]


def test_an_unscored_trial_has_no_strict_verdict(pair: Pair) -> None:
    pair.build("CREATE TABLE u AS SELECT 1 AS a", TABLE)
    verdict = task_verdict("task001", 0, TrialStatus.COMPLETED, pair.judge("t", "u"))
    assert (verdict.passed, verdict.passed_strictly) == (None, None)


def test_what_cannot_be_read_fails_strictly_with_its_cause(pair: Pair) -> None:
    pair.build(TABLE, "CREATE TABLE other AS SELECT 1 AS a")
    verdict = pair.only("t")
    assert verdict.strict is False
    assert verdict.diagnosis is not None
    assert (verdict.diagnosis.cause, verdict.diagnosis.gold_rows) == (Cause.TABLE_MISSING, 1)
