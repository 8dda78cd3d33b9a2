"""What a rebuild concludes: the search for days, the weighing, the comparison, the reading."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pytest

from stages.common.files import write_text
from stages.dates.models import DateStatus, GoldDate, Rebuild
from stages.dates.rebuild.compare import common_columns, equal_columns, equal_rows, read_relation
from stages.dates.rebuild.search import edges, estimates
from stages.dates.rebuild.shipped import Shipped
from stages.dates.rebuild.weigh import weigh

D = datetime.date


@pytest.mark.parametrize(
    ("low", "high", "most"),
    [
        (D(2024, 3, 1), D(2024, 3, 1), 2),
        (D(2024, 2, 1), D(2024, 2, 29), 6),
        (D(2024, 2, 26), D(2024, 3, 3), 14),
        (D(2024, 1, 1), D(2024, 12, 31), 30),
    ],
)
def test_the_edges_of_a_run_of_days_are_found_with_few_tries(
    low: datetime.date, high: datetime.date, most: int
) -> None:
    tried: set[datetime.date] = set()

    def holds(day: datetime.date) -> bool:
        tried.add(day)
        return low <= day <= high

    for day in (low, low + (high - low) // 2, high):
        tried.clear()
        assert edges(day, holds) == (low, high)
        assert len(tried) <= most


def test_a_run_without_an_end_has_no_edge() -> None:
    assert edges(D(2024, 3, 5), lambda day: day >= D(2024, 3, 1)) == (D(2024, 3, 1), None)


def test_numbers_that_move_with_the_day_point_to_the_day() -> None:
    rows, age, still = ("", "rows"), ("age", "avg"), ("name", "max")
    seen = {
        D(2024, 9, 8): {rows: 100.0, age: 50.0, still: 1.0},
        D(2024, 10, 18): {rows: 140.0, age: 90.0, still: 1.0},
    }
    wanted = {rows: 80.0, age: 30.0, still: 7.0}
    assert estimates(wanted, seen) == [D(2024, 8, 19)]


def gold_date(status: DateStatus, day: datetime.date) -> GoldDate:
    exact = status is DateStatus.EXACT
    return GoldDate(
        date=day,
        status=status,
        low=day if exact else None,
        high=day if exact else None,
        evidence=(),
        note="before",
    )


def rebuilt(low: datetime.date | None, high: datetime.date | None) -> Rebuild:
    return Rebuild(clock_models=("days",), tried={}, low=low, high=high)


def test_a_proof_replaces_a_guess_and_keeps_one_that_it_allows() -> None:
    rebuild = rebuilt(D(2024, 9, 1), D(2024, 9, 30))
    inside = weigh(gold_date(DateStatus.FALLBACK, D(2024, 9, 8)), rebuild)
    assert (inside.status, inside.date) == (DateStatus.PROVED, D(2024, 9, 8))
    assert (inside.low, inside.high) == (D(2024, 9, 1), D(2024, 9, 30))
    outside = weigh(gold_date(DateStatus.FALLBACK, D(2025, 1, 1)), rebuild)
    assert (outside.status, outside.date) == (DateStatus.PROVED, D(2024, 9, 30))


def test_conclusive_evidence_within_the_proof_stays_the_day() -> None:
    found = gold_date(DateStatus.EXACT, D(2024, 9, 20))
    date = weigh(found, rebuilt(D(2024, 9, 1), D(2024, 9, 30)))
    assert (date.status, date.date, date.low, date.high) == (
        DateStatus.PROVED,
        D(2024, 9, 20),
        D(2024, 9, 20),
        D(2024, 9, 20),
    )


def test_conclusive_evidence_of_another_day_is_a_conflict() -> None:
    date = weigh(gold_date(DateStatus.EXACT, D(2024, 8, 31)), rebuilt(D(2024, 9, 1), D(2024, 9, 1)))
    assert (date.status, date.date) == (DateStatus.CONFLICT, D(2024, 9, 1))
    assert date.note.startswith(
        "the database says 2024-08-31, and the shipped models give gold on 2024-09-01"
    )


@pytest.mark.parametrize("bounds", [(None, None), (D(2024, 9, 1), None), (None, D(2024, 9, 1))])
def test_half_a_proof_is_none(bounds: tuple[datetime.date | None, datetime.date | None]) -> None:
    found = gold_date(DateStatus.FALLBACK, D(2024, 9, 8))
    date = weigh(found, rebuilt(*bounds))
    assert date.model_copy(update={"rebuild": None}) == found


def test_tables_are_equal_as_rows_in_any_order_with_a_tolerance_for_numbers() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table a(k int, v double, t timestamp, s varchar)")
        connection.execute(
            "insert into a values (1, 0.1, '2024-01-01', 'x'), (2, null, null, null), "
            "(2, 1e9, '2024-01-02', '')"
        )
        connection.execute("create table b as select k::bigint k, v, t::date t, s from a")
        connection.execute("update b set v = v * 1.0000000001")
        connection.execute("create table c as select k, v, t, s from a")
        connection.execute("update c set s = case s when '' then 'x' when 'x' then '' end")
        a, b, c = (read_relation(connection, name) for name in "abc")
        columns = common_columns(a, b)
        assert equal_rows(connection, a, b, columns)
        columns = common_columns(a, c)
        assert equal_columns(connection, a, c, columns) == {"k", "v", "t", "s"}
        assert not equal_rows(connection, a, c, columns)
        connection.execute("update b set v = v * 1.001")
        assert equal_columns(connection, a, b, common_columns(a, b)) == {"k", "t", "s"}


def test_what_reads_the_clock_is_seen_through_macros_variables_and_joined_names(
    tmp_path: Path,
) -> None:
    files = {
        "dbt_project.yml": "name: p\nvars:\n  p:\n    source_of_all: \"{{ ref('clocked') }}\"\n",
        "models/clocked.sql": "select {{ until_now() }}",
        "models/by_variable.sql": "select * from {{ var('source_of_all') }}",
        "models/by_joined_name.sql": "{% for x in ['ked'] %}{{ ref('cloc' ~ x) }}{% endfor %}",
        "models/still.sql": "select 1 {# current_date #}",
        "macros/m.sql": "{% macro default__until_now() %}{{ deep() }}{% endmacro %}"
        "{% macro deep() %} CURRENT_DATE {% endmacro %}",
    }
    for name, text in files.items():
        write_text(tmp_path / name, text)
    shipped = Shipped(tmp_path)
    assert shipped.reading_clock() == {"clocked", "by_variable", "by_joined_name"}
    assert shipped.needed(["by_variable"]) == {"by_variable", "clocked"}
