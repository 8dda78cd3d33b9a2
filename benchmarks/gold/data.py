"""The raw tables that every generated gold database starts from, and what may mislead in it."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable

DAY = datetime.timedelta(days=1)
Maker = Callable[[random.Random, datetime.date], list[str]]


def raw(rng: random.Random, built: datetime.date, *, idle: int | None = None) -> list[str]:
    """Customers, orders and rentals; the last order lies `idle` days before the build."""
    gap = rng.randint(45, 900) if idle is None else idle
    stop = built - gap * DAY
    span = rng.randint(200, 1500)
    customers, orders = rng.randint(25, 150), rng.randint(100, 500)
    seed = rng.randint(1, 10**6)
    pick = f"(hash(i * 7919 + {seed}) % {span})::INTEGER"
    second = f"(hash(i * 104729 + {seed}) % 80000)::INTEGER"
    return [
        f"CREATE TABLE customers AS SELECT i AS customer_id, 'c' || i AS name, "
        f"DATE '1950-02-28' + (hash(i + {seed}) % 18000)::INTEGER AS birthday, "
        f"DATE '{stop}' - {pick} AS signed_up FROM range({customers}) r(i)",
        f"CREATE TABLE orders AS SELECT i AS order_id, i % {customers} AS customer_id, "
        f"TIMESTAMP '{stop} 00:00:00' - to_days({pick}) + to_seconds({second}) AS ordered_at, "
        f"(hash(i) % 9000) / 100 AS amount FROM range({orders}) r(i)",
        f"UPDATE orders SET ordered_at = TIMESTAMP '{stop} 10:20:30' WHERE order_id = 0",
        f"CREATE TABLE rentals AS SELECT i AS rental_id, "
        f"DATE '{stop}' - {pick} - 30 AS started_on, "
        f"CASE WHEN i % 4 > 0 THEN DATE '{stop}' - {pick} - 30 + (hash(i) % 25)::INTEGER "
        f"END AS ended_on FROM range({customers}) r(i)",
    ]


def calendar(name: str, first: object, last: object, column: str = "date_day") -> str:
    """A table with one row a day."""
    return (
        f"CREATE TABLE {name} AS SELECT d::DATE AS {column} FROM "
        f"generate_series(DATE '{first}', DATE '{last}', INTERVAL 1 DAY) s(d)"
    )


def _fixed_dimension(rng: random.Random, _: datetime.date) -> list[str]:
    end = rng.choice(["2030-12-31", "2029-12-31", "2035-12-31", "2050-01-01"])
    return [
        f"CREATE TABLE dim_date AS SELECT d::DATE AS date_day, year(d) AS year, "
        f"month(d) AS month_of_year, quarter(d) AS quarter_of_year FROM "
        f"generate_series(DATE '2010-01-01', DATE '{end}', INTERVAL 1 DAY) s(d)"
    ]


def _budgets(rng: random.Random, built: datetime.date) -> list[str]:
    return [
        f"CREATE TABLE budgets AS SELECT d::DATE AS budget_month, {rng.randint(100, 900)} + "
        f"month(d) AS amount FROM generate_series(DATE '{built.year - 1}-01-01', "
        f"DATE '{built.year + 1}-12-01', INTERVAL 1 MONTH) s(d)"
    ]


def _contracts(rng: random.Random, built: datetime.date) -> list[str]:
    """Terms that all run up to one common day of renewal, in the future."""
    ends = built + rng.randint(20, 300) * DAY
    return [
        f"CREATE TABLE contracts AS SELECT i AS contract_id, "
        f"DATE '{ends}' - 91 * i::INTEGER AS starts_on, 91 * i AS term_days, "
        f"DATE '{ends}' AS renews_on FROM range(1, 9) r(i)",
        "CREATE TABLE fct_contracts AS SELECT * FROM contracts",
    ]


def _age_at_signup(_: random.Random, __: datetime.date) -> list[str]:
    return [
        "CREATE TABLE dim_ages AS SELECT customer_id, birthday, signed_up, "
        "date_sub('year', birthday, signed_up) AS age_at_signup, "
        "signed_up - birthday AS days_old FROM customers"
    ]


def _loader(rng: random.Random, built: datetime.date) -> list[str]:
    loaded = built - rng.randint(1, 300) * DAY
    stamp = f"TIMESTAMP '{loaded} {rng.randint(0, 23):02}:14:15.926'"
    return [
        f"CREATE TABLE raw_products AS SELECT i AS id, 'p' || i AS title, {stamp} AS _loaded_at "
        "FROM range(20) r(i)",
        "CREATE TABLE stg_products AS SELECT id, title, _loaded_at AS loaded_at FROM raw_products",
        "CREATE TABLE dim_products AS SELECT id, title, loaded_at FROM stg_products",
    ]


def _cut_spine(rng: random.Random, built: datetime.date) -> list[str]:
    end = built - rng.randint(100, 700) * DAY
    return [calendar("reporting_calendar", built - 1500 * DAY, end.replace(day=1) - DAY)]


def _zones(rng: random.Random, _: datetime.date) -> list[str]:
    zone = rng.choice(["America/Los_Angeles", "Asia/Tokyo", "Europe/Berlin"])
    return [
        f"CREATE TABLE fct_local_orders AS SELECT order_id, "
        f"ordered_at AT TIME ZONE '{zone}' AS ordered_at_utc, "
        f"date_trunc('day', ordered_at) AT TIME ZONE '{zone}' AS local_day FROM orders"
    ]


def _leap_births(_: random.Random, __: datetime.date) -> list[str]:
    return [
        "CREATE TABLE members AS SELECT i AS member_id, "
        "make_date(1960 + 4 * i::INTEGER, 2, 29) AS born_on, 3 + i % 2 AS visits "
        "FROM range(12) r(i)"
    ]


def _month_ends(_: random.Random, __: datetime.date) -> list[str]:
    return [
        "CREATE TABLE fct_statements AS SELECT DISTINCT last_day(ordered_at) AS statement_on, "
        "day(last_day(ordered_at)) AS days_in_month FROM orders"
    ]


DECOYS: tuple[Maker, ...] = (
    _fixed_dimension,
    _budgets,
    _contracts,
    _age_at_signup,
    _loader,
    _cut_spine,
    _zones,
    _leap_births,
    _month_ends,
)
