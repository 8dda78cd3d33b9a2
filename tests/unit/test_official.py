"""The official comparison's rules, each on tables that DuckDB hands over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.evaluate.official.cells import CHUNK
from stages.evaluate.official.compare import EvaluatorError, compare
from stages.evaluate.table import Table, open_table

Query = Callable[[str], Table]


@pytest.fixture(params=["kept", "by column"])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Query:
    """Makes a table of one SELECT; both ways of reading have to give the same."""
    if request.param == "by column":
        monkeypatch.setattr("stages.evaluate.table.AT_ONCE", 0)
    connection = duckdb.connect()
    numbers = count()

    def made(sql: str) -> Table:
        name = f"t{next(numbers)}"
        connection.execute(f"CREATE TABLE {name} AS {sql}")
        return open_table(connection, name)

    return made


def matches(
    rows: Query, gold: str, result: str, columns: Sequence[int] = (), *, ignore_order: bool = False
) -> bool:
    return compare(rows(f"SELECT {gold}"), rows(f"SELECT {result}"), columns, ignore_order).matched


@pytest.mark.parametrize(
    ("gold", "result", "expected"),
    [
        ("1.0::DOUBLE", "1.009::DOUBLE", True),
        ("0.0::DOUBLE", "0.01::DOUBLE", True),
        ("1.00::DOUBLE", "1.0101::DOUBLE", False),
        ("1e12::DOUBLE", "1e12::DOUBLE + 500", True),
        ("1e12::DOUBLE", "1e12::DOUBLE + 5000", False),
        ("'inf'::DOUBLE", "'inf'::FLOAT", True),
        ("'inf'::DOUBLE", "1e300::DOUBLE", False),
        ("'nan'::DOUBLE", "NULL::DOUBLE", True),
        ("NULL::INTEGER", "NULL::VARCHAR", True),
        ("NULL::INTEGER", "0", False),
        ("true", "1", True),
        ("true", "1.005::DOUBLE", True),
        ("'1'", "1", False),
        ("'a'", "'A'", False),
        ("'a'", "'a '", False),
        ("'a'::VARCHAR", "'a'::ENUM('a', 'b')", True),
        ("DATE '2024-01-01'", "TIMESTAMP '2024-01-01 00:00:00'", True),
        ("DATE '2024-01-01'", "'2024-01-01'", False),
        ("170141183460469231731687303715884105727::HUGEINT", "1.7014118346046923e38::DOUBLE", True),
        ("[1]", "[1]", True),
        ("[1, 2]", "[1, 2]", False),
        ("[]::INTEGER[]", "[]::INTEGER[]", False),
        ("{'a': 1}", "{'a': 1}", True),
        ("{'a': [1, 2]}", "{'a': [1, 2]}", True),
    ],
)
def test_two_cells_agree_as_the_official_evaluator_has_it(
    rows: Query, gold: str, result: str, expected: bool
) -> None:
    assert matches(rows, gold, result) is expected


def test_every_gold_column_is_sought_among_all_columns_of_the_result(rows: Query) -> None:
    assert matches(rows, "1 AS a, 'x' AS b", "'x' AS b, 5 AS c, 1 AS z")
    assert not matches(rows, "1 AS a, 'x' AS b", "1 AS a, 'y' AS b")


def test_one_result_column_may_answer_for_two_gold_columns(rows: Query) -> None:
    assert matches(rows, "1 AS a, 1 AS b", "1 AS a")


def test_only_the_graded_positions_count_and_they_may_repeat(rows: Query) -> None:
    assert matches(rows, "1 AS a, 2 AS b", "2 AS b", [1, 1])
    assert not matches(rows, "1 AS a, 2 AS b", "2 AS b", [1, 0])


def test_rows_count_in_their_order_unless_it_is_ignored(rows: Query) -> None:
    gold, result = "unnest([1, 2, 3]) AS a", "unnest([3, 1, 2]) AS a"
    assert not matches(rows, gold, result)
    assert matches(rows, gold, result, ignore_order=True)


def test_ignored_order_sorts_each_column_by_itself(rows: Query) -> None:
    gold = "unnest([1, 2]) AS a, unnest(['x', 'y']) AS b"
    result = "unnest([1, 2]) AS a, unnest(['y', 'x']) AS b"
    assert matches(rows, gold, result, ignore_order=True)


def test_sorting_goes_by_text_so_numbers_within_tolerance_can_part(rows: Query) -> None:
    gold = "unnest([9.999, 2.0]::DOUBLE[]) AS a"
    result = "unnest([10.001, 2.0]::DOUBLE[]) AS a"
    assert matches(rows, gold, result)
    assert not matches(rows, gold, result, ignore_order=True)


def test_another_number_of_rows_is_no_match(rows: Query) -> None:
    assert not matches(rows, "unnest([1, 1]) AS a", "1 AS a", ignore_order=True)


def test_empty_tables_match_whatever_their_columns(rows: Query) -> None:
    assert matches(rows, "1 AS a, 'x' AS b WHERE false", "DATE '2024-01-01' AS z WHERE false")
    assert not matches(rows, "1 AS a WHERE false", "1 AS a")


def test_a_column_is_converted_with_the_type_that_all_columns_have_in_common(rows: Query) -> None:
    nanoseconds = "'2024-01-01'::TIMESTAMP_NS AS a"
    as_integer = "1704067200000000000 AS a"
    assert matches(rows, nanoseconds, as_integer)
    assert not matches(rows, f"{nanoseconds}, 'x' AS b", f"{as_integer}, 'x' AS b")


def test_a_missing_integer_beside_a_number_is_no_match(rows: Query) -> None:
    assert not matches(rows, "unnest([1, NULL]) AS a", "unnest([1, 2]) AS a")
    assert matches(rows, "unnest([1, NULL]) AS a", "unnest([1, NULL]) AS a")


def test_large_integers_stay_exact_only_while_no_column_makes_them_floats(rows: Query) -> None:
    gold, result = "unnest([9007199254740993, NULL]) AS a", "unnest([9007199254740992, NULL]) AS a"
    assert matches(rows, gold, result)
    assert not matches(
        rows,
        "{'n': 9007199254740993} AS a",
        "{'n': 9007199254740992} AS a",
    )


@pytest.mark.parametrize("columns", [[1], [0, 5], [-2]])
def test_a_graded_position_out_of_range_raises_as_officially(
    rows: Query, columns: list[int]
) -> None:
    with pytest.raises(EvaluatorError, match="do not fit gold's 1 columns") as caught:
        compare(rows("SELECT 1 AS a"), rows("SELECT 1 AS a"), columns, False)
    assert caught.value.side == "gold"


def test_a_negative_position_counts_from_the_end(rows: Query) -> None:
    assert matches(rows, "1 AS a, 'x' AS b", "'x' AS b", [-1])


def test_infinite_zoned_timestamps_raise_only_where_all_columns_are_zoned(rows: Query) -> None:
    zoned = "'infinity'::TIMESTAMPTZ AS a, now() AS b"
    with pytest.raises(EvaluatorError, match="gold's columns have no common type"):
        compare(rows(f"SELECT {zoned}"), rows("SELECT 1 AS a"), (), False)
    with pytest.raises(EvaluatorError, match="result's columns have no common type") as caught:
        compare(rows("SELECT 1 AS a"), rows(f"SELECT {zoned}"), (), False)
    assert caught.value.side == "result"
    assert not matches(rows, f"{zoned}, 1 AS c", "1 AS a")


def test_a_timestamp_that_cannot_be_printed_is_still_told_of(rows: Query) -> None:
    found = compare(
        rows("SELECT 'infinity'::TIMESTAMPTZ AS a, 1 AS b"), rows("SELECT 1 AS a"), [0], False
    )
    assert "that cannot be printed" in found.detail


@pytest.mark.parametrize("sql_type", ["VARCHAR", "INTEGER", "ENUM('0', '1')", "TIMESTAMPTZ"])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_frames_of_one_extension_type_match_themselves_and_no_other(
    rows: Query, sql_type: str, count: int
) -> None:
    value = "to_timestamp(i)" if sql_type == "TIMESTAMPTZ" else f"(i % 2)::VARCHAR::{sql_type}"
    column = f"CASE WHEN i % 3 = 1 THEN NULL ELSE {value} END"
    gold = f"{column} AS a, {column} AS b FROM range({count}) t(i)"
    among_others = f"'other' AS x, 1.5 AS y, {column} AS z FROM range({count}) t(i)"
    emptied = f"NULL::{sql_type} AS a, NULL::{sql_type} AS b FROM range({count}) t(i)"
    for ignore_order in (False, True):
        assert matches(rows, gold, gold, ignore_order=ignore_order)
        assert matches(rows, gold, among_others, ignore_order=ignore_order)
        assert matches(rows, gold, emptied, ignore_order=ignore_order) is (count == 0)


def test_a_difference_past_the_first_chunk_is_found(rows: Query) -> None:
    count = CHUNK + 10
    gold = f"i AS a FROM range({count}) t(i)"
    assert matches(rows, gold, gold)
    assert not matches(
        rows, gold, f"CASE i WHEN {CHUNK + 5} THEN -1 ELSE i END AS a FROM range({count}) t(i)"
    )


def test_the_finding_names_the_column_the_row_and_both_counts(rows: Query) -> None:
    found = compare(
        rows("SELECT unnest([1, 2]) AS n, 'x' AS s"),
        rows("SELECT unnest([1, 7]) AS N, 'x' AS s"),
        (),
        False,
    )
    assert found.unmatched == (0,)
    assert found.detail == (
        "1 of 2 graded columns found no match, first 'n' (position 0): at row 2 gold has 2, "
        "the result's column of that name 7; gold has 2 rows, the result 2"
    )


def test_unmatched_positions_are_those_of_gold(rows: Query) -> None:
    found = compare(rows("SELECT 1 AS a, 2 AS b, 3 AS c"), rows("SELECT 3 AS c"), [2, 1], False)
    assert found.unmatched == (1,)
    assert "the result has no column of that name" in found.detail


CELLS = st.one_of(st.none(), st.integers(-5, 5), st.floats(width=32), st.text("ab1", max_size=2))


@given(st.lists(CELLS, min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_column_matches_itself_in_any_order_if_and_only_if_order_is_ignored(
    cells: list[object], random: Random
) -> None:
    turned = list(cells)
    random.shuffle(turned)
    with duckdb.connect() as connection:
        for name, given_cells in (("gold", cells), ("result", turned)):
            connection.execute(f"CREATE TABLE {name}(a UNION(n BIGINT, f DOUBLE, s VARCHAR))")
            for cell in given_cells:
                connection.execute(f"INSERT INTO {name} VALUES (?)", [cell])
        gold, result = (open_table(connection, name) for name in ("gold", "result"))
        assert compare(gold, gold, (), False).matched
        assert compare(gold, result, (), True).matched
