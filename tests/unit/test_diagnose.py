"""Why a table fails: one cause, the nearest columns, the first cells, and another date."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import duckdb
import pytest

from stages.evaluate.__main__ import disagreements
from stages.evaluate.diagnosis.diagnose import MAX_COLUMNS
from stages.evaluate.diagnosis.show import MAX_CELLS, MAX_CHARACTERS
from stages.evaluate.models import Cause, Diagnosis, Reason, TableVerdict
from stages.evaluate.score import judge, task_verdict, unread
from stages.evaluate.table import open_table
from stages.run.models import TrialStatus

GOLD = (
    "SELECT i AS id, 'n' || i AS name, DATE '2024-01-01' + i::INT AS day, "
    "i * 1.234567::DOUBLE AS amount, CASE WHEN i % 3 > 0 THEN i END AS maybe FROM range(9) r(i)"
)


class Pair:
    def __init__(self) -> None:
        self.gold, self.result = duckdb.connect(), duckdb.connect()

    def judge(
        self, gold: str, result: str, *columns: int, ignore_order: bool = True
    ) -> TableVerdict:
        for connection, query in ((self.gold, gold), (self.result, result)):
            connection.execute(f"CREATE OR REPLACE TABLE t AS {query}")
        tables = open_table(self.gold, "t"), open_table(self.result, "t")
        return judge(*tables, columns, ignore_order)

    def diagnose(
        self, gold: str, result: str, *columns: int, ignore_order: bool = True
    ) -> Diagnosis:
        found = self.judge(gold, result, *columns, ignore_order=ignore_order).diagnosis
        assert found is not None
        return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.gold.close()
    found.result.close()


def test_a_table_that_passes_both_has_no_diagnosis(pair: Pair) -> None:
    verdict = pair.judge(GOLD, GOLD)
    assert (verdict.official, verdict.strict) == (True, True)
    assert (verdict.diagnosis, verdict.disagreement) == (None, None)


CASES = [
    (f"SELECT * FROM ({GOLD}) WHERE id > 0", Cause.ROW_COUNT),
    (f"SELECT * EXCLUDE (name) FROM ({GOLD})", Cause.COLUMN_MISSING),
    (f"SELECT * REPLACE (name || id % 2 AS name) FROM ({GOLD})", Cause.VALUES_DIFFER),
    (f"SELECT * REPLACE (round(amount, 2) AS amount) FROM ({GOLD})", Cause.ROUNDING),
    (f"SELECT * REPLACE (CAST(amount AS INTEGER) AS amount) FROM ({GOLD})", Cause.ROUNDING),
    (f"SELECT * REPLACE (amount * 2 AS amount) FROM ({GOLD})", Cause.VALUES_DIFFER),
    (f"SELECT * REPLACE (amount::VARCHAR AS amount) FROM ({GOLD})", Cause.TYPE_OR_FORMAT),
    (f"SELECT * REPLACE (day::VARCHAR AS day) FROM ({GOLD})", Cause.TYPE_OR_FORMAT),
    (f"SELECT * REPLACE (day + INTERVAL 5 HOUR AS day) FROM ({GOLD})", Cause.TYPE_OR_FORMAT),
    (f"SELECT * REPLACE (upper(name) || ' ' AS name) FROM ({GOLD})", Cause.TYPE_OR_FORMAT),
    (f"SELECT * REPLACE (coalesce(maybe, 0) AS maybe) FROM ({GOLD})", Cause.NULL_HANDLING),
    (f"SELECT * REPLACE (nullif(name, 'n3') AS name) FROM ({GOLD})", Cause.NULL_HANDLING),
    (f"SELECT * REPLACE (nullif(id, 3) AS id) FROM ({GOLD})", Cause.NULL_HANDLING),
]


@pytest.mark.parametrize(("result", "cause"), CASES)
def test_the_cause_is_told_from_the_values(pair: Pair, result: str, cause: Cause) -> None:
    assert pair.diagnose(GOLD, result).cause is cause


@pytest.mark.parametrize(("result", "cause"), CASES)
def test_the_cause_is_told_without_a_key_too(pair: Pair, result: str, cause: Cause) -> None:
    """Only the columns that differ are left, each row twice, so that nothing pairs the rows."""
    twice = "SELECT {} FROM ({}), range(2)"
    for column in ("name", "day", "amount", "maybe"):
        gold = twice.format(column, GOLD)
        if f"AS {column})" in result:
            assert pair.diagnose(gold, twice.format(column, result)).cause is cause


def test_order_is_the_cause_where_the_same_rows_come_in_another_order(pair: Pair) -> None:
    found = pair.diagnose(GOLD, f"SELECT * FROM ({GOLD}) ORDER BY id DESC", ignore_order=False)
    assert found.cause is Cause.ORDER
    assert found.rows[0].key == {"row": "1"}
    assert (found.rows[0].gold, found.rows[0].result) == ("0", "8")


def test_unread_tables_carry_the_cause_of_reading() -> None:
    for reason in (Reason.TABLE_MISSING, Reason.UNREADABLE):
        verdict = unread("t", reason, "there is no table t")
        assert verdict.strict is False
        assert verdict.diagnosis is not None
        assert verdict.diagnosis.cause.value == reason.value


def test_what_the_official_evaluator_raises_on_is_an_error(pair: Pair) -> None:
    zoned = "SELECT 'infinity'::TIMESTAMPTZ AS a, now() AS b"
    verdict = pair.judge("SELECT 1 AS a", zoned)
    assert (verdict.official, verdict.strict) == (False, False)
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.cause is Cause.ERROR


def test_differing_cells_stand_side_by_side_by_key(pair: Pair) -> None:
    result = f"SELECT * REPLACE (CASE WHEN id = 4 THEN 'x' ELSE name END AS name) FROM ({GOLD})"
    found = pair.diagnose(GOLD, result)
    (column,) = found.columns
    assert (column.column, column.position, column.nearest) == ("name", 1, "name")
    assert column.equal_share == pytest.approx(8 / 9, abs=1e-6)
    (cell,) = found.rows
    assert cell.key == {"id": "4"}
    assert (cell.column, cell.gold, cell.result) == ("name", "n4", "x")


def test_the_nearest_column_may_have_another_name(pair: Pair) -> None:
    result = (
        f"SELECT id, CASE WHEN id = 4 THEN 'x' ELSE name END AS title, 'z' AS other FROM ({GOLD})"
    )
    (column,) = pair.diagnose(GOLD, result, 0, 1).columns
    assert (column.nearest, column.cause) == ("title", Cause.VALUES_DIFFER)
    far = f"SELECT id, 'z' AS other FROM ({GOLD})"
    (column,) = pair.diagnose(GOLD, far, 0, 1).columns
    assert (column.nearest, column.equal_share) == (None, None)


def test_rows_that_one_side_lacks_are_shown_by_key(pair: Pair) -> None:
    found = pair.diagnose(GOLD, f"SELECT * FROM ({GOLD}) WHERE id <> 5")
    assert (found.gold_rows, found.result_rows) == (9, 8)
    (cell,) = found.rows
    assert (cell.key, cell.column, cell.gold, cell.result) == ({"id": "5"}, "id", "5", None)


def test_a_key_of_two_columns_is_found(pair: Pair) -> None:
    gold = "SELECT i // 3 AS a, i % 3 AS b, i AS v FROM range(9) r(i)"
    result = gold.replace("i AS v", "CASE WHEN i = 7 THEN 70 ELSE i END AS v")
    (cell,) = pair.diagnose(gold, result).rows
    assert (cell.key, cell.result) == ({"a": "2", "b": "1"}, "70")


def test_a_diagnosis_is_bounded(pair: Pair) -> None:
    many = ", ".join(f"repeat('x', 1000) || i AS c{at}" for at in range(60))
    other = many.replace("|| i", "|| -i")
    gold = f"SELECT i AS id, {many} FROM range(1, 500) r(i)"
    found = pair.diagnose(gold, f"SELECT i AS id, {other} FROM range(1, 900) r(i)")
    assert len(found.columns) <= MAX_COLUMNS
    assert len(found.rows) <= MAX_CELLS
    assert all(len(cell.gold or "") <= MAX_CHARACTERS for cell in found.rows)
    assert len(found.model_dump_json()) < 10_000


SPINE = "SELECT (DATE '2024-01-01' + i::INT) AS day, i % 4 AS events FROM range({}, {}) r(i)"
AGES = "SELECT i AS id, {} - i AS days_open, DATE '2024-03-01' + {} AS loaded FROM range(5) r(i)"
OPEN = (
    "SELECT i AS id, CASE WHEN i > 3 THEN DATE '2024-03-01' + {0} ELSE DATE '2024-01-01' END AS "
    "ended, CASE WHEN i > 3 THEN {0} ELSE 1 END AS length FROM range(9) r(i)"
)
SHIFTED = [
    ("a longer spine", SPINE.format(0, 50), SPINE.format(0, 47), 3),
    ("a shorter spine", SPINE.format(0, 47), SPINE.format(0, 50), -3),
    ("a moved window", SPINE.format(8, 50), SPINE.format(4, 46), 4),
    ("a moved window back", SPINE.format(4, 46), SPINE.format(8, 50), -4),
    ("ages and a load date", AGES.format(100, 5), AGES.format(98, 3), 2),
    ("intervals still open", OPEN.format(40), OPEN.format(41), -1),
    (
        "days left",
        AGES.format(98, 5).replace("days_open", "days_left"),
        AGES.format(100, 3).replace("days_open", "days_left"),
        2,
    ),
]


@pytest.mark.parametrize(("what", "gold", "result", "days"), SHIFTED)
def test_a_failure_that_another_date_explains_says_so(
    pair: Pair, what: str, gold: str, result: str, days: int
) -> None:
    found = pair.diagnose(gold, result)
    assert found.days_off == days, what
    assert f"it would pass on a date {abs(days)} days" in found.text


UNEXPLAINED = [
    (
        "a rank from 0",
        "SELECT i AS id, i AS place FROM range(9) r(i)",
        "SELECT i AS id, i + 1 AS place FROM range(9) r(i)",
    ),
    (
        "one day of many",
        SPINE.format(0, 50),
        f"SELECT * FROM ({SPINE.format(0, 50)}) WHERE day <> DATE '2024-01-09'",
    ),
    ("a spine and a value", SPINE.format(0, 50), SPINE.format(0, 47).replace("% 4", "% 5")),
    ("two different shifts", AGES.format(100, 5), AGES.format(98, 4)),
    (
        "every date by itself",
        "SELECT i AS id, DATE '2024-01-01' + i::INT AS due FROM range(9) r(i)",
        "SELECT i AS id, DATE '2024-01-02' + i::INT AS due FROM range(9) r(i)",
    ),
    (
        "a missing column",
        AGES.format(100, 5),
        f"SELECT * EXCLUDE (days_open) FROM ({AGES.format(98, 3)})",
    ),
    (
        "gaps in the days",
        SPINE.format(0, 50).replace("i::INT", "i::INT * 2"),
        SPINE.format(0, 48).replace("i::INT", "i::INT * 2"),
    ),
    (
        "text too",
        f"SELECT *, 'a' AS word FROM ({AGES.format(100, 5)})",
        f"SELECT *, 'b' AS word FROM ({AGES.format(98, 3)})",
    ),
]


@pytest.mark.parametrize(("what", "gold", "result"), UNEXPLAINED)
def test_what_another_date_does_not_wholly_explain_is_not_laid_to_it(
    pair: Pair, what: str, gold: str, result: str
) -> None:
    assert pair.diagnose(gold, result).days_off is None, what


def test_a_calendar_that_ends_far_from_the_date_it_was_built_on_is_not_laid_to_it(
    pair: Pair,
) -> None:
    """The result's ends on 2024-02-16, by a filter: no other date would make it longer."""
    pair.judge(SPINE.format(0, 50), SPINE.format(0, 47))
    tables = open_table(pair.gold, "t"), open_table(pair.result, "t")
    found = {
        day: judge(*tables, (), True, day).diagnosis
        for day in (datetime.date(2024, 2, 17), datetime.date(2026, 9, 8))
    }
    assert [item.days_off for item in found.values() if item is not None] == [3, None]


