"""How right and how fast gold dates are found: `python -m benchmarks.dates [--count N]`.

Prints how many generated databases of each kind are dated right, and, where real databases lie
at `$SPIDER2_SHARED/spider2/gold`, each one's date beside what a simple rule would have said,
and what dating all of them costs, measured against one plain scan of the same files.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from rich.table import Table

from benchmarks.gold.build import PINNED, Count, build_all, by_kind
from benchmarks.ratio import Ratio
from stages.common.console import make_console
from stages.common.sql import quote
from stages.dates.find import SUFFIXES, find_gold_date, find_in_gold

ROUNDS = 5


def measure(rounds: int = ROUNDS) -> list[Ratio]:
    """Dating the real databases against scanning them; nothing where they are not at hand.

    Both open each file once, by the same call; the scan reads every column of every row of
    every base table once, and hands back one number a table. They take turns, and each one's
    fastest round counts: what else the machine does can only slow one down.
    """
    gold = real_gold()
    if gold is None:
        return []
    works: tuple[Callable[[], object], ...] = (
        lambda: find_in_gold(gold, PINNED),
        lambda: [plain_scan(path) for path in databases(gold)],
    )
    taken: list[list[tuple[float, float]]] = [[], []]
    for _ in range(rounds):
        for work, seconds in zip(works, taken, strict=True):
            seconds.append(_seconds(work))
    what = f"dating {len(databases(gold))} databases to one plain scan of them"
    return [
        Ratio(
            what=f"{what}, {clock}",
            part=min(seconds[i] for seconds in taken[0]),
            whole=min(seconds[i] for seconds in taken[1]),
            unit="s",
        )
        for i, clock in enumerate(("time", "processor time"))
    ]


def real_gold() -> Path | None:
    """The folder of real gold databases, where `$SPIDER2_SHARED` names one."""
    shared = os.environ.get("SPIDER2_SHARED")
    gold = Path(shared) / "spider2" / "gold" if shared else None
    return gold if gold is not None and gold.is_dir() else None


def databases(gold: Path) -> list[Path]:
    """Every database below a folder of gold, one folder a task."""
    return sorted(path for path in gold.glob("*/*") if path.suffix in SUFFIXES)


def plain_scan(path: Path) -> int:
    """Read every column of every row of every base table, once: a hash of each row.

    Gives the number of tables.
    """
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"
        ).fetchall()
        for schema, name in tables:
            connection.execute(
                f"SELECT bit_xor(hash(t)) FROM {quote(schema, name)} AS t"
            ).fetchall()
    return len(tables)


def simple_rule(path: Path, today: datetime.date) -> datetime.date:
    """The rule that one would try first, to be compared with.

    The day after the latest `date_day` of any table whose name holds spine or calendar; today
    where there is none.
    """
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = connection.execute(
            "SELECT DISTINCT c.schema_name, c.table_name FROM duckdb_columns() c "
            "JOIN duckdb_tables() t USING (table_oid) WHERE lower(c.column_name) = 'date_day' "
            "AND regexp_matches(c.table_name, 'spine|calendar', 'i')"
        ).fetchall()
        ends = [
            connection.execute(f"SELECT max(date_day)::DATE FROM {quote(*name)}").fetchone()
            for name in tables
        ]
    days = [row[0] for row in ends if row and row[0]]
    return max(days) + datetime.timedelta(days=1) if days else today


def _seconds(work: Callable[[], object]) -> tuple[float, float]:
    """On the clock, and of the processors."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def _print_real(gold: Path) -> None:
    today = datetime.date.today()
    table = Table("task", "found", "status", "low", "high", "finders", "simple rule")
    for path in databases(gold):
        found = find_gold_date(path, PINNED)
        simple = simple_rule(path, today)
        table.add_row(
            path.parent.name,
            found.date.isoformat(),
            found.status,
            str(found.low or ""),
            str(found.high or ""),
            ", ".join(dict.fromkeys(item.rule for item in found.evidence)),
            "today" if simple == today else simple.isoformat(),
        )
    make_console().print(table)


def _print_generated(count: int, seed: int) -> None:
    table = Table(*Count.model_fields)
    with TemporaryDirectory() as folder:
        for kind in by_kind(build_all(Path(folder), count, seed)):
            table.add_row(*kind.row())
    make_console().print(table)


def main() -> None:
    """Print all three."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dates", description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="databases to generate")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    _print_generated(given.count, given.seed)
    gold = real_gold()
    if gold is not None:
        _print_real(gold)
        for ratio in measure():
            make_console().print(
                f"{ratio.what}: {ratio.value:.2f} ({ratio.part:.2f} / {ratio.whole:.2f} s)"
            )


if __name__ == "__main__":
    main()
