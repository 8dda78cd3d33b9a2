"""Which day the dates stage reads from a database, rule by rule."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pytest

from benchmarks.gold.build import build_one
from benchmarks.gold.kinds import KINDS
from stages.dates.database import open_gold
from stages.dates.find import find_gold_date, find_in_folder
from stages.dates.models import DateStatus, GoldDate, Rule
from stages.dates.profile import Profile, read_catalog

PINNED = datetime.date(2024, 9, 8)

OLD_EVENTS = """
    CREATE TABLE events AS SELECT i AS id, TIMESTAMP '2020-01-01 08:00:00' + to_days(i::INT)
    AS created_at FROM range(40) r(i)
"""


def spine(name: str, start: str, last: str) -> str:
    return f"""
        CREATE TABLE {name} AS SELECT d::DATE AS date_day
        FROM generate_series(DATE '{start}', DATE '{last}', INTERVAL 1 DAY) s(d)
    """


def filled(name: str, start: str, last: str, *, entities: int = 2) -> str:
    """A daily table for each entity whose only events lie on its first two days."""
    return f"""
        CREATE TABLE {name} AS SELECT d::DATE AS date_day, e AS entity_id,
        CASE WHEN d < DATE '{start}' + 2 THEN 3 + e ELSE 0 END AS count_events
        FROM generate_series(DATE '{start}', DATE '{last}', INTERVAL 1 DAY) s(d),
        range({entities}) r(e)
    """


def stamped(stamp: str) -> list[str]:
    """Two raw tables, each with a staging table that adds one constant instant."""
    return [
        statement
        for source in ("customers", "products")
        for statement in (
            f"CREATE TABLE {source} AS SELECT i AS id, 'n' || i AS name FROM range(5) r(i)",
            f"CREATE TABLE stg_{source} AS SELECT *, {stamp} AS built_at FROM {source}",
        )
    ]


def date_of(tmp_path: Path, *statements: str) -> GoldDate:
    path = tmp_path / "gold.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in statements:
            connection.execute(statement)
    return find_gold_date(path, PINNED)


def day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def test_spine_with_daily_table_allows_its_last_day_and_the_next(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        OLD_EVENTS,
        spine("date_spine", "2020-01-01", "2023-05-17"),
        filled("daily_activity", "2020-01-01", "2023-05-17"),
    )
    assert (found.status, found.low, found.high) == (
        DateStatus.INTERVAL,
        day("2023-05-17"),
        day("2023-05-18"),
    )
    assert found.date == day("2023-05-17")
    assert {item.rule for item in found.evidence} >= {Rule.SPINE_END, Rule.DAILY_END}


@pytest.mark.parametrize("built", ["2023-05-17", "2023-05-18"])
def test_build_stamp_settles_whether_the_spine_includes_its_day(tmp_path: Path, built: str) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2023-05-17"),
        filled("daily_activity", "2020-01-01", "2023-05-17"),
        *stamped(f"TIMESTAMPTZ '{built} 12:00:00+00'"),
    )
    assert (found.status, found.date) == (DateStatus.EXACT, day(built))


@pytest.mark.parametrize(
    ("name", "status"),
    [("_synced", DateStatus.EXACT), ("created_at", DateStatus.INTERVAL)],
)
def test_only_what_a_loader_wrote_on_the_day_after_makes_the_spine_exclusive(
    tmp_path: Path, name: str, status: DateStatus
) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2023-05-17"),
        filled("daily_activity", "2020-01-01", "2023-05-17"),
        f"CREATE TABLE audit AS SELECT 1 AS id, TIMESTAMP '2023-05-18 07:00:00' AS {name}",
    )
    assert (found.status, found.date) == (status, day("2023-05-18"))


def test_facts_on_the_day_after_a_bare_spine_may_also_be_what_it_ends_with(
    tmp_path: Path,
) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2023-05-17"),
        "CREATE TABLE orders AS SELECT DATE '2023-05-18' AS order_date, 5 AS amount",
    )
    assert (found.status, found.date) == (DateStatus.INTERVAL, day("2023-05-18"))
    assert (found.low, found.high) == (day("2023-05-18"), None)


def test_bare_spine_gives_no_earliest_day_since_it_may_be_padded(tmp_path: Path) -> None:
    found = date_of(tmp_path, spine("days", "2020-01-01", "2023-05-17"))
    assert (found.status, found.date) == (DateStatus.INTERVAL, day("2023-05-17"))
    assert (found.low, found.high) == (None, day("2023-05-18"))


def test_spine_is_known_by_its_shape_whatever_its_name(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE TABLE helper AS SELECT d AS t, year(d) AS year FROM "
        "generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2023-05-17', INTERVAL 1 DAY) s(d)",
    )
    assert [item.rule for item in found.evidence] == [Rule.SPINE_END]


def test_spine_with_a_gap_or_a_doubled_day_is_none(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2023-05-17"),
        "DELETE FROM date_spine WHERE date_day = DATE '2022-02-02'",
        spine("days", "2020-01-01", "2023-05-17"),
        "INSERT INTO days VALUES (DATE '2022-02-02')",
    )
    assert found.status is DateStatus.FALLBACK


def test_calendar_padded_by_a_week_is_dated_by_the_daily_tables_that_end_before_it(
    tmp_path: Path,
) -> None:
    found = date_of(
        tmp_path,
        OLD_EVENTS,
        spine("calendar_spine", "2020-01-01", "2023-05-23"),
        filled("account_daily", "2020-01-01", "2023-05-17"),
        filled("visitor_daily", "2020-03-01", "2023-05-17"),
        filled("ended_daily", "2020-01-01", "2021-02-03"),
    )
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))
    assert Rule.PADDED_CALENDAR in {item.rule for item in found.evidence}


@pytest.mark.parametrize("last", ["2023-05-21", "2023-05-24"])
def test_calendar_beyond_daily_tables_is_no_more_than_an_interval_where_the_pad_is_unclear(
    tmp_path: Path, last: str
) -> None:
    found = date_of(
        tmp_path,
        spine("calendar_spine", "2020-01-01", last),
        filled("account_daily", "2020-01-01", "2023-05-17"),
        filled("visitor_daily", "2020-03-01", "2023-05-17"),
    )
    assert (found.status, found.date) == (DateStatus.INTERVAL, day("2023-05-17"))
    assert (found.low, found.high) == (day("2023-05-17"), day("2023-05-18"))


@pytest.mark.parametrize("last", ["2029-12-31", "2030-01-01", "2030-06-30"])
def test_calendar_that_ends_with_a_year_or_a_month_is_no_evidence(
    tmp_path: Path, last: str
) -> None:
    found = date_of(tmp_path, OLD_EVENTS, spine("dim_date", "2015-01-01", last))
    assert (found.status, found.date, found.evidence) == (DateStatus.FALLBACK, PINNED, ())
    assert "dim_date.date_day ends with a" in found.note


def test_daily_table_on_a_fixed_calendar_is_no_evidence_either(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        spine("dim_date", "2020-01-01", "2029-12-31"),
        filled("daily_activity", "2020-01-01", "2029-12-31"),
    )
    assert found.status is DateStatus.FALLBACK


def test_spine_that_ends_with_the_data_is_no_evidence(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2021-03-17"),
        "CREATE TABLE orders AS SELECT d AS ordered FROM "
        "generate_series(TIMESTAMP '2020-01-01 09:00:00', TIMESTAMP '2021-03-17 09:00:00', "
        "INTERVAL 8 DAY) s(d)",
        "INSERT INTO orders VALUES (TIMESTAMP '2021-03-17 10:00:00')",
    )
    assert (found.status, found.date) == (DateStatus.FALLBACK, PINNED)
    assert "date_spine.date_day ends with the data (orders.ordered: 2021-03-17)" in found.note


def test_raw_daily_facts_that_reach_the_end_mark_the_spine_as_ending_with_the_data(
    tmp_path: Path,
) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2021-03-17"),
        "CREATE TABLE ad_spend AS SELECT date_day, 'x' AS channel, "
        "day(date_day) * 1.5 AS spend, "
        "CASE WHEN date_day < DATE '2020-02-01' THEN 1 ELSE 0 END AS conversions FROM date_spine",
    )
    assert found.status is DateStatus.FALLBACK


def test_spine_that_ends_before_a_recorded_event_is_not_the_clocks(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        spine("date_spine", "2020-01-01", "2021-03-17"),
        "CREATE TABLE orders AS SELECT TIMESTAMP '2022-02-02 10:00:00' AS updated_at",
    )
    assert found.status is DateStatus.FALLBACK
    assert "ends before orders.updated_at: 2022-02-02" in found.note


def test_planned_days_in_the_future_are_not_recorded_events(tmp_path: Path) -> None:
    found = date_of(tmp_path, "CREATE TABLE orders AS SELECT DATE '2050-12-31' AS transaction_date")
    assert (found.status, found.date) == (DateStatus.FALLBACK, PINNED)


def test_recorded_event_after_the_pinned_day_rules_the_pinned_day_out(tmp_path: Path) -> None:
    found = date_of(
        tmp_path, "CREATE TABLE orders AS SELECT TIMESTAMP '2025-02-03 10:00:00' AS updated_at"
    )
    assert (found.status, found.date) == (DateStatus.INTERVAL, day("2025-02-03"))
    assert (found.low, found.high) == (day("2025-02-03"), None)


MONTHS = """
    CREATE TABLE month_spine AS SELECT d::DATE AS date_month
    FROM generate_series(DATE '2019-01-01', DATE '{last}', INTERVAL 1 MONTH) s(d)
