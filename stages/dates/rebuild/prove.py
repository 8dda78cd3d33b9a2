"""Proves one task's gold date by building the models that it ships, day by day."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from stages.common.files import cache_root
from stages.common.sql import quote_text
from stages.dates.models import GoldDate, Rebuild
from stages.dates.rebuild.carve import STUBS, Carving, add, carve, choose, prune, within, without
from stages.dates.rebuild.compare import Relation, read_relation
from stages.dates.rebuild.faults import blamed, lacked, one_line
from stages.dates.rebuild.held import base_tables, copy_stubs, has_clock_view, place_of
from stages.dates.rebuild.search import edges, estimates
from stages.dates.rebuild.session import BrokenOffError, Parsed, RebuildError, Session
from stages.dates.rebuild.shipped import Shipped
from stages.dates.rebuild.watched import Watched
from stages.stack.environments import Stack
from stages.suite.models import Task
from stages.suite.tables import first_line

PARSES = 12
"""How often a project that does not parse is changed before the task is given up."""
NEAR, OTHERS, FAR = 40, (-40, 366, -366, 731), 1461
"""Days from the first candidate to the probes: beside it, in other years if these do not build (a
leap day may be missed), and four years on where nothing has changed."""
ESTIMATES = 8
"""Days that are tried because gold's numbers point to them."""
BUILDS = 48
"""Builds of one task at most."""
SHOWN = 6
"""Names in a sentence before the rest is counted."""


class SpentError(Exception):
    """The task had all the builds that one may have."""


