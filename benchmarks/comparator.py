"""`python -m benchmarks.comparator`: the official comparison against the plain rules.

Times cover the reading of both tables. Where the plain rules would take hours, they are
measured on fewer rows and scaled in proportion to the rows, which is less than they would take.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from benchmarks.ratio import Ratio, print_ratios
from stages.common.files import CODE_ROOT
from stages.common.sql import quote
from stages.evaluate.apart import Apart
from stages.evaluate.databases import open_database
from stages.evaluate.official import plain
from stages.evaluate.official.compare import compare
from stages.evaluate.score import evaluate_database
from stages.evaluate.table import open_table
from stages.suite.layout import read_evaluations
from stages.suite.tables import opened, relations

COLUMNS = 15
SIZES = (10_000, 100_000, 1_000_000)
MEASURED_UP_TO = 100_000
"""Rows up to which the plain rules are run; beyond, they are scaled."""

HUGE = 5_000_000
LIMIT = 2_000_000_000
"""Bytes that a comparison of `HUGE` rows may take."""

MIXED = (
    "i",
    "(h % 50000)::INTEGER",
    "CASE WHEN h % 20 = 0 THEN NULL ELSE (h % 900)::SMALLINT END",
    "(h % 10000000) / 100.0",
    "((h % 1000003) / 7.0)::DOUBLE",
    "((h % 100000) / 100.0)::DECIMAL(12,2)",
    "CASE WHEN h % 10 = 0 THEN NULL ELSE ((h % 77777) / 77777.0)::DOUBLE END",
    "'customer ' || (h % 40000)",
    "md5(i::VARCHAR)",
    "CASE h % 3 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' END",
    "DATE '2020-01-01' + (h % 1500)::INTEGER",
    "TIMESTAMP '2020-01-01' + to_seconds((h % 90000000)::BIGINT)",
    "h % 2 = 0",
    "(h % 13)::TINYINT",
    "((h % 999983) / 3.0)::DOUBLE",
)
"""Fifteen columns of the kinds that graded tables have; `h` is a hash of the row's number."""

NOISY = tuple(
    f"(hash(i, {at}) % 1000 + 0.3 + hash({at}, i) % 4000 / 10000.0)" for at in range(COLUMNS)
)
"""Numbers that stay on their side of 10, 100 and 1000 when a little is added."""

NOISE = "(hash(i) % 9 - 4.0) / 1000"

SITUATIONS = {
    "passes": (MIXED, MIXED),
    "fails in the last column": (
        MIXED,
        (*MIXED[:-1], f"CASE i WHEN 77 THEN -1.0 ELSE {MIXED[-1]} END"),
    ),
    "sorted by text": (NOISY, tuple(f"{cell} + {NOISE}" for cell in NOISY)),
}


def make(folder: Path, situation: str, rows: int) -> tuple[Path, Path]:
    """Two databases with a table `t` each; the result's rows are in another order."""
    paths = folder / "gold.duckdb", folder / "result.duckdb"
    for path, cells, order in zip(paths, SITUATIONS[situation], ("i", "hash(i + 1)"), strict=True):
        path.unlink(missing_ok=True)
        listed = ", ".join(f"{cell} AS c{at}" for at, cell in enumerate(cells))
        with duckdb.connect(str(path), config={"memory_limit": "4GB"}) as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(
                f"CREATE TABLE t AS SELECT {listed} FROM "
                f"(SELECT i, hash(i) AS h FROM range({rows}) r(i)) ORDER BY {order}"
            )
    return paths


def ours(gold: Path, result: Path) -> bool:
    """What the pipeline does."""
    with open_database(gold) as one, open_database(result) as other:
        return compare(open_table(one, "t"), open_table(other, "t"), (), True).matched


def plainly(gold: Path, result: Path) -> bool:
    """What the published rules do."""
    frames = []
    for path in (gold, result):
        with duckdb.connect(str(path), read_only=True) as connection:
            frames.append(connection.execute("SELECT * FROM t").fetchdf())
    return plain.matches(frames[0], frames[1], (), True)


def seconds(judge: Callable[[Path, Path], bool], paths: tuple[Path, Path], expected: bool) -> float:
    """How long a judgment takes; it has to be the right one."""
    started = time.perf_counter()
    found = judge(*paths)
    taken = time.perf_counter() - started
    if found is not expected:
        raise AssertionError(f"{judge.__name__} says {found}")
    return taken


