"""The strict comparison: what has to pass, what has to fail, and agreement with a plain search."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pytest

from stages.evaluate.strict.compare import Fault, Strict, compare_strictly, graded_positions
from stages.evaluate.strict.tolerance import tolerance
from stages.evaluate.table import Table, open_table


class Databases:
    """Two databases, as gold and the result have each their own."""

    def __init__(self) -> None:
        self.gold = duckdb.connect()
        self.result = duckdb.connect()

    def tables(self, gold: str, result: str) -> tuple[Table, Table]:
        """One table in each, from a SELECT."""
        for connection, query in ((self.gold, gold), (self.result, result)):
            connection.execute(f"CREATE OR REPLACE TABLE t AS {query}")
        return open_table(self.gold, "t"), open_table(self.result, "t")

    def compare(self, gold: str, result: str, *columns: int, ignore_order: bool = True) -> Strict:
        """The strict verdict on two SELECTs."""
        wanted, offered = self.tables(gold, result)
        positions = graded_positions(wanted, columns)
        assert positions is not None
        return compare_strictly(wanted, offered, positions, ignore_order)


@pytest.fixture
def pair() -> Iterator[Databases]:
    databases = Databases()
    yield databases
    databases.gold.close()
    databases.result.close()


def values(*rows: str) -> str:
    return f"SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) v(a, b)"


def test_rows_in_another_order_pass_only_where_the_order_does_not_count(pair: Databases) -> None:
    gold, result = values("1, 'x'", "2, 'y'"), values("2, 'y'", "1, 'x'")
    assert pair.compare(gold, result).matched
    found = pair.compare(gold, result, ignore_order=False)
    assert (found.matched, found.fault) == (False, Fault.COLUMN)


def test_a_column_shuffled_by_itself_fails(pair: Databases) -> None:
    found = pair.compare(values("1, 'x'", "2, 'y'"), values("1, 'y'", "2, 'x'"))
    assert (found.matched, found.fault) == (False, Fault.PAIRING)


def test_each_gold_column_takes_its_own_result_column(pair: Databases) -> None:
    gold = "SELECT i AS a, i AS b FROM range(3) r(i)"
    found = pair.compare(gold, "SELECT i AS a FROM range(3) r(i)")
    assert (found.matched, found.fault) == (False, Fault.SHARED)
    assert pair.compare(gold, "SELECT i AS a, 0 AS c, i AS d FROM range(3) r(i)").matched


def test_names_positions_and_further_columns_do_not_matter(pair: Databases) -> None:
    result = "SELECT 'x' AS p, 0.5 AS q, 1 AS r"
    assert pair.compare("SELECT 1 AS a, 'x' AS b", result).matched


def test_a_column_graded_twice_needs_one_partner(pair: Databases) -> None:
    assert pair.compare("SELECT 1 AS a, 2 AS b", "SELECT 1 AS a", 0, 0, -2).matched


def test_a_position_that_does_not_fit_has_no_verdict(pair: Databases) -> None:
    gold, _ = pair.tables("SELECT 1 AS a", "SELECT 1 AS a")
    assert graded_positions(gold, (1,)) is None
    assert graded_positions(gold, (-2,)) is None


EQUAL = [
    ("DATE '2024-01-02'", "TIMESTAMP '2024-01-02 00:00:00'"),
    ("TIMESTAMP_NS '2024-01-02 03:04:05'", "TIMESTAMP_S '2024-01-02 03:04:05'"),
    ("TIMESTAMP_NS 'infinity'", "TIMESTAMP 'infinity'"),
    ("1::BIGINT", "1.00::DECIMAL(9,2)"),
    ("1::TINYINT", "1.0::DOUBLE"),
    ("0.5::DECIMAL(38,20)", "0.50::DECIMAL(4,2)"),
    ("0.1::FLOAT", "0.1::DOUBLE"),
    ("123456789012345678901234567890::HUGEINT", "123456789012345678901234567890::DECIMAL(38,0)"),
    ("0.0::DOUBLE", "-0.0::DOUBLE"),
    ("'nan'::DOUBLE", "'nan'::FLOAT"),
    ("'inf'::DOUBLE", "'inf'::FLOAT"),
    ("NULL::INTEGER", "NULL::VARCHAR"),
    ("NULL::INTEGER[]", "NULL::DATE"),
    ("'x'::ENUM('x', 'y')", "'x'"),
    ("[1, 2]::INTEGER[]", "[1.0, 2.0]::DOUBLE[2]"),
    ("{'a': DATE '2024-01-01'}", "{'a': TIMESTAMP '2024-01-01'}"),
    ("TIMESTAMPTZ '2024-01-01 00:00:00+00'", "TIMESTAMPTZ '2024-01-01 02:00:00+02'"),
    ("0::DOUBLE", "5.5e-17::DOUBLE"),
    ("0.1 + 0.2::DOUBLE", "0.3::DOUBLE"),
]


@pytest.mark.parametrize(("gold", "result"), EQUAL)
@pytest.mark.parametrize("ignore_order", [True, False])
def test_equal_values_of_other_types_pass(
    pair: Databases, gold: str, result: str, ignore_order: bool
) -> None:
    one, other = f"SELECT {gold} AS a", f"SELECT {result} AS b"
    assert pair.compare(one, other, ignore_order=ignore_order).matched
    assert pair.compare(other, one, ignore_order=ignore_order).matched


DIFFERENT = [
    ("0.001::DOUBLE", "0.009::DOUBLE"),
    ("0.12345::DOUBLE", "0.1235::DOUBLE"),
    ("1.0::DOUBLE", "1.005::DOUBLE"),
    ("0::DOUBLE", "0.001::DOUBLE"),
    ("2000000001::BIGINT", "2000000002::BIGINT"),
    ("9007199254740993::BIGINT", "9007199254740992::BIGINT"),
    ("9007199254740993::BIGINT", "9007199254740992::DECIMAL(18,0)"),
    ("12345678901234567.01::DECIMAL(38,2)", "12345678901234567.02::DECIMAL(38,2)"),
    ("1.10::DECIMAL(9,2)", "1.11::DECIMAL(9,2)"),
    ("DATE '2024-01-02'", "DATE '2024-01-03'"),
    ("DATE '2024-01-02'", "TIMESTAMP '2024-01-02 00:00:01'"),
    ("TIMESTAMP_NS '2024-01-02 03:04:05.000000001'", "TIMESTAMP '2024-01-02 03:04:05'"),
    ("DATE '2024-01-02'", "'2024-01-02'"),
    ("TIMESTAMP '2024-01-02'", "TIMESTAMPTZ '2024-01-02 00:00:00+00'"),
    ("1", "'1'"),
    ("1", "true"),
    ("NULL::DOUBLE", "'nan'::DOUBLE"),
    ("NULL::INTEGER", "0"),
    ("NULL::VARCHAR", "''"),
    ("'inf'::DOUBLE", "'-inf'::DOUBLE"),
    ("'inf'::DOUBLE", "1e308::DOUBLE"),
    ("'x'", "'X'"),
    ("'x'", "'x '"),
    ("[1, 2]", "[2, 1]"),
    ("[1]", "['1']"),
    ("[1]", "[NULL]::INTEGER[]"),
    ("'a'", "'a'::BLOB"),
]


@pytest.mark.parametrize(("gold", "result"), DIFFERENT)
@pytest.mark.parametrize("ignore_order", [True, False])
def test_different_values_fail(pair: Databases, gold: str, result: str, ignore_order: bool) -> None:
    one, other = f"SELECT {gold} AS a", f"SELECT {result} AS b"
    assert not pair.compare(one, other, ignore_order=ignore_order).matched
    assert not pair.compare(other, one, ignore_order=ignore_order).matched


def test_empty_tables_are_equal_only_with_the_same_columns(pair: Databases) -> None:
    gold = "SELECT 1 AS a, 'x' AS b WHERE false"
    assert pair.compare(gold, "SELECT 'x' AS B, 0.5 AS A WHERE false").matched
    assert pair.compare(gold, "SELECT 1 AS a, 'x' AS c WHERE false", 0).matched
    for other in ("SELECT 1 AS a, 'x' AS c WHERE false", "SELECT 'x' AS a, 'x' AS b WHERE false"):
        found = pair.compare(gold, other)
        assert (found.matched, found.fault) == (False, Fault.EMPTY)


def test_another_number_of_rows_fails(pair: Databases) -> None:
    found = pair.compare("SELECT 1 AS a", "SELECT 1 AS a FROM range(2)")
    assert (found.matched, found.fault) == (False, Fault.ROWS)
    assert "gold has 1 rows, the result 2" in found.detail


def test_doubled_and_dropped_rows_fail_though_the_numbers_of_rows_agree(pair: Databases) -> None:
    gold, result = values("1, 'x'", "1, 'x'", "2, 'y'"), values("1, 'x'", "2, 'y'", "2, 'y'")
    assert not pair.compare(gold, result).matched


def test_alike_columns_are_told_apart_by_the_rows(pair: Databases) -> None:
    """Flags of equal counts, renamed and moved: any partner fits but one set fits the rows."""
    flags = "(i // 8) % 2 AS p, (i // 4) % 2 AS q, (i // 2) % 2 AS r, i % 2 AS s"
    gold = f"SELECT i AS key, {flags} FROM range(16) t(i)"
    result = "SELECT s AS a, r AS p, q AS s, p AS q, key AS x FROM (" + gold + ")"
    assert pair.compare(gold, result).matched
    wrong = "SELECT s AS a, r AS p, q AS s, 1 - p AS q, key AS x FROM (" + gold + ")"
    found = pair.compare(gold, wrong)
    assert (found.matched, found.fault) == (False, Fault.PAIRING)


def test_many_equal_columns_do_not_stall_a_failure(pair: Databases) -> None:
    zeros = ", ".join(f"0 AS z{at}" for at in range(25))
    gold = f"SELECT i % 2 AS p, (i // 2) % 2 AS q, (i // 4) % 2 AS r, {zeros} FROM range(8) t(i)"
    result = gold.replace("(i // 4) % 2 AS r", "(i + i // 2) % 2 AS r")
    assert not pair.compare(gold, result).matched


def test_noise_of_summing_passes_with_a_key_without_and_in_order(pair: Databases) -> None:
    gold = "SELECT i % 7 AS k, (i * 1234567.891)::DOUBLE AS v FROM range(1000) t(i)"
    noisy = f"SELECT k, v * (1 + 1e-14) AS v FROM ({gold})"
    found = pair.compare(gold, noisy)
    assert (found.matched, found.exactly) == (True, False)
    assert pair.compare(gold, noisy, ignore_order=False).matched
    keyed = "SELECT i AS k, (i / 7)::DOUBLE AS v FROM range(1000) t(i)"
    shuffled = f"SELECT k, v + 1e-15 AS v FROM ({keyed}) ORDER BY hash(k)"
    assert pair.compare(keyed, shuffled).matched
    assert not pair.compare(
        keyed, f"SELECT (k + 1) % 1000 AS k, v + 1e-15 AS v FROM ({keyed})"
    ).matched


def test_values_swapped_within_the_tolerance_pass(pair: Databases) -> None:
    """Each value is there, in another row, and near enough to the one that belongs there."""
    gold = values("'x', 5::DOUBLE", "'y', 5.0000000001::DOUBLE")
    result = values("'y', 5::DOUBLE", "'x', 5.0000000001::DOUBLE")
    assert pair.compare(gold, result).matched


def test_a_chain_of_near_values_is_matched_one_to_one(pair: Databases) -> None:
    step = 0.9e-9
    chain = [1 + step * at for at in range(5)]
    gold = values(*(f"{value!r}::DOUBLE, 'x'" for value in chain))
    moved = values(*(f"{value + step / 2!r}::DOUBLE, 'x'" for value in reversed(chain)))
    assert pair.compare(gold, moved).matched
    far = values(*(f"{value!r}::DOUBLE, 'x'" for value in [chain[0], *chain[:4]]))
    assert pair.compare(gold, far).matched
    apart = values(*(f"{value!r}::DOUBLE, 'x'" for value in [chain[0]] * 2 + chain[:3]))
    assert not pair.compare(gold, apart).matched


def test_a_large_value_widens_what_counts_as_zero(pair: Databases) -> None:
    small, large = values("1::DOUBLE, 0", "0::DOUBLE, 1"), values("1e9::DOUBLE, 0", "0::DOUBLE, 1")
    assert not pair.compare(small, values("1::DOUBLE, 0", "1e-6::DOUBLE, 1")).matched
    assert pair.compare(large, values("1e9::DOUBLE, 0", "1e-6::DOUBLE, 1")).matched


def test_the_tolerance_is_never_wider_than_the_official_one() -> None:
    chosen = random.Random(7)
    for _ in range(20_000):
        value = chosen.choice([-1, 1]) * 10 ** chosen.uniform(-14, 18)
        other = value * (1 + chosen.choice([-1, 1]) * 10 ** chosen.uniform(-17, 0))
        allowed = tolerance(10 ** chosen.uniform(-3, 18), chosen.random() < 0.3)
        if allowed.agree(np.array([value]), np.array([other]))[0]:
            assert math.isclose(value, other, abs_tol=1e-2)


def plainly(
    gold: Sequence[tuple[Any, ...]], result: Sequence[tuple[Any, ...]], floats: set[int]
) -> bool:
    """Try every assignment of columns and every pairing of rows."""
    if len(gold) != len(result):
        return False
    largest = [
        max((abs(row[at]) for row in gold if row[at] is not None), default=0.0) for at in floats
    ]
    allowed = {at: tolerance(size, False) for at, size in zip(sorted(floats), largest, strict=True)}

    def agree(at: int, ours: Any, theirs: Any) -> bool:
        if ours is None or theirs is None or isinstance(ours, str) or isinstance(theirs, str):
            return type(ours) is type(theirs) and bool(ours == theirs)
        if at not in floats:
            return bool(ours == theirs)
        return bool(allowed[at].agree(np.array([float(ours)]), np.array([float(theirs)]))[0])

    width = len(gold[0])
    return any(
        all(
            agree(at, row[at], result[other][columns[at]])
            for row, other in zip(gold, rows, strict=True)
            for at in range(width)
        )
        for columns in itertools.permutations(range(len(result[0])), width)
        for rows in itertools.permutations(range(len(result)))
    )


@pytest.mark.parametrize("seed", range(150))
def test_it_agrees_with_trying_every_assignment(pair: Databases, seed: int) -> None:
    chosen = random.Random(seed)
    rows, near = chosen.randint(1, 5), 0.8e-9
    makers = {
        "INTEGER": lambda: chosen.choice([0, 1, None]),
        "DOUBLE": lambda: chosen.choice([1 + near * chosen.randint(0, 4), 0.0, None, 1.0]),
        "VARCHAR": lambda: chosen.choice(["1", "x", None]),
    }
    kinds = [chosen.choice(["DOUBLE", "DOUBLE", "INTEGER", "VARCHAR"]) for _ in range(3)]
    gold = [tuple(makers[kind]() for kind in kinds) for _ in range(rows)]
    order = chosen.sample(range(3), 3)
    result = [[row[at] for at in order] for row in chosen.sample(gold, rows)]
    for _ in range(chosen.randint(0, 4)):
        row, at = chosen.randrange(rows), chosen.randrange(3)
        kind = kinds[order[at]]
        result[row][at] = makers[kind]()

    def select(kinds: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
        def cell(value: Any) -> str:
            return "NULL" if value is None else repr(value)

        lines = ", ".join("(" + ", ".join(map(cell, row)) + ")" for row in rows)
        names = [f"CAST(c{at} AS {kind}) AS c{at}" for at, kind in enumerate(kinds)]
        return f"SELECT {', '.join(names)} FROM (VALUES {lines}) v(c0, c1, c2)"

    moved = [kinds[at] for at in order]
    wanted = plainly(
        gold, [tuple(row) for row in result], {i for i, k in enumerate(kinds) if k == "DOUBLE"}
    )
    # An integer may partner a double, so that only the doubles of gold carry a tolerance.
    found = pair.compare(select(kinds, gold), select(moved, result)).matched
    assert found is wanted


@pytest.mark.parametrize("seed", range(12))
def test_a_shuffle_of_rows_passes_and_one_of_a_column_fails_unless_it_changes_nothing(
    pair: Databases, seed: int
) -> None:
    chosen = random.Random(seed)
    size = chosen.choice([2, 30, 200])
    gold = (
        f"SELECT i AS n, i % {chosen.randint(1, 4)} AS a, 'w' || i % {chosen.randint(1, 5)} AS b, "
        f"(i % {chosen.randint(1, 6)}) / 3 AS c, CASE WHEN i % 3 = 0 THEN i % 2 END AS d "
        f"FROM range({size}) r(i)"
    )
    graded = chosen.choice([(0, 1, 2, 3, 4), (1, 2, 3, 4), (1, 4), (3,)])
    moved = f"SELECT d, c AS x, b AS a, a AS c, n FROM ({gold}) ORDER BY hash(n + {seed})"
    assert pair.compare(gold, moved, *graded).matched
    name = chosen.choice(["nabcd"[at] for at in graded])
    cells = ", ".join("nabcd"[at] for at in graded)  # no other column may stand in for one
    order = f"OVER (ORDER BY hash(n + {seed}))"
    moved_on = f"coalesce(lead(({name},)) {order}, first(({name},)) {order})[1] AS {name}"
    shuffled = f"SELECT {cells} FROM (SELECT * REPLACE ({moved_on}) FROM ({gold}))"
    rows, others = (
        sorted(map(repr, pair.gold.execute(f"SELECT {cells} FROM ({query})").fetchall()))
        for query in (gold, shuffled)
    )
    assert pair.compare(gold, shuffled, *graded).matched is (rows == others)
