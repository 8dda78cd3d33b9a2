"""Rebuilds every task of a suite, two at a time; a finding is kept by the digest of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from stages.common.files import (
    CODE_ROOT,
    cache_root,
    digest_file,
    digest_text,
    digest_tree,
    read_json,
    walk,
    write_json,
)
from stages.dates.models import GoldDate, Rebuild
from stages.dates.rebuild.carve import LEFTOVERS
from stages.dates.rebuild.prove import nothing, prove
from stages.dates.rebuild.session import SESSIONS, BrokenOffError
from stages.dates.rebuild.weigh import weigh
from stages.stack.environments import ensure_stack, stack_lock
from stages.suite.models import AuditEntry, Task

WORKERS = 2
CODE = (
    "dates/rebuild",
    "dates/models.py",
    "common/sql.py",
    "stack/clock.py",
    "stack/host.py",
)
"""The code that decides what a rebuild finds, below stages/."""


def prove_dates(
    dates: Mapping[str, GoldDate],
    tasks: Sequence[Task],
    audit: Sequence[AuditEntry],
    stack_name: str,
    limit_s: float,
) -> dict[str, GoldDate]:
    """Weigh each date against a rebuild, where the task can be run and has gold.

    A task that cannot be rebuilt, for whatever reason, gets a note, and the others go on.
    """
    gold = {entry.instance_id: entry.gold_database for entry in audit}
    jobs: dict[str, Future[Rebuild]] = {}
    lock = stack_lock(stack_name)
    proved = dict(dates)
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        for task in tasks:
            name, database = task.instance_id, gold.get(task.instance_id)
            if name in dates and database is not None and database.is_file():
                jobs[name] = pool.submit(
                    rebuild_once, task, database, dates[name], stack_name, lock, limit_s
                )
        try:
            for name, job in jobs.items():
                proved[name] = weigh(dates[name], job.result())
        except BaseException:
            SESSIONS.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return proved


def rebuild_once(
    task: Task, gold: Path, found: GoldDate, stack_name: str, lock: Path, limit_s: float
) -> Rebuild:
    """A task's rebuild from the cache, or carried out and kept."""
    key = digest_text(
        digest_file(lock),
        _code_digest(),
        _project_digest(task.project),
        task.start_digest,
        task.database.as_posix(),
        digest_file(gold),
        *(str(day) for day in (found.date, found.low, found.high)),
    )
    place = cache_root() / "rebuilds" / f"{key}.json"
    if place.is_file():
        return Rebuild.model_validate(read_json(place))
    stack = ensure_stack(stack_name, lock)
    try:
        rebuild = prove(task, gold, found, stack, limit_s)
    except (BrokenOffError, OSError) as error:
        # Another moment, or more room on the disk, may do: not kept.
        return nothing(f"cannot be rebuilt: {error}")
    write_json(place, rebuild)
    return rebuild


def _project_digest(project: Path) -> str:
    databases = [path for path in walk(project) if path.suffix == ".duckdb"]
    return digest_tree(project, skip=LEFTOVERS, leave_out=databases)


@cache
def _code_digest() -> str:
    parts = []
    for name in CODE:
        path = CODE_ROOT / "stages" / name
        parts += [name, digest_tree(path, skip=LEFTOVERS) if path.is_dir() else digest_file(path)]
    return digest_text(*parts)