DISAGREE = [
    (
        "SELECT i AS a, i % 3 AS b FROM range(6) r(i)",
        "SELECT i AS a, (i + 1) % 3 AS b FROM range(6) r(i)",
        "the rows do not",
    ),
    ("SELECT 1 AS a, 1 AS b", "SELECT 1 AS a", "each takes its own"),
    ("SELECT 0.001::DOUBLE AS a", "SELECT 0.009::DOUBLE AS a", "within 0.01"),
    ("SELECT 1 AS a WHERE false", "SELECT 1 AS b WHERE false", "both tables are empty"),
    ("SELECT NULL::DOUBLE AS a, 1.5 AS b", "SELECT 'nan'::DOUBLE AS a, 1.5 AS b", "NULL and NaN"),
    ("SELECT true AS a, 1 AS b", "SELECT 1 AS a, 1 AS b", "each takes its own|two kinds"),
    ("SELECT 2000000001::BIGINT AS a", "SELECT 2000000002::BIGINT AS a", "whole numbers"),
]


@pytest.mark.parametrize(("gold", "result", "why"), DISAGREE)
def test_a_table_that_only_fails_strictly_says_why(
    pair: Pair, gold: str, result: str, why: str
) -> None:
    verdict = pair.judge(gold, result)
    assert (verdict.official, verdict.strict) == (True, False)
    assert verdict.disagreement is not None
    assert verdict.disagreement.startswith("fails strictly only: ")
    assert any(part in verdict.disagreement for part in why.split("|"))