def prove(task: Task, gold: Path, found: GoldDate, stack: Stack, limit_s: float) -> Rebuild:
    """Find the shipped models that depend on the clock, and the days on which they give gold.

    Raises:
        BrokenOffError: the wall-clock limit was reached, or the machine broke it off.
    """
    shipped = Shipped(task.project)
    path = gold
    try:
        tables = base_tables(path)
        path = task.start_database
        always = has_clock_view(path)
    except duckdb.Error as error:
        return nothing(f"{path.name} cannot be read: {first_line(error, path)}")
    reads = shipped.reading_clock(always=always)
    names = {table.lower() for _, table in tables}
    held = {name for name in reads if any(node.names & names for node in shipped.nodes[name])}
    if not reads:
        return nothing("no model that the project ships reads the clock")
    if not held:
        return nothing(f"gold holds no table of the models that read the clock: {listed(reads)}")
    carving = choose(shipped, held, names)
    if not carving.targets:
        return nothing(f"cannot be rebuilt: {_reasons(carving)}")
    works = cache_root() / "work-rebuilds"
    works.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"{task.instance_id}-", dir=works))
    try:
        project = root / "project"
        carve(task.project, task.overlay, carving, project)
        with (
            Session(stack, project, task.database, found.date, limit_s=limit_s) as session,
            duckdb.connect() as connection,
        ):
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"ATTACH {quote_text(str(gold))} AS gold (READ_ONLY)")
            parsed, carving = _parse(session, shipped, carving, task.project, project, names)
            if carving.stubs:
                copy_stubs(connection, carving.stubs, tables, root / "stubs.duckdb")
                session.stub(root / "stubs.duckdb", STUBS)
            proof = Proof(session, connection, shipped, carving, reads, found)
            proof.watch(parsed, tables)
            return proof.run()
    except BrokenOffError:
        raise
    except (RebuildError, duckdb.Error) as error:
        told = one_line(str(error).replace(f"{root}/", ""))
        return nothing(f"cannot be rebuilt: {told}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def nothing(note: str) -> Rebuild:
    """A rebuild that found no model that depends on the clock, for the reason in `note`."""
    return Rebuild(clock_models=(), tried={}, low=None, high=None, note=note)


def listed(names: Iterable[str]) -> str:
    """Names in order, the first few of many."""
    ordered = sorted(names)
    more = f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else ""
    return ", ".join(ordered[:SHOWN]) + more


@dataclass
class Proof:
    """One task's builds so far, and what was learnt from them."""

    session: Session
    connection: duckdb.DuckDBPyConnection
    shipped: Shipped
    carving: Carving
    reads: set[str]
    found: GoldDate

    def __post_init__(self) -> None:
        self.watched: list[Watched] = []
        self.places: dict[str, tuple[str, str]] = {}
        self.days: list[datetime.date] = []
        self.builds = 0
        self.failure = ""
        """Why the first model that failed did."""

    def watch(self, parsed: dict[str, Parsed], tables: Sequence[tuple[str, str]]) -> None:
        """Take every target that is built as a relation and that gold holds as a table."""
        for name in sorted(self.carving.targets):
            node = parsed.get(name)
            if node is None or node.materialized == "ephemeral":
                continue
            place = place_of(tables, node.schema, node.alias)
            if place is not None:
                gold = read_relation(self.connection, "gold", *place)
                self.watched.append(Watched(self.connection, name, gold))
                self.places[name] = (node.schema, node.alias)

    def run(self) -> Rebuild:
        """Probe, look for days that reproduce gold, find their edges, and say what was found."""
        if not self.watched:
            return nothing(
                f"gold holds no table of the models that read the clock: {listed(self.reads)}"
            )
        fixed = self.carving.kept - self.reads
        if fixed:
            self._blame(self.session.build(self.found.date, fixed, [])[1])
            self.session.keep_base()
        self._probe()
        clock = [model for model in self.watched if model.depends]
        if not clock:
            names = listed(model.name for model in self.watched)
            if self._nothing_built():
                return nothing(f"cannot be rebuilt: {names} cannot be built ({self.failure})")
            return nothing(f"gives the same tables on {_days(self.days)}: {names}")
        self.watched = clock
        ranges: dict[str, tuple[datetime.date | None, datetime.date | None]] = {}
        spent = ""
        try:
            self._look()
            for model in clock:
                if (anchor := self._anchor(model)) is not None:
                    ranges[model.name] = edges(anchor, partial(self._holds, model))
        except SpentError:
            spent = f"not settled after {BUILDS} builds"
        return self._conclude(ranges, spent)

    def _probe(self) -> None:
        """Build on two days, and one of them twice; on more where that tells nothing."""
        self._at(self.found.date)
        self._try(NEAR)
        for offset in OTHERS:
            lacking = [model for model in self.watched if len(model.good_days()) < 2]
            if not lacking or (self._nothing_built() and "Compilation Error" in self.failure):
                break
            self._try(offset)
        again = self._again()
        for model in self.watched:
            model.learn(again.get(model.name))
        unmoved = [model for model in self.watched if not model.depends]
        if unmoved:
            moved, self.watched = [m for m in self.watched if m.depends], unmoved
            self._try(FAR)
            for model in unmoved:
                model.learn(again.get(model.name))
            self.watched = [*moved, *unmoved]

    def _nothing_built(self) -> bool:
        return not any(model.good_days() for model in self.watched)

    def _again(self) -> dict[str, Relation]:
        """A second build of the first day on which each model could be built."""
        day = next(
            (day for day in self.days if any(day in m.good_days() for m in self.watched)), None
        )
        if day is None:
            return {}
        built = self._build(day, self.watched)
        return {
            model.name: relation
            for model in self.watched
            if model.good_days()[:1] == [day] and (relation := built[model.name]) is not None
        }

    def _look(self) -> None:
        """Try the evidence's days, then those that gold's numbers point to."""
        bounds = [day for day in (self.found.low, self.found.high) if day is not None]
        for _ in range(ESTIMATES):
            pending = [model for model in self.watched if self._anchor(model) is None]
            pointed = [day for model in pending for day in self._pointed(model)]
            untried = [day for day in (*pointed, *bounds) if day not in self.days]
            if not pending or not untried:
                break
            self._at(untried[0])
        for model in self.watched:
            if self._anchor(model) is None:
                model.relax()

    def _pointed(self, model: Watched) -> list[datetime.date]:
        """Days to try next for a model: what its numbers say, and the days beside it."""
        one = datetime.timedelta(days=1)
        found = estimates(model.wanted(), model.seen())
        near = [day for first in found[:2] for day in (first, first - one, first + one)]
        return [day for day in [*found[:3], *near] if day not in self.days]

    def _anchor(self, model: Watched) -> datetime.date | None:
        days = [day for day in self.days if model.holds(day)]
        return self.found.date if self.found.date in days else min(days, default=None)

    def _holds(self, model: Watched, day: datetime.date) -> bool:
        self._at(day)
        return model.holds(day)

    def _try(self, offset: int) -> None:
        self._at(self.found.date + datetime.timedelta(days=offset))

    def _at(self, day: datetime.date) -> None:
        """Build every watched model on a day, once."""
        lacking = [model for model in self.watched if day not in model.built]
        if not lacking:
            return
        built = self._build(day, lacking)
        if day not in self.days:
            self.days.append(day)
        for model in lacking:
            model.built[day] = built[model.name]

    def _build(self, day: datetime.date, models: Iterable[Watched]) -> dict[str, Relation | None]:
        if self.builds >= BUILDS:
            raise SpentError
        self.builds += 1
        names = [model.name for model in models]
        needed = self.shipped.needed(names) & self.reads & self.carving.kept
        export = [(name, *self.places[name]) for name in names]
        try:
            out, failed = self.session.build(day, needed, export)
        except BrokenOffError:
            raise
        except RebuildError as error:
            self.failure = self.failure or one_line(self._shown(str(error)))
            return dict.fromkeys(names)
        self._blame(failed)
        place = f"build_{self.builds}"
        self.connection.execute(f"ATTACH {quote_text(str(out))} AS {place} (READ_ONLY)")
        return {
            name: None if name in failed else read_relation(self.connection, place, "main", name)
            for name in names
        }

    def _shown(self, message: str) -> str:
        """A message without the private project's path, which differs each time."""
        return message.replace(f"{self.session.project.parent}/", "")

    def _blame(self, failed: dict[str, str]) -> None:
        """Keep why the first model failed, one that was not only skipped for another's sake."""
        own = {name: why for name, why in failed.items() if why.lower() != "skipped"}
        if own and not self.failure:
            name = min(own)
            self.failure = f"{name}: {one_line(self._shown(own[name]))}"

    def _conclude(
        self,
        ranges: dict[str, tuple[datetime.date | None, datetime.date | None]],
        spent: str,
    ) -> Rebuild:
        notes = [spent]
        low, high = _common(ranges.values())
        without_match = sorted(model.name for model in self.watched if model.name not in ranges)
        if without_match and not spent:
            notes.append(f"on no day tried like gold: {listed(without_match)}")
        if ranges and low is not None and high is not None and low > high:
            told = ", ".join(f"{name} {_span(*days)}" for name, days in sorted(ranges.items()))
            notes.append(f"the models contradict each other: {told}")
            low = high = None
        broken = [
            day
            for day in self.days
            if low is not None
            and high is not None
            and low <= day <= high
            and any(m.name in ranges and day in m.built and not m.holds(day) for m in self.watched)
        ]
        if broken:
            notes.append(f"not like gold on {_days(broken)}, which lies between days that are")
            low = high = None
        if self.carving.stubs:
            notes.append(f"taken from gold, since nobody ships them: {listed(self.carving.stubs)}")
        notes += [
            f"{model.name}.{column} not compared: it {why}"
            for model in self.watched
            for column, why in sorted(model.left_out.items())[:SHOWN]
        ]
        if self.carving.dropped:
            notes.append(f"not built: {_reasons(self.carving)}")
        return Rebuild(
            clock_models=tuple(sorted(model.name for model in self.watched)),
            tried={day.isoformat(): self._finding(day) for day in sorted(self.days)},
            low=low,
            high=high,
            note="; ".join(note for note in notes if note),
        )

    def _finding(self, day: datetime.date) -> str:
        built = [model for model in self.watched if day in model.built]
        differing = [model for model in built if not model.holds(day)]
        if not differing:
            return "reproduces gold" if built else "no model of those that depend on it was built"
        same = len(built) - len(differing)
        told = [model.finding(day) for model in differing[:SHOWN]]
        if len(differing) > SHOWN:
            told.append(f"{len(differing) - SHOWN} more")
        return "; ".join([*told, *([f"{same} like gold"] if same else [])])


def _parse(
    session: Session,
    shipped: Shipped,
    carving: Carving,
    source: Path,
    project: Path,
    gold: set[str],
) -> tuple[dict[str, Parsed], Carving]:
    """Parse the private project; what dbt misses is added, a model that it blames left out."""
    for _ in range(PARSES):
        try:
            return session.parse(), carving
        except BrokenOffError:
            raise
        except RebuildError as error:
            missing, name = lacked(str(error)), blamed(str(error))
            more = within(shipped, carving, missing, gold) if missing else None
            if more is not None:
                add(source, project, shipped, carving, more)
                carving = more
                continue
            if name is None or name not in carving.kept:
                raise
            carving = without(shipped, carving, name, one_line(str(error)))
            if not carving.targets:
                raise
            prune(project, carving)
    raise RebuildError(f"does not parse after {PARSES} changes")


def _common(
    ranges: Iterable[tuple[datetime.date | None, datetime.date | None]],
) -> tuple[datetime.date | None, datetime.date | None]:
    """The days that all ranges share."""
    spans = list(ranges)
    lows = [low for low, _ in spans if low is not None]
    highs = [high for _, high in spans if high is not None]
    return max(lows, default=None), min(highs, default=None)


def _reasons(carving: Carving) -> str:
    told = [f"{name} ({why})" for name, why in sorted(carving.dropped.items())]
    more = [f"{len(told) - SHOWN} more"] if len(told) > SHOWN else []
    return "; ".join([*told[:SHOWN], *more])


def _days(days: Iterable[datetime.date]) -> str:
    return ", ".join(day.isoformat() for day in sorted(days))


def _span(low: datetime.date | None, high: datetime.date | None) -> str:
    return f"{low or '...'} to {high or '...'}"
