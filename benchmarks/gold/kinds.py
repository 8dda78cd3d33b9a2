"""The kinds of model with which gold databases are built at a known day, and what each tells."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from enum import StrEnum

from benchmarks.gold.data import DAY, calendar, raw

Maker = Callable[[random.Random, datetime.date], list[str]]


class Tells(StrEnum):
    """What a database of a kind holds of its build day."""

    DAY = "the day"
    BOUNDS = "bounds"
    NOTHING = "nothing"


KINDS: dict[str, tuple[Tells, Maker]] = {}


def _kind(tells: Tells) -> Callable[[Maker], Maker]:
    def add(maker: Maker) -> Maker:
        KINDS[maker.__name__.strip("_").replace("_", " ")] = (tells, maker)
        return maker

    return add


def _now(rng: random.Random, built: datetime.date) -> str:
    """An instant of the build's day, in UTC."""
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(1, 59):02}"
    return f"{built} {clock}.{rng.randint(1, 999):03}"


def _daily(name: str, first: datetime.date, last: datetime.date, shops: int) -> str:
    """Orders a day and shop, on every day, also on those without any."""
    return (
        f"CREATE TABLE {name} AS SELECT d::DATE AS date_day, e AS shop_id, "
        f"coalesce((SELECT count(*) FROM orders o WHERE o.ordered_at::DATE = d::DATE "
        f"AND o.customer_id % {shops} = e), 0) AS count_orders FROM "
        f"generate_series(DATE '{first}', DATE '{last}', INTERVAL 1 DAY) s(d), range({shops}) r(e)"
    )


@_kind(Tells.DAY)
def _run_stamps(rng: random.Random, built: datetime.date) -> list[str]:
    name = rng.choice(["run_started_at", "loaded_at", "dbt_updated_at", "inserted_timestamp"])
    kind = rng.choice(["TIMESTAMP", "TIMESTAMPTZ"])
    zone = "+00" if kind == "TIMESTAMPTZ" else ""
    return raw(rng, built) + [
        f"CREATE TABLE {new} AS SELECT *, {kind} '{_now(rng, built)}{zone}' AS {name} FROM {old}"
        for new, old in (("stg_customers", "customers"), ("stg_orders", "orders"))
    ]


@_kind(Tells.DAY)
def _one_stamped_mart(rng: random.Random, built: datetime.date) -> list[str]:
    name = rng.choice(["dbt_loaded_at", "etl_run_at", "_dbt_run_started_at", "processed_at"])
    return [
        *raw(rng, built),
        "CREATE TABLE stg_orders AS SELECT order_id, customer_id, ordered_at FROM orders",
        f"CREATE TABLE fct_orders AS SELECT *, TIMESTAMP '{_now(rng, built)}' AS {name}, "
        "dayname(ordered_at) AS weekday FROM stg_orders",
    ]


@_kind(Tells.DAY)
def _snapshot(rng: random.Random, built: datetime.date) -> list[str]:
    now = f"TIMESTAMP '{_now(rng, built)}'"
    return [
        *raw(rng, built),
        f"CREATE TABLE customers_snapshot AS SELECT *, md5(name) AS dbt_scd_id, "
        f"{now} AS dbt_updated_at, {now} AS dbt_valid_from, NULL::TIMESTAMP AS dbt_valid_to "
        "FROM customers",
    ]


@_kind(Tells.DAY)
def _days_since(rng: random.Random, built: datetime.date) -> list[str]:
    name = rng.choice(["days_since_signup", "account_age_days", "tenure", "customer_age"])
    some = rng.choice(["", " WHERE customer_id % 3 > 0"])
    return [
        *raw(rng, built),
        f"CREATE TABLE dim_customers AS SELECT customer_id, signed_up, "
        f"date_diff('day', signed_up, DATE '{built}') AS {name} FROM customers{some}",
    ]


@_kind(Tells.DAY)
def _days_since_last_order(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        *raw(rng, built),
        "CREATE TABLE rfm AS SELECT customer_id, max(ordered_at) AS last_order, "
        "count(*) AS orders, sum(amount) AS spent, "
        f"date_diff('day', max(ordered_at), DATE '{built}') AS recency "
        "FROM orders GROUP BY 1",
    ]


