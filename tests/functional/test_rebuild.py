"""Dates proved by a rebuild: small projects of our own, built with the stack's dbt."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import duckdb
import pytest
import yaml

from stages.common.files import cache_root, write_text
from stages.common.params import SuiteParams
from stages.dates.models import DateStatus, GoldDate
from stages.dates.rebuild.prove import prove
from stages.dates.rebuild.suite import prove_dates
from stages.dates.rebuild.verify import verify_suite
from stages.dates.rebuild.weigh import weigh
from stages.stack.environments import Stack, ensure_stack, stack_lock
from stages.suite.models import AuditEntry, Evaluation, Status, Task

REPOSITORY = Path(__file__).resolve().parents[2]
PINNED = datetime.date(2024, 9, 8)

EXCLUSIVE = "select cast(range as date) as day from range({from}, current_date, interval 1 day)"
INCLUSIVE = (
    "select cast(range as date) as day, current_timestamp as built_at, uuid() as row_id "
    "from range({from}, current_date + 1, interval 1 day)"
)
MONTHLY = (
    "select cast(range as date) as month "
    "from range({from}, date_trunc('month', current_date) + interval 1 month, interval 1 month)"
)
START = "timestamp '2023-01-01'"


class Small:
    """A task with a project, a start database and gold, all below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "suite" / "examples" / "small"
        self.gold = root / "gold.duckdb"
        profile = {
            "target": "dev",
            "outputs": {"dev": {"type": "duckdb", "path": "small.duckdb", "threads": 1}},
        }
        self.write(
            "dbt_project.yml",
            yaml.safe_dump({"name": "small", "version": "1.0", "profile": "small"}),
        )
        self.write("profiles.yml", yaml.safe_dump({"small": profile}))
        with duckdb.connect(str(self.project / "small.duckdb")) as connection:
            connection.execute("create table events as select date '2023-02-03' as on_day")

    def write(self, name: str, text: str) -> None:
        """A file of the project."""
        write_text(self.project / name, text)

    def model(self, name: str, sql: str) -> None:
        """A model that is built as a table."""
        config = "{{ config(materialized='table') }}\n"
        self.write(f"models/{name}.sql", config + sql.replace("{from}", START))

    def holds(self, **tables: str) -> None:
        """Tables of gold, by the SELECT that makes them."""
        with duckdb.connect(str(self.gold)) as connection:
            for name, sql in tables.items():
                connection.execute(f"create table {name} as {sql.replace('{from}', START)}")

    @property
    def task(self) -> Task:
        """The task as the suite stage writes it."""
        return Task(
            instance_id="small",
            instruction="",
            project=self.project,
            overlay=None,
            database=Path("small.duckdb"),
            start_digest="start",
        )

    @property
    def entry(self) -> AuditEntry:
        """The task in the audit."""
        return AuditEntry(
            instance_id="small",
            status=Status.SCOREABLE,
            detail="",
            gold_database=self.gold,
            evaluation=Evaluation(
                instance_id="small",
                gold="gold.duckdb",
                condition_tabs=("days",),
                condition_cols=((),),
                ignore_orders=(True,),
            ),
        )


@pytest.fixture(scope="session")
def stack() -> Stack:
    return ensure_stack("current", stack_lock("current"))


@pytest.fixture
def small(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / ".stacks").symlink_to(stack.prefix.parent)
    return Small(tmp_path)


def guess(
    day: datetime.date = PINNED,
    status: DateStatus = DateStatus.FALLBACK,
    low: datetime.date | None = None,
    high: datetime.date | None = None,
) -> GoldDate:
    """What a database alone might tell."""
    return GoldDate(date=day, status=status, low=low, high=high, evidence=())


def test_a_spine_that_leaves_out_its_end_was_built_on_the_day_after(
    small: Small, stack: Stack
) -> None:
    small.model("days", EXCLUSIVE)
    small.holds(days=EXCLUSIVE.replace("current_date", "timestamp '2024-05-17'"))
    last = datetime.date(2024, 5, 16)
    found = guess(last, DateStatus.INTERVAL, None, last + datetime.timedelta(days=1))
    date = weigh(found, prove(small.task, small.gold, found, stack, 120))
    assert (date.status, date.date) == (DateStatus.PROVED, datetime.date(2024, 5, 17))
    assert (date.low, date.high) == (date.date, date.date)
    assert date.rebuild is not None
    assert date.rebuild.clock_models == ("days",)
    assert date.rebuild.tried["2024-05-17"] == "reproduces gold"


def test_a_day_far_from_every_guess_is_found_whatever_else_differs(
    small: Small, stack: Stack
) -> None:
    small.model("days", INCLUSIVE)
    small.holds(
        days=INCLUSIVE.replace("current_date + 1", "timestamp '2025-11-04'").replace(
            "current_timestamp", "timestamptz '2025-11-03 17:45:01+00'"
        )
    )
    found = guess()
    date = weigh(found, prove(small.task, small.gold, found, stack, 120))
    assert (date.status, date.low, date.high) == (
        DateStatus.PROVED,
        datetime.date(2025, 11, 3),
        datetime.date(2025, 11, 3),
    )
    assert date.rebuild is not None
    assert date.rebuild.note == (
        "days.row_id not compared: it differs between two builds of one day"
    )