def measure_speed() -> Iterator[Ratio]:
    """How much longer the plain rules take, for each situation and number of rows."""
    with TemporaryDirectory(prefix="comparator-") as folder:
        for situation in SITUATIONS:
            expected = not situation.startswith("fails")
            for rows in SIZES:
                paths = make(Path(folder), situation, rows)
                taken = min(seconds(ours, paths, expected) for _ in range(2))
                what = f"plain rules to ours, {rows:,} x {COLUMNS}, {situation}"
                if rows <= MEASURED_UP_TO:
                    measured, at = seconds(plainly, paths, expected), rows
                else:
                    what += f" (plain: {rows // at} times {at:,} rows)"
                yield Ratio(what=what, part=measured * rows / at, whole=taken, unit="s")


def measure_memory() -> Iterator[Ratio]:
    """Peak memory of a process that compares `HUGE` rows, against what it may take.

    A process's peak counts from its parent's size on; so the databases are made apart.
    """
    with TemporaryDirectory(prefix="comparator-") as folder, Apart() as apart:
        for situation in SITUATIONS:
            paths = apart.call(make, Path(folder), situation, HUGE)
            command = [sys.executable, "-m", "benchmarks.comparator", "--peak", *map(str, paths)]
            started = time.perf_counter()
            told = subprocess.run(
                command, cwd=CODE_ROOT, capture_output=True, text=True, check=True
            ).stdout
            taken = time.perf_counter() - started
            what = f"memory at {HUGE:,} x {COLUMNS}, {situation} ({taken:.0f} s), to 2 GB"
            yield Ratio(what=what, part=int(told), whole=LIMIT, unit="bytes")


def measure_real(shared: Path) -> Iterator[Ratio]:
    """Evaluating the real gold databases against themselves, to one plain scan of the files."""
    gold = shared / "spider2" / "gold"
    evaluations = read_evaluations(gold / "spider2_eval.jsonl")
    files = {
        folder.name: next(folder.glob("*.duckdb"))
        for folder in sorted(gold.iterdir())
        if folder.is_dir()
    }
    rounds = []
    for _ in range(4):  # The first round fills the file cache and does not count.
        times = [time.perf_counter()]
        for path in files.values():
            scan(path)
        times.append(time.perf_counter())
        for key, path in files.items():
            tables = evaluate_database(path, None, path, None, evaluations[key])
            if not all(table.official for table in tables):
                raise AssertionError(f"{key}: {tables}")
        times.append(time.perf_counter())
        rounds.append([later - earlier for earlier, later in pairwise(times)])
    scanned, evaluated = (min(taken) for taken in zip(*rounds[1:], strict=True))
    what = f"evaluating {len(files)} real databases against themselves to a plain scan of them"
    yield Ratio(what=what, part=evaluated, whole=scanned, unit="s")


def scan(path: Path) -> None:
    """Read every row of every table of a database."""
    with opened(path) as connection:
        for relation in relations(connection):
            if not relation.is_view:
                name = quote(relation.table_schema, relation.name)
                connection.execute(f"SELECT * FROM {name}").fetchdf()


def measure() -> Iterator[Ratio]:
    """All ratios of the comparator; those of real databases where SPIDER2_SHARED has them."""
    yield from measure_speed()
    yield from measure_memory()
    shared = os.environ.get("SPIDER2_SHARED")
    if shared and (Path(shared) / "spider2" / "gold").is_dir():
        yield from measure_real(Path(shared))


@contextmanager
def _peak() -> Iterator[None]:
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak if sys.platform == "darwin" else peak * 1024)


def main() -> None:
    """Measure and print; with `--peak`, compare two databases and print this process's bytes."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--peak", nargs=2, type=Path, metavar=("GOLD", "RESULT"))
    parser.add_argument(
        "--only", choices=("speed", "memory", "real"), help="one of the three parts"
    )
    given = parser.parse_args()
    if given.peak:
        with _peak():
            ours(*given.peak)
        return
    parts = {"speed": measure_speed, "memory": measure_memory, None: measure}
    if given.only == "real":
        print_ratios(list(measure_real(Path(os.environ["SPIDER2_SHARED"]))))
    else:
        print_ratios(list(parts[given.only]()))


if __name__ == "__main__":
    main()