@_kind(Tells.DAY)
def _fractions(rng: random.Random, built: datetime.date) -> list[str]:
    name, length = rng.choice(
        [
            ("days_open", 1.0),
            ("age_in_weeks", 7.0),
            ("active_months", 30.0),
            ("months_since_signup", 30.4375),
            ("tenure_months", 365 / 12),
            ("tenure_years", 365.25),
            ("age_years", 365.0),
        ]
    )
    return [
        *raw(rng, built),
        f"CREATE TABLE dim_customers AS SELECT customer_id, signed_up, "
        f"(DATE '{built}' - signed_up) / {length!r} AS {name} FROM customers",
    ]


@_kind(Tells.DAY)
def _elapsed_instants(rng: random.Random, built: datetime.date) -> list[str]:
    now = f"TIMESTAMP '{_now(rng, built)[:-4].replace(' 00:', ' 05:').replace(' 23:', ' 17:')}'"
    value = rng.choice(
        [
            f"date_diff('hour', ordered_at, {now}) AS hours_since_order",
            f"date_sub('minute', ordered_at, {now}) AS age_minutes",
            f"date_diff('second', ordered_at, {now}) AS elapsed_seconds",
            f"{now} - ordered_at AS order_age",
            f"epoch({now} - ordered_at) / 86400 AS days_since_order",
        ]
    )
    return [
        *raw(rng, built),
        f"CREATE TABLE fct_orders AS SELECT order_id, ordered_at, {value} FROM orders",
    ]


@_kind(Tells.DAY)
def _whole_units_that_fit(rng: random.Random, built: datetime.date) -> list[str]:
    """Starts a whole number of weeks, months or years before the build."""
    unit = rng.choice(["week", "month", "year"])
    day = built if unit == "week" or built.day <= 28 else built.replace(day=28)
    edge = day.isoweekday() in (1, 7) if unit == "week" else day.day == 1 or (day + DAY).day == 1
    if edge or day != built:
        unit = "day"
    return [
        *raw(rng, built),
        "CREATE TABLE plans AS SELECT i AS plan_id, "
        f"(DATE '{built}' - to_{unit}s(i::INTEGER))::DATE AS since "
        "FROM range(1, 25) r(i) WHERE i % 5 <> 2",
        f"CREATE TABLE dim_plans AS SELECT plan_id, since, "
        f"date_diff('{unit}', since, DATE '{built}') AS {unit}s_active FROM plans",
    ]


@_kind(Tells.DAY)
def _open_lengths(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        *raw(rng, built),
        "CREATE TABLE fct_rentals AS SELECT rental_id, started_on, ended_on, "
        f"coalesce(ended_on, DATE '{built}') - started_on AS days_out FROM rentals",
    ]


@_kind(Tells.DAY)
def _open_ends(rng: random.Random, built: datetime.date) -> list[str]:
    kept = rng.choice(["ended_on, coalesce({0}) AS effective_end", "coalesce({0}) AS ended_on"])
    columns = kept.format(f"ended_on, DATE '{built}'")
    return [
        *raw(rng, built),
        f"CREATE TABLE fct_rentals AS SELECT rental_id, started_on, {columns} FROM rentals",
    ]


@_kind(Tells.DAY)
def _padded_calendar(rng: random.Random, built: datetime.date) -> list[str]:
    """The build's day is on the daily tables; the calendar leaves out the day a week later.

    Or two weeks, so as not to end with a month: many calendars do, whatever the clock.
    """
    end = built + 6 * DAY
    if end.day == 1 or (end + DAY).day == 1:
        end += 7 * DAY
    first = built - rng.randint(500, 1500) * DAY
    return [
        *raw(rng, built, idle=rng.randint(60, 400)),
        calendar("calendar_spine", first, end),
        _daily("shop_daily_metrics", first, built, 2),
        _daily("region_daily_metrics", first + 10 * DAY, built, 3),
    ]