def test_months_prove_a_month_even_in_a_project_that_does_not_parse(
    small: Small, stack: Stack
) -> None:
    monthly = MONTHLY.replace("{from}", "timestamp '2021-01-01'")
    small.model("months", monthly + " where month > (select min(m) from {{ ref('lost') }})")
    small.model("broken", "select * from {{ ref('never_written') }}")
    small.model("stuck", EXCLUSIVE + " where day in (select d from {{ ref('never_written') }})")
    small.write("models/bad.yml", "models: [\n  - name: x: y\n")
    small.write("packages.yml", "packages: [{package: a/never_fetched, version: 1.0.0}]\n")
    small.write("tests/of_lost.sql", "select * from {{ ref('never_written') }}")
    clock = "date_trunc('month', current_date) + interval 1 month"
    months = monthly.replace(clock, "timestamp '2022-03-01'")
    small.holds(
        lost="select date '2021-02-01' as m",
        months=f"{months} where month > date '2021-02-01'",
        stuck="select date '2021-02-01' as day",
    )
    found = guess()
    date = weigh(found, prove(small.task, small.gold, found, stack, 120))
    assert date.rebuild is not None
    assert (date.status, date.low, date.high) == (
        DateStatus.PROVED,
        datetime.date(2022, 2, 1),
        datetime.date(2022, 2, 28),
    ), date.rebuild
    assert date.rebuild.clock_models == ("months",)
    assert "taken from gold, since nobody ships them: lost" in date.rebuild.note
    assert "stuck (needs never_written, which nobody ships)" in date.rebuild.note


def test_a_model_that_gives_the_same_on_all_days_proves_nothing(small: Small, stack: Stack) -> None:
    small.model("days", "select least(current_date, date '2020-01-01') as day")
    small.holds(days="select date '2020-01-01' as day")
    rebuild = prove(small.task, small.gold, guess(), stack, 120)
    assert (rebuild.clock_models, rebuild.low, rebuild.high) == ((), None, None)
    assert rebuild.note == "gives the same tables on 2024-09-08, 2024-10-18, 2028-09-08: days"
    assert weigh(guess(), rebuild).status is DateStatus.FALLBACK


def test_a_task_that_cannot_be_rebuilt_does_not_stop_the_others(small: Small, stack: Stack) -> None:
    small.model("days", EXCLUSIVE)
    small.holds(days=EXCLUSIVE.replace("current_date", "timestamp '2024-05-17'"))
    lost = small.task.model_copy(update={"instance_id": "lost", "database": Path("no.duckdb")})
    late = small.task.model_copy(update={"instance_id": "late", "start_digest": "other"})
    audit = [
        small.entry.model_copy(update={"instance_id": name}) for name in ("lost", "small", "late")
    ]
    dates = {"lost": guess(), "small": guess()}
    proved = prove_dates(dates, [lost, small.task], audit, "current", 120)
    assert proved["small"].status is DateStatus.PROVED
    assert proved["lost"].rebuild is not None
    assert "cannot be read" in proved["lost"].rebuild.note
    assert proved["lost"].date == PINNED
    impatient = prove_dates({"late": guess()}, [late], audit, "current", 0.5)
    assert impatient["late"].rebuild is not None
    assert impatient["late"].rebuild.note == "cannot be rebuilt: not done after 0.5 s"

    kept = sorted((cache_root() / "rebuilds").glob("*.json"))
    assert len(kept) == 2, "what ran out of time must not be kept"
    for path in kept:
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"note": "from the cache"}))
    again = prove_dates(dates, [lost, small.task], audit, "current", 120)
    assert {item.rebuild.note for item in again.values() if item.rebuild} == {"from the cache"}
    assert not list((cache_root() / "work-rebuilds").iterdir())


def test_solutions_tell_whether_the_date_is_right_and_matters(small: Small, stack: Stack) -> None:
    small.holds(days=EXCLUSIVE.replace("current_date", "timestamp '2024-05-17'"))
    write_text(
        small.root / "suite/solutions/small/models/days.sql",
        "{{ config(materialized='table') }}\n" + EXCLUSIVE.replace("{from}", START),
    )
    params = yaml.safe_load((REPOSITORY / "params.yaml").read_text())["suite"]
    suite = SuiteParams.model_validate(params | {"root": small.root / "suite"})
    right, wrong = datetime.date(2024, 5, 17), datetime.date(2024, 5, 18)
    check = verify_suite(suite, [small.task], [small.entry], {"small": right}, 120)["small"]
    assert (check.reproduces, check.depends) == (True, True)
    assert check.days == {
        "2024-05-16": "not like gold: days",
        "2024-05-17": "like gold",
        "2024-05-18": "not like gold: days",
        "2024-06-26": "not like gold: days",
    }
    check = verify_suite(suite, [small.task], [small.entry], {"small": wrong}, 120)["small"]
    assert (check.reproduces, check.depends) == (False, True)
    assert check.days["2024-05-17"] == "like gold"
