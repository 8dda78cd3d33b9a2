"""Builds a bundled suite's databases: the start files, and gold under each task's build date."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stages.common.errors import UnknownChoiceError, UserError
from stages.common.files import (
    cache_root,
    copy_tree,
    digest_file,
    digest_text,
    digest_tree,
    walk,
)
from stages.common.links import link_tree
from stages.common.params import SuiteParams
from stages.stack.environments import Stack, ensure_stack, stack_lock
from stages.stack.host import run_dbt
from stages.suite.databases import build_start
from stages.suite.sources import BuildSources, read_sources

FORMAT = "1"
"""Raised when the same inputs would be built to other databases; never for a new DuckDB."""

WORKERS = 2
TAIL_LINES = 25
LEFTOVERS = ("target", "logs", ".user.yml")
"""What dbt leaves in a project that someone tried by hand: no part of the task."""

DBT_BUILD = [
    "build",
    *("--resource-type", "model"),
    *("--resource-type", "seed"),
    *("--resource-type", "snapshot"),
]


def build_databases(suite: SuiteParams) -> dict[str, str]:
    """Build every task's databases below `suite.built`; returns instance id to start digest.

    `start/<task>/` gets the DuckDB files as the project's folder wants them, `gold/<task>/` the
    one that the known solution makes of them. What was built before from the same inputs is
    linked from the cache, so its bytes stay. A start digest covers the task's `sources/` folder
    and the builder's format, because DuckDB files are not the same bytes twice.

    Prints one line a task. Raises `UserError` naming each task that failed, after the others
    are finished.
    """
    folders = suite.root / "sources"
    tasks = [path.name for path in sorted(folders.glob("*")) if path.is_dir()]
    if not tasks:
        raise UserError(
            "the suite has no task to build",
            where=str(folders),
            remedy="add a folder with a build.yaml, or set `sources: false` for this suite",
        )
    _drop_removed(suite, tasks)
    lock = stack_lock(suite.gold_stack)
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        jobs = {task: pool.submit(_build_task, suite, task, lock) for task in tasks}
    digests: dict[str, str] = {}
    failures: list[UserError] = []
    for task, job in jobs.items():
        try:
            digests[task] = job.result()
        except UserError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise UserError(
            f"{len(failures)} of {len(tasks)} tasks cannot be built:\n\n"
            + "\n\n".join(str(failure) for failure in failures)
        )
    return digests


def _build_task(suite: SuiteParams, task: str, lock: Path) -> str:
    folder = suite.root / "sources" / task
    project, solution = suite.examples / task, suite.solutions / task
    for path, what in ((project, "project"), (solution, "solution")):
        if not path.is_dir():
            raise UserError(f"task {task} has no {what}", where=str(path), remedy="add the folder")
    sources = read_sources(folder)
    start_digest = digest_text("start", FORMAT, digest_tree(folder))
    gold_digest = digest_text(
        "gold",
        FORMAT,
        start_digest,
        digest_tree(project, skip=_leftovers(sources)),
        digest_tree(solution),
        sources.build_date.isoformat(),
        _lock_digest(lock),
    )
    cache = cache_root() / "suite"
    start, gold = cache / start_digest / "start", cache / gold_digest / "gold"
    built = []
    if not start.is_dir():
        _publish(start, lambda place: build_start(sources, folder, place))
        built.append("start")
    if not gold.is_dir():
        stack = ensure_stack(suite.gold_stack, lock)
        _publish(gold, lambda place: _build_gold(stack, sources, project, solution, start, place))
        built.append("gold")
    _show(start, suite.built / "start" / task)
    _show(gold, suite.built / "gold" / task)
    print(f"built {task} ({', '.join(built)})" if built else f"kept {task}", flush=True)
    return start_digest


def _leftovers(sources: BuildSources) -> list[str]:
    names = [Path(database.file).name for database in sources.databases]
    return [*LEFTOVERS, *names, *(f"{name}.wal" for name in names)]


def _lock_digest(lock: Path) -> str:
    if not lock.is_file():
        choices = [path.stem for path in lock.parent.glob("*.lock")]
        raise UnknownChoiceError("stack", lock.stem, choices, where="suite.gold_stack")
    return digest_file(lock)


def _build_gold(
    stack: Stack, sources: BuildSources, project: Path, solution: Path, start: Path, place: Path
) -> None:
    works = cache_root() / "work-suite"
    works.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{project.name}-", dir=works))
    try:
        copy_tree(project, work, skip=_leftovers(sources))
        copy_tree(solution, work)
        copy_tree(start, work)
        done = run_dbt(stack, work, DBT_BUILD, day=sources.build_date)
        if done.returncode != 0:
            tail = "\n".join(done.stdout.rstrip().splitlines()[-TAIL_LINES:])
            raise UserError(
                f"task {project.name}: dbt cannot build the solution on {sources.build_date} "
                f"with stack {stack.name!r}:\n{tail}",
                where=str(solution),
                remedy="mend the solution or the project",
            )
        database = work / sources.database
        if database.with_name(f"{database.name}.wal").exists():
            raise UserError(
                f"task {project.name}: dbt left a write-ahead log beside {database.name}",
                where=str(project),
                remedy="let no hook switch DuckDB's checkpoint off",
            )
        shutil.copyfile(database, place / sources.gold_name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder beside `target` and rename it, so that a cache entry is whole or absent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(place)
        for path in walk(place):
            # The files are linked into the workspace: an edit there must not reach the cache.
            path.chmod(0o444)
        place.chmod(0o755)
        place.rename(target)
    except OSError:
        # Another process may have published the same content first.
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _show(cached: Path, target: Path) -> None:
    """Make `target` the links to a cache entry, replacing what was there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    place.chmod(0o755)
    link_tree(cached, place)
    shutil.rmtree(target, ignore_errors=True)
    place.rename(target)


def _drop_removed(suite: SuiteParams, tasks: list[str]) -> None:
    for part in ("start", "gold"):
        for path in (suite.built / part).glob("*"):
            if path.name not in tasks:
                shutil.rmtree(path)