@_kind(Tells.DAY)
def _spine_and_age(rng: random.Random, built: datetime.date) -> list[str]:
    """An exclusive or inclusive spine, beside a column that settles which."""
    last = built - rng.choice([0, 1]) * DAY
    first = built - rng.randint(500, 1500) * DAY
    return [
        *raw(rng, built, idle=rng.randint(60, 400)),
        calendar("date_spine", first, last),
        _daily("daily_orders", first, last, 2),
        "CREATE TABLE dim_customers AS SELECT customer_id, signed_up, "
        f"DATE '{built}' - signed_up AS days_as_customer FROM customers",
    ]


@_kind(Tells.BOUNDS)
def _daily_spine(rng: random.Random, built: datetime.date) -> list[str]:
    last = built - rng.choice([0, 1]) * DAY
    first = built - rng.randint(500, 1500) * DAY
    name = rng.choice(["date_spine", "calendar", "all_days", "int_shop__dates"])
    more = [_daily("daily_orders", first, last, 2)] if rng.random() < 0.7 else []
    return [*raw(rng, built, idle=rng.randint(60, 400)), calendar(name, first, last), *more]


@_kind(Tells.BOUNDS)
def _padded_spine(rng: random.Random, built: datetime.date) -> list[str]:
    """Ahead of the clock by a span that can be read in two ways, or in none."""
    ahead = rng.choice([7, 14, 15, 29, 30, 31, 60, 61, 90, 91, 365, 366])
    first = built - rng.randint(500, 1500) * DAY
    end = built - rng.choice([0, 1]) * DAY
    return [
        *raw(rng, built, idle=rng.randint(60, 400)),
        calendar("calendar_spine", first, built + ahead * DAY - rng.choice([0, 1]) * DAY),
        _daily("shop_daily_metrics", first, end, 2),
        _daily("region_daily_metrics", first + 10 * DAY, end, 3),
    ]


@_kind(Tells.BOUNDS)
def _weekly_spine(rng: random.Random, built: datetime.date) -> list[str]:
    monday = built - built.weekday() * DAY - rng.choice([0, 7]) * DAY
    return [
        *raw(rng, built, idle=rng.randint(60, 400)),
        f"CREATE TABLE week_spine AS SELECT d::DATE AS week_start FROM generate_series("
        f"DATE '{monday - 7 * rng.randint(30, 120) * DAY}', DATE '{monday}', INTERVAL 7 DAY) s(d)",
    ]


@_kind(Tells.BOUNDS)
def _monthly_spine(rng: random.Random, built: datetime.date) -> list[str]:
    month = built.replace(day=1)
    if rng.random() < 0.5:
        month = (month - DAY).replace(day=1)
    more = (
        ["CREATE TABLE balances AS SELECT date_month, 100 AS amount FROM month_spine"]
        if rng.random() < 0.5 and month == built.replace(day=1)
        else []
    )
    return [
        *raw(rng, built, idle=rng.randint(100, 400)),
        f"CREATE TABLE month_spine AS SELECT d::DATE AS date_month FROM generate_series("
        f"DATE '{built.year - rng.randint(2, 6)}-01-01', DATE '{month}', INTERVAL 1 MONTH) s(d)",
        *more,
    ]


@_kind(Tells.BOUNDS)
def _whole_years_weeks_months(rng: random.Random, built: datetime.date) -> list[str]:
    start, name, value = rng.choice(
        [
            ("birthday", "age", "date_sub('year', {0}, {1})"),
            ("birthday", "age_years", "date_diff('year', {0}, {1})"),
            ("birthday", "age", "floor(({1} - {0}) / 365.25)::INTEGER"),
            ("signed_up", "months_active", "date_sub('month', {0}, {1})"),
            ("signed_up", "months_since_signup", "date_diff('month', {0}, {1})"),
            ("signed_up", "months_since_signup", "ceil(({1} - {0}) / 30.0)::INTEGER"),
            ("signed_up", "tenure_weeks", "date_diff('week', {0}, {1})"),
            ("signed_up", "tenure_weeks", "floor(({1} - {0}) / 7)::INTEGER"),
            ("signed_up", "tenure_months", "round(({1} - {0}) / 30.4375)::INTEGER"),
            ("signed_up", "tenure_months", "round(({1} - {0}) / 30.4375, 1)"),
            ("birthday", "age", "round(({1} - {0}) / 365.25, 2)"),
        ]
    )
    told = value.format(start, f"DATE '{built}'")
    return [
        *raw(rng, built),
        f"CREATE TABLE dim_customers AS SELECT customer_id, {start}, {told} AS {name} "
        "FROM customers",
    ]