def test_a_table_that_only_fails_officially_says_why(pair: Pair) -> None:
    gold = "SELECT unnest([9.999999999999999, 5.5]::DOUBLE[]) AS a, unnest(['x', 'y']) AS b"
    result = "SELECT unnest([10.0, 5.5]::DOUBLE[]) AS a, unnest(['x', 'y']) AS b"
    verdict = pair.judge(gold, result)
    assert (verdict.official, verdict.strict) == (False, True)
    assert verdict.disagreement is not None
    assert "fails officially only" in verdict.disagreement
    assert "sort by text" in verdict.disagreement


def test_gold_that_cannot_be_compared_with_has_no_strict_verdict(pair: Pair) -> None:
    verdict = pair.judge("SELECT 1 AS a", "SELECT 1 AS a", 7)
    assert (verdict.official, verdict.strict, verdict.diagnosis) == (None, None, None)


def test_the_stage_lists_every_table_on_which_the_scores_differ(pair: Pair) -> None:
    differs = pair.judge("SELECT 0.001::DOUBLE AS a", "SELECT 0.009::DOUBLE AS a")
    agrees = pair.judge("SELECT 1 AS a", "SELECT 1 AS a")
    tables = (
        differs.model_copy(update={"table": "ratios"}),
        agrees.model_copy(update={"table": "counts"}),
    )
    verdict = task_verdict("task001", 2, TrialStatus.COMPLETED, tables)
    (line,) = disagreements([verdict])
    assert line.startswith("disagree task001/2 ratios: fails strictly only: column 'a': ")