"""
BALANCES = "CREATE TABLE balances AS SELECT date_month, 100 AS amount FROM month_spine"


def test_month_spine_gives_its_last_month_and_the_next(tmp_path: Path) -> None:
    found = date_of(tmp_path, MONTHS.format(last="2022-05-01"), BALANCES)
    assert (found.status, found.date) == (DateStatus.INTERVAL, day("2022-05-31"))
    assert (found.low, found.high) == (day("2022-05-01"), day("2022-06-30"))


def test_pinned_day_is_the_guess_where_an_interval_holds_it(tmp_path: Path) -> None:
    found = date_of(tmp_path, MONTHS.format(last="2024-09-01"), BALANCES)
    assert (found.status, found.date) == (DateStatus.INTERVAL, PINNED)


@pytest.mark.parametrize("facts", ["2022-05-19", "2022-06-02"])
def test_month_spine_that_ends_with_the_data_is_no_evidence(tmp_path: Path, facts: str) -> None:
    found = date_of(
        tmp_path,
        MONTHS.format(last="2022-05-01"),
        BALANCES,
        f"CREATE TABLE journal AS SELECT DATE '{facts}' AS posted",
    )
    assert found.status is DateStatus.FALLBACK


def test_view_is_no_evidence(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE VIEW date_spine AS SELECT d::DATE AS date_day FROM "
        "generate_series(DATE '2020-01-01', current_date, INTERVAL 1 DAY) s(d)",
        "CREATE VIEW stg_x AS SELECT 1 AS id, now() AS built_at",
    )
    assert (found.status, found.date, found.evidence) == (DateStatus.FALLBACK, PINNED, ())


def test_generated_column_is_no_evidence_since_it_is_computed_when_read(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE TABLE a (id INT, updated_at DATE AS (today()))",
        "INSERT INTO a VALUES (1)",
    )
    assert (found.status, found.date) == (DateStatus.FALLBACK, PINNED)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE a AS SELECT 1 AS id, 'x' AS name",
        "CREATE TABLE a (id INT, created_at TIMESTAMP)",
        "CREATE TABLE a AS SELECT DATE '9999-12-31' AS updated_at, 'infinity'::DATE AS d",
    ],
    ids=["no dates", "empty table", "placeholders"],
)
def test_database_without_a_trace_falls_back_and_says_so(tmp_path: Path, statement: str) -> None:
    found = date_of(tmp_path, statement)
    assert (found.status, found.date, found.evidence) == (DateStatus.FALLBACK, PINNED, ())
    assert "nothing in the database depends on the day" in found.note


def test_constant_stamp_added_to_unstamped_sources_is_the_build_day(tmp_path: Path) -> None:
    found = date_of(tmp_path, *stamped("TIMESTAMPTZ '2025-07-31 12:00:00+00'"))
    assert (found.status, found.date) == (DateStatus.EXACT, day("2025-07-31"))
    assert [item.table for item in found.evidence] == ["stg_customers", "stg_products"]


@pytest.mark.parametrize(
    ("stamp", "utc"),
    [
        ("2025-07-31 23:30:00-08", "2025-08-01"),
        ("2025-07-31 22:00:00+00", "2025-07-31"),
        ("2025-08-01 01:00:00+09", "2025-07-31"),
    ],
)
def test_stamps_with_a_time_zone_are_read_in_utc(tmp_path: Path, stamp: str, utc: str) -> None:
    found = date_of(tmp_path, "SET TimeZone = 'Asia/Tokyo'", *stamped(f"TIMESTAMPTZ '{stamp}'"))
    assert (found.status, found.date) == (DateStatus.EXACT, day(utc))


def test_stamped_table_that_lacks_its_sources_columns_is_not_built_from_it(
    tmp_path: Path,
) -> None:
    found = date_of(
        tmp_path,
        *stamped("TIMESTAMPTZ '2025-07-31 12:00:00+00'"),
        "ALTER TABLE stg_customers RENAME name TO other",
        "ALTER TABLE stg_products RENAME name TO other",
    )
    assert found.status is DateStatus.FALLBACK


def test_loaders_stamp_that_the_source_has_too_is_no_build_stamp(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        *(
            f"CREATE TABLE {name} AS SELECT 1 AS id, 2 AS n, "
            "TIMESTAMPTZ '2022-01-02 12:34:56+00' AS _synced, "
            "TIMESTAMPTZ '2022-01-02 12:34:56+00' AS loaded_at"
            for name in ("customers", "products", "stg_customers", "stg_products")
        ),
    )
    assert found.status is DateStatus.FALLBACK


def test_source_that_carries_a_stamp_which_staging_drops_is_no_build_stamp(
    tmp_path: Path,
) -> None:
    found = date_of(
        tmp_path,
        *(
            statement
            for name in ("customers", "products")
            for statement in (
                f"CREATE TABLE {name} AS SELECT 1 AS id, 2 AS n, "
                "TIMESTAMPTZ '2022-01-02 12:34:56+00' AS loaded_at",
                f"CREATE TABLE stg_{name} AS SELECT id, n FROM {name}",
            )
        ),
    )
    assert found.status is DateStatus.FALLBACK


def test_constant_computed_from_the_data_is_no_build_stamp(tmp_path: Path) -> None:
    found = date_of(
        tmp_path, OLD_EVENTS, *stamped("(SELECT max(created_at) FROM events)::TIMESTAMP")
    )
    assert found.status is DateStatus.FALLBACK


def test_stamps_of_different_days_are_a_conflict_dated_by_the_later(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        *stamped("TIMESTAMPTZ '2025-07-31 12:00:00+00'"),
        "UPDATE stg_products SET built_at = TIMESTAMPTZ '2025-08-02 12:00:00+00'",
    )
    assert (found.status, found.date) == (DateStatus.CONFLICT, day("2025-08-02"))
    assert (found.low, found.high) == (day("2025-07-31"), day("2025-08-02"))
    assert "findings exclude each other" in found.note


def test_stamp_against_a_later_spine_is_a_conflict(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        *stamped("TIMESTAMPTZ '2022-07-31 12:00:00+00'"),
        filled("daily_activity", "2020-01-01", "2023-05-17"),
    )
    assert (found.status, found.date) == (DateStatus.CONFLICT, day("2022-07-31"))


STARTS = "(VALUES (DATE '2019-02-03'), (DATE '2020-02-29'), (DATE '2021-11-12')) v(started)"


@pytest.mark.parametrize(
    ("name", "length"), [("days_since_start", 1), ("active_months", 30.0), ("age_weeks", 7.0)]
)
def test_elapsed_time_that_gives_one_day_in_every_row_is_the_build_day(
    tmp_path: Path, name: str, length: float
) -> None:
    found = date_of(
        tmp_path,
        f"CREATE TABLE crm__accounts AS SELECT started, "
        f"(DATE '2023-05-17' - started) / {length} AS {name} FROM {STARTS}",
    )
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))


@pytest.mark.parametrize(
    "counted",
    [
        "date_diff('month', started, {0})",
        "date_sub('month', started, {0})",
        "ceil(({0} - started) / 30.4375)::INTEGER",
        "round(({0} - started) / 30)::INTEGER",
    ],
)
def test_elapsed_whole_months_give_bounds_whatever_way_they_were_counted(
    tmp_path: Path, counted: str
) -> None:
    built = "DATE '2023-05-17'"
    found = date_of(
        tmp_path,
        f"CREATE TABLE crm__accounts AS SELECT started, "
        f"{counted.format(built)} AS active_months FROM {STARTS}",
    )
    assert found.status is DateStatus.INTERVAL
    assert found.low is not None and found.high is not None
    assert found.low <= day("2023-05-17") <= found.high
    assert (found.high - found.low).days <= 95


def test_years_of_many_birthdays_narrow_the_build_to_days(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE TABLE crm__people AS SELECT born, date_sub('year', born, DATE '2023-05-17') AS age "
        "FROM (SELECT DATE '1950-01-01' + 61 * i::INTEGER AS born FROM range(300) r(i))",
        "CREATE TABLE visits AS SELECT TIMESTAMP '2023-04-01 10:00:00' AS created_at",
    )
    assert found.low is not None and found.high is not None
    assert found.low <= day("2023-05-17") <= found.high
    assert (found.high - found.low).days <= 21


@pytest.mark.parametrize(
    "elapsed",
    [
        "{0} - started AS age",
        "epoch({0} - started) / 86400 AS days_since",
        "epoch({0} - started) / 86400 / 365.25 AS age_years",
        "date_sub('second', started, {0}) AS elapsed_seconds",
        "date_diff('hour', started, {0}) AS hours_since",
    ],
)
def test_elapsed_instants_give_the_day(tmp_path: Path, elapsed: str) -> None:
    value = elapsed.format("TIMESTAMP '2023-05-17 15:16:17'")
    found = date_of(
        tmp_path,
        f"CREATE TABLE crm__accounts AS SELECT started, {value} FROM (SELECT TIMESTAMP "
        "'2020-01-01 03:04:05' + to_seconds(i * 987654) AS started FROM range(50) r(i))",
    )
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))


@pytest.mark.parametrize(("unit", "step"), [("week", "weeks"), ("month", "months")])
def test_whole_units_that_end_on_one_day_give_it(tmp_path: Path, unit: str, step: str) -> None:
    found = date_of(
        tmp_path,
        f"CREATE TABLE crm__accounts AS SELECT (DATE '2023-05-17' - to_{step}(i::INTEGER))::DATE "
        f"AS started, i AS {unit}s_active FROM range(1, 20) r(i) WHERE i % 4 > 0",
    )
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))


def test_cohorts_end_with_their_month_whatever_the_day(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE TABLE crm__cohorts AS SELECT (DATE '2023-05-01' - to_months(i::INTEGER))::DATE "
        "AS cohort, i AS months_since FROM range(1, 20) r(i) WHERE i % 4 > 0",
    )
    assert found.status is DateStatus.INTERVAL
    assert found.high is not None and found.high >= day("2023-05-31")


@pytest.mark.parametrize("last_order", ["2023-05-17 00:00:00+00", "2023-05-16 22:00:00+00"])
def test_elapsed_time_up_to_the_end_of_the_data_gives_an_earliest_day_alone(
    tmp_path: Path, last_order: str
) -> None:
    found = date_of(
        tmp_path,
        f"CREATE TABLE orders AS SELECT TIMESTAMPTZ '{last_order}' AS ordered",
        f"CREATE TABLE crm__accounts AS SELECT started, "
        f"DATE '2023-05-17' - started AS days_since_start FROM {STARTS}",
    )
    assert (found.status, found.low, found.high) == (
        DateStatus.INTERVAL,
        day("2023-05-17"),
        None,
    )
    assert found.date == day("2023-05-17")


@pytest.mark.parametrize(
    ("end", "last_order", "status"),
    [
        ("2023-05-31", "2023-05-09", DateStatus.INTERVAL),
        ("2023-06-01", "2023-05-09", DateStatus.INTERVAL),
        ("2023-05-31", "2023-03-09", DateStatus.EXACT),
        ("2022-12-31", "2022-03-09", DateStatus.INTERVAL),
        ("2022-12-31", "2021-12-09", DateStatus.EXACT),
    ],
)
def test_elapsed_time_up_to_a_month_s_or_year_s_end_may_be_a_report_s_day_if_facts_lie_in_it(
    tmp_path: Path, end: str, last_order: str, status: DateStatus
) -> None:
    found = date_of(
        tmp_path,
        f"CREATE TABLE orders AS SELECT DATE '{last_order}' AS ordered",
        f"CREATE TABLE crm__accounts AS SELECT started, "
        f"DATE '{end}' - started AS days_since_start FROM {STARTS}",
    )
    assert (found.status, found.date, found.low) == (status, day(end), day(end))


ACCOUNTS = f"CREATE TABLE accounts AS SELECT started FROM {STARTS}"


def test_a_built_table_is_known_by_the_table_that_its_dates_come_from(tmp_path: Path) -> None:
    statement = (
        f"CREATE TABLE overview AS SELECT started AS since, "
        f"DATE '2023-05-17' - started AS tenure FROM {STARTS}"
    )
    found = date_of(tmp_path, ACCOUNTS, statement)
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))


def test_an_age_in_a_raw_table_was_counted_elsewhere(tmp_path: Path) -> None:
    statement = (
        f"CREATE TABLE overview AS SELECT started AS since, "
        f"DATE '2023-05-17' - started AS tenure FROM {STARTS}"
    )
    assert date_of(tmp_path, statement).status is DateStatus.FALLBACK


@pytest.mark.parametrize("name", ["days_until_launch", "row_number", "account_id", "rank"])
def test_numbers_that_count_towards_something_else_are_no_elapsed_time(
    tmp_path: Path, name: str
) -> None:
    statement = (
        f"CREATE TABLE overview AS SELECT started, DATE '2023-05-17' - started AS {name} "
        f"FROM {STARTS}"
    )
    assert date_of(tmp_path, ACCOUNTS, statement).status is DateStatus.FALLBACK


def loans(closed: str) -> str:
    """Four loans of which one is over; `closed` is how long that one took."""
    return f"""
        CREATE TABLE ledger AS SELECT started, returned,
        CASE WHEN returned IS NULL THEN DATE '2023-05-17' - started ELSE {closed} END AS length
        FROM (SELECT started, NULL::DATE AS returned FROM {STARTS}
        UNION ALL SELECT DATE '2020-01-01', DATE '2020-02-01')
    """


def test_intervals_that_are_still_open_are_closed_with_the_build_day(tmp_path: Path) -> None:
    more = "INSERT INTO accounts VALUES ('2020-01-01')"
    found = date_of(tmp_path, ACCOUNTS, more, loans("returned - started"))
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))
    assert "where returned is open" in found.evidence[0].value


def test_open_rows_count_only_where_every_closed_row_adds_up_to_its_end(tmp_path: Path) -> None:
    more = "INSERT INTO accounts VALUES ('2020-01-01')"
    assert date_of(tmp_path, ACCOUNTS, more, loans("5")).status is DateStatus.FALLBACK


RENTALS = (
    "CREATE TABLE rentals AS SELECT i AS id, DATE '2020-01-01' + 2 * i::INTEGER AS begun, "
    "CASE WHEN i % 3 > 0 THEN DATE '2020-01-11' + 3 * i::INTEGER END AS ended FROM range(20) r(i)"
)


@pytest.mark.parametrize("kept", ["ended", "ended AS ended_on, ended"])
def test_open_ends_that_were_filled_with_one_day_give_it(tmp_path: Path, kept: str) -> None:
    columns = kept.removesuffix("ended") + "coalesce(ended, DATE '2023-05-17') AS ended"
    statement = f"CREATE TABLE fct_rentals AS SELECT id, begun, {columns} FROM rentals"
    found = date_of(tmp_path, RENTALS, statement)
    assert (found.status, found.date) == (DateStatus.EXACT, day("2023-05-17"))
    assert Rule.CLOSED_INTERVAL in {item.rule for item in found.evidence}


@pytest.mark.parametrize(
    ("fill", "statement"),
    [
        ("DATE '2023-05-17' + id::INTEGER", "SELECT 1"),
        ("DATE '9999-12-31'", "SELECT 1"),
        ("DATE '2099-12-31'", "SELECT 1"),
        ("DATE '2023-05-17'", "UPDATE rentals SET ended = '2020-02-02' WHERE id = 1"),
    ],
    ids=["another for each row", "placeholder", "a year's end", "not the source's ends"],
)
def test_open_ends_filled_otherwise_give_none(tmp_path: Path, fill: str, statement: str) -> None:
    model = (
        f"CREATE TABLE fct_rentals AS SELECT id, begun, coalesce(ended, {fill}) AS ended "
        "FROM rentals"
    )
    found = date_of(tmp_path, RENTALS, model, statement)
    assert found.status is DateStatus.FALLBACK


def test_weekly_spine_allows_its_last_week_and_the_next(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        "CREATE TABLE week_spine AS SELECT d::DATE AS week_start FROM "
        "generate_series(DATE '2021-01-04', DATE '2023-05-15', INTERVAL 7 DAY) s(d)",
        "CREATE TABLE balances AS SELECT week_start, 100 AS amount FROM week_spine",
    )
    assert (found.status, found.low, found.high) == (
        DateStatus.INTERVAL,
        day("2023-05-15"),
        day("2023-05-28"),
    )


def test_one_mart_s_stamp_counts_only_where_its_name_says_what_it_is(tmp_path: Path) -> None:
    for name, status in (("dbt_loaded_at", DateStatus.EXACT), ("seen", DateStatus.FALLBACK)):
        found = date_of(
            tmp_path,
            "DROP TABLE IF EXISTS stg_x",
            "DROP TABLE IF EXISTS fct_x",
            "CREATE TABLE stg_x AS SELECT i AS id, 'n' || i AS title FROM range(5) r(i)",
            f"CREATE TABLE fct_x AS SELECT *, TIMESTAMP '2023-05-17 01:02:03' AS {name} FROM stg_x",
        )
        assert found.status is status


def test_a_run_over_midnight_gives_both_days(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        *stamped("TIMESTAMP '2023-05-17 23:59:58'"),
        "UPDATE stg_products SET built_at = TIMESTAMP '2023-05-18 00:00:03'",
    )
    assert (found.status, found.low, found.high) == (
        DateStatus.INTERVAL,
        day("2023-05-17"),
        day("2023-05-18"),
    )


def test_the_file_s_own_version_is_told_and_bounds_nothing(tmp_path: Path) -> None:
    found = date_of(tmp_path, "CREATE TABLE a AS SELECT 1 AS id")
    assert f"created by DuckDB v{duckdb.__version__}" in found.note
    assert (found.status, found.low, found.high) == (DateStatus.FALLBACK, None, None)


def test_small_tables_read_whole_look_as_they_do_by_aggregates(tmp_path: Path) -> None:
    path = tmp_path / "gold.duckdb"
    for number, kind in enumerate(KINDS):
        build_one(path, number, kind, seed=5)
        with open_gold(path) as connection:
            whole, summed = (read_catalog(connection, small=size) for size in (10**9, 0))
        assert whole.rows and not summed.rows
        assert [_shape(item) for item in whole.profiles] == [
            _shape(item) for item in summed.profiles
        ]


def _shape(item: Profile) -> tuple[object, ...]:
    dense = (item.dense_days, item.dense_weeks, item.dense_months)
    held = (item.table_rows, item.values, item.lowest, item.highest, item.constant)
    return (item.table.label, item.column.name, *held, *dense, any(dense) and item.unique)


def test_one_row_beyond_the_first_that_does_not_add_up_refutes_it(tmp_path: Path) -> None:
    statement = """
        CREATE TABLE crm__accounts AS SELECT DATE '2015-01-01' + 3 * i::INTEGER AS started,
        CASE WHEN i = 150 THEN 7 ELSE DATE '2023-05-17' - (DATE '2015-01-01' + 3 * i::INTEGER) END
        AS days_since_start FROM range(200) r(i)
    """
    assert date_of(tmp_path, statement).status is DateStatus.FALLBACK


def test_leap_day_end_is_followed_by_the_first_of_march(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        spine("calendar", "2019-01-01", "2024-02-29"),
        filled("daily_shop", "2019-01-01", "2024-02-29", entities=1),
    )
    assert (found.low, found.high) == (day("2024-02-29"), day("2024-03-01"))


def test_reserved_words_quotes_and_other_schemas_are_normal_names(tmp_path: Path) -> None:
    found = date_of(
        tmp_path,
        'CREATE SCHEMA "select"',
        spine('"select"."order"', "2020-01-01", "2023-05-17"),
        'ALTER TABLE "select"."order" RENAME date_day TO "from"',
        filled('"a ""daily"" table"', "2020-01-01", "2023-05-17"),
        'ALTER TABLE "a ""daily"" table" RENAME count_events TO "group"',
    )
    assert (found.low, found.high) == (day("2023-05-17"), day("2023-05-18"))
    assert {item.table for item in found.evidence} == {"select.order", 'a "daily" table'}


def test_unreadable_files_fall_back_with_the_reason(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.duckdb"
    garbage.write_bytes(b"no database at all" * 400)
    newer = tmp_path / "newer.duckdb"
    with duckdb.connect(str(newer)) as connection:
        connection.execute(OLD_EVENTS)
    content = bytearray(newer.read_bytes())
    content[12:20] = (9999).to_bytes(8, "little")
    newer.write_bytes(content)
    for path in (garbage, newer, tmp_path / "absent.duckdb"):
        found = find_gold_date(path, PINNED)
        assert (found.status, found.date, found.evidence) == (DateStatus.FALLBACK, PINNED, ())
        assert path.name in found.note
        assert str(tmp_path) not in found.note


def test_folder_needs_exactly_one_database(tmp_path: Path) -> None:
    found = find_in_folder(tmp_path, PINNED)
    assert (found.status, found.note) == (DateStatus.FALLBACK, "no database in the folder")
    for name in ("a", "b"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as connection:
            connection.execute(spine("days", "2020-01-01", "2023-05-17"))
    found = find_in_folder(tmp_path, PINNED)
    assert found.status is DateStatus.FALLBACK
    assert "2 databases, none of them named as gold: a.duckdb, b.duckdb" in found.note
    (tmp_path / "b.duckdb").unlink()
    assert find_in_folder(tmp_path, PINNED).status is DateStatus.INTERVAL