@_kind(Tells.BOUNDS)
def _age_and_spine(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        *_daily_spine(rng, built),
        "CREATE TABLE dim_customers AS SELECT customer_id, birthday, "
        f"date_sub('year', birthday, DATE '{built}') AS age FROM customers",
    ]


@_kind(Tells.BOUNDS)
def _living_data(rng: random.Random, built: datetime.date) -> list[str]:
    """Orders come in up to the build, and everything ends with them."""
    idle = rng.choice([0, 1])
    last = built - rng.choice([0, 1]) * DAY
    return [
        *raw(rng, built, idle=idle),
        calendar("date_spine", built - 900 * DAY, last),
        _daily("daily_orders", built - 900 * DAY, last, 2),
        "CREATE TABLE dim_customers AS SELECT customer_id, signed_up, "
        f"DATE '{built}' - signed_up AS days_as_customer FROM customers",
    ]


@_kind(Tells.NOTHING)
def _no_clock(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        *raw(rng, built),
        "CREATE TABLE dim_customers AS SELECT customer_id, min(ordered_at) AS first_order, "
        "max(ordered_at) AS last_order, date_diff('day', min(ordered_at), max(ordered_at)) AS "
        "days_active FROM orders GROUP BY 1",
        "CREATE TABLE fct_rentals AS SELECT *, ended_on - started_on AS days_out FROM rentals",
    ]


@_kind(Tells.NOTHING)
def _up_to_the_data_s_end(rng: random.Random, built: datetime.date) -> list[str]:
    """Spines and ages that are counted up to the last order, or to the end of its month."""
    end = rng.choice(["max(ordered_at)::DATE", "last_day(max(ordered_at))"])
    until = f"(SELECT {end} FROM orders)"
    cut = rng.choice(["<=", "<"])
    return [
        *raw(rng, built),
        f"CREATE TABLE date_spine AS SELECT d::DATE AS date_day FROM generate_series("
        f"DATE '2012-01-01', {until}, INTERVAL 1 DAY) s(d) WHERE d {cut} {until}",
        "CREATE TABLE daily_rentals AS SELECT date_day, (SELECT count(*) FROM rentals "
        "WHERE started_on = date_day) AS count_rentals FROM date_spine",
        f"CREATE TABLE dim_customers AS SELECT customer_id, signed_up, {until} - signed_up "
        "AS days_as_customer FROM customers",
        "CREATE TABLE fct_rentals AS SELECT rental_id, started_on, "
        f"coalesce(ended_on, {until}) AS ended_on FROM rentals",
    ]


@_kind(Tells.NOTHING)
def _clock_in_views(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        *raw(rng, built),
        "CREATE VIEW dim_customers AS SELECT customer_id, signed_up, current_date - signed_up "
        "AS days_as_customer FROM customers",
        "CREATE VIEW date_spine AS SELECT d::DATE AS date_day FROM generate_series("
        "DATE '2015-01-01', current_date, INTERVAL 1 DAY) s(d)",
    ]


@_kind(Tells.NOTHING)
def _loaded_elsewhere(rng: random.Random, built: datetime.date) -> list[str]:
    """Stamps and ages that came with the raw data, from an earlier day."""
    before = built - rng.randint(1, 200) * DAY
    stamp = f"TIMESTAMP '{_now(rng, before)}'"
    return [
        *raw(rng, built, idle=rng.randint(210, 400)),
        *(
            statement
            for name in ("people", "places")
            for statement in (
                f"CREATE TABLE {name} AS SELECT i AS id, 'x' || i AS label, {stamp} AS loaded_at, "
                f"DATE '{before}' - 17 * i::INTEGER AS since, 17 * i AS age_days "
                "FROM range(3, 40) r(i)",
                f"CREATE TABLE stg_{name} AS SELECT id, label, loaded_at AS {name}_loaded_at "
                f"FROM {name}",
            )
        ),
    ]
