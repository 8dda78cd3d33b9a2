"""Lays the official suite out: `python -m stages.suite.install --source … --start … --gold …`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import duckdb
from rich.console import Console
from rich.table import Table

from stages.common.console import make_console
from stages.common.errors import UserError, main
from stages.common.files import Record
from stages.suite.bundle import Bundle, contents, open_bundle
from stages.suite.checkout import Exported, export
from stages.suite.layout import EVALUATIONS, INSTRUCTIONS, read_evaluations, read_instructions
from stages.suite.models import Evaluation
from stages.suite.profile import locate_database
from stages.suite.storage import OLDEST, rewrite
from stages.suite.tables import first_line, opened, relations, resolve

TARGET = Path("data/spider2-dbt")
STAGING = ".installing"
PARTS = ("examples", "evaluation_suite")
SWAPPED = 0.8
"""Share of the telling tasks from which on START and GOLD count as exchanged."""
SHOWN = 20


class Laid(Record):
    """What a bundle of databases gave."""

    databases: dict[str, tuple[str, ...]]
    """Instance id to the databases that were laid, relative to the task's folder."""
    unknown: tuple[str, ...]
    """Folders of no task of the suite, ignored."""
    doubled: tuple[str, ...]
    """Databases left out because one of the same name lies less deep in the task's folder."""
    rewritten: int = 0
    """Databases rewritten because their storage format was newer than every stack reads."""
    too_new: tuple[str, ...] = ()
    """Databases that would have to be rewritten, and cannot."""


class Installed(Record):
    """What an installation laid where."""

    instance_ids: tuple[str, ...]
    exported: Exported
    start: Laid
    gold: Laid
    without_project: tuple[str, ...]


def install(source: Path, start: Path, gold: Path, target: Path) -> Installed:
    """Lay `examples/` and `evaluation_suite/gold/` below `target`, in place of older ones.

    `source` is a clone of Spider2 (see `checkout.export`); `start` and `gold` are the official
    zips or folders of their shape (see `bundle`). Everything is written beside and renamed
    into place at the end, so whatever breaks this off leaves the older installation. Raises
    `UserError` for parts that are absent, damaged, hostile, or given in each other's place.
    """
    if start.resolve() == gold.resolve():
        raise UserError("START and GOLD are the same", where=str(start), remedy="give both files")
    staging = target / STAGING
    _recover(target, staging)
    staging.mkdir(parents=True)
    try:
        installed = _stage(source, start, gold, staging)
        _exchange(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return installed


def _stage(source: Path, start: Path, gold: Path, staging: Path) -> Installed:
    examples, grading = staging / "examples", staging / "evaluation_suite" / "gold"
    exported = export(source, staging)
    with open_bundle(start, "START") as first, open_bundle(gold, "GOLD") as second:
        instructions, config = examples / INSTRUCTIONS, grading / EVALUATIONS
        if not instructions.is_file():
            _take(first, INSTRUCTIONS, instructions)
        _take(second, EVALUATIONS, config)
        ids = tuple(read_instructions(instructions))
        evaluations = read_evaluations(config)
        laid_start = _rewrite(_lay(first, ids, examples, at_profile=True), examples)
        laid_gold = _lay(second, ids, grading, at_profile=False)
    _check_not_exchanged(evaluations, examples, laid_start, grading, laid_gold)
    return Installed(
        instance_ids=ids,
        exported=exported,
        start=laid_start,
        gold=laid_gold,
        without_project=tuple(
            key for key in ids if not (examples / key / "dbt_project.yml").is_file()
        ),
    )


def _take(bundle: Bundle, name: str, target: Path) -> None:
    """Copy the bundle's file of that name, where it has one."""
    found = contents(bundle, set()).named(name)
    if found is not None:
        bundle.copy(found, target)


def _lay(bundle: Bundle, ids: tuple[str, ...], root: Path, *, at_profile: bool) -> Laid:
    """Copy each task's databases into its folder below `root`.

    A database goes to the top of the task's folder; with `at_profile`, to where the project's
    profile looks for a file of that name.
    """
    sorted_out = contents(bundle, set(ids))
    if not sorted_out.databases:
        held = ", ".join(sorted_out.unknown[:SHOWN]) or "no database"
        raise UserError(
            f"{bundle.label} has no database in a folder named after a task; it holds {held}",
            remedy="give the official zip, or a folder with one folder a task",
        )
    laid: dict[str, tuple[str, ...]] = {}
    doubled: list[str] = []
    for key, databases in sorted(sorted_out.databases.items()):
        wanted = locate_database(root / key).path if at_profile else None
        places: dict[str, str] = {}
        for inner, name in sorted(databases.items(), key=lambda item: item[0].count("/")):
            file = PurePosixPath(inner).name
            place = wanted.as_posix() if wanted and wanted.name == file else file
            if place in places:
                doubled.append(name)
            else:
                places[place] = name
        for place, name in places.items():
            bundle.copy(name, root / key / place)
        laid[key] = tuple(sorted(places))
    return Laid(databases=laid, unknown=sorted_out.unknown, doubled=tuple(doubled))


def _rewrite(laid: Laid, root: Path) -> Laid:
    """Bring start databases into a format that each stack opens; gold is read by the newest."""
    rewritten, too_new = 0, []
    for key, names in laid.databases.items():
        for name in names:
            try:
                rewritten += rewrite(root / key / name)
            except duckdb.Error as error:
                too_new.append(f"{key}/{name} ({first_line(error, root / key / name)})")
    return laid.model_copy(update={"rewritten": rewritten, "too_new": tuple(too_new)})


def _check_not_exchanged(
    evaluations: dict[str, Evaluation], examples: Path, start: Laid, grading: Path, gold: Laid
) -> None:
    """Raise where the graded tables are in START and not in GOLD, for nearly all tasks."""
    right, wrong = 0, 0
    for key, evaluation in evaluations.items():
        tables = evaluation.condition_tabs or ()
        if not tables or key not in start.databases or key not in gold.databases:
            continue
        in_start = any(_holds(examples / key / name, tables) for name in start.databases[key])
        in_gold = any(_holds(grading / key / name, tables) for name in gold.databases[key])
        right += in_gold and not in_start
        wrong += in_start and not in_gold
    if wrong and wrong >= SWAPPED * (right + wrong):
        raise UserError(
            f"START and GOLD look exchanged: of {wrong} tasks START holds the graded tables "
            f"and GOLD does not, the other way round of {right}",
            remedy="give DBT_start_db.zip as START and dbt_gold.zip as GOLD",
        )


def _holds(path: Path, tables: tuple[str, ...]) -> bool:
    try:
        with opened(path) as connection:
            among = relations(connection)
    except duckdb.Error:
        return False  # the audit says what is wrong with it
    return all(resolve(name, among) is not None for name in tables)


def _recover(target: Path, staging: Path) -> None:
    """Take back what an installation that was killed had put aside, and clear its remains."""
    for part in PARTS:
        aside = staging / f"previous_{part}"
        if aside.exists() and not (target / part).exists():
            aside.rename(target / part)
    shutil.rmtree(staging, ignore_errors=True)


def _exchange(staging: Path, target: Path) -> None:
    """Rename the staged parts into place; if one fails, all the older ones come back."""
    try:
        for part in PARTS:
            if (target / part).exists():
                (target / part).rename(staging / f"previous_{part}")
            (staging / part).rename(target / part)
    except BaseException:
        for part in PARTS:
            aside = staging / f"previous_{part}"
            if aside.exists():
                shutil.rmtree(target / part, ignore_errors=True)
                aside.rename(target / part)
        raise


def track(target: Path) -> None:
    """Put the installed parts under DVC (`dvc add`); raises `UserError` with DVC's message."""
    paths = [str(target / part) for part in PARTS]
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "add", *paths], capture_output=True, text=True
    )
    if done.returncode:
        message = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UserError(
            f"the suite is installed, but dvc add failed: {' '.join(message[-3:])}",
            where=str(target),
            remedy="mend that and run it again, or leave it out with --no-dvc",
        )


def show(console: Console, installed: Installed, target: Path) -> None:
    """Print what was laid where, and everything that was left out or is missing."""
    ids, start, gold = installed.instance_ids, installed.start, installed.gold
    both = [key for key in ids if key in start.databases and key in gold.databases]
    console.print(f"installed in {target}", markup=False, highlight=False, soft_wrap=True)
    table = Table("part", "laid")
    table.add_row("tasks with an instruction", str(len(ids)))
    table.add_row("project files", str(installed.exported.files))
    table.add_row("start databases", str(sum(map(len, start.databases.values()))))
    table.add_row("gold databases", str(sum(map(len, gold.databases.values()))))
    table.add_row("tasks with start and gold", str(len(both)))
    console.print(table)
    _list(console, "tasks without a project", installed.without_project)
    _list(console, "tasks without a start database", _without(ids, start))
    _list(console, "tasks without gold", _without(ids, gold))
    _list(console, "folders of no task in START, ignored", start.unknown)
    _list(console, "folders of no task in GOLD, ignored", gold.unknown)
    _list(console, "second databases of one name, left out", start.doubled + gold.doubled)
    if start.rewritten:
        console.print(
            f"start databases rewritten in storage format {OLDEST}, which every stack opens: "
            f"{start.rewritten}",
            highlight=False,
        )
    _list(console, "warning: start databases that cannot be read or rewritten", start.too_new)
    _list(console, "warning: files that SOURCE lacks", installed.exported.unreadable, SHOWN)
    _list(console, "warning: submodules that SOURCE lacks", installed.exported.submodules)
    if installed.exported.databases_left_out:
        number = installed.exported.databases_left_out
        console.print(f"databases among SOURCE's projects, replaced by START's: {number}")


def _without(ids: tuple[str, ...], laid: Laid) -> tuple[str, ...]:
    return tuple(sorted(key for key in ids if key not in laid.databases))


def _list(console: Console, what: str, names: tuple[str, ...], limit: int = 100) -> None:
    if names:
        more = f" and {len(names) - limit} more" if len(names) > limit else ""
        listed = ", ".join(names[:limit]) + more
        console.print(f"{what} ({len(names)}): {listed}", markup=False, soft_wrap=True)


def _path(text: str) -> Path:
    """A path from the command line; an unset variable of `make spider2` is no path."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; make spider2 SOURCE=… START=… GOLD=…")
    return Path(text)


def run(arguments: list[str] | None = None) -> None:
    """Parse the command line, install, show what was laid, and track it with DVC."""
    parser = argparse.ArgumentParser(prog="python -m stages.suite.install", description=__doc__)
    parser.add_argument("--source", type=_path, required=True, help="a clone of xlang-ai/Spider2")
    parser.add_argument("--start", type=_path, required=True, help="DBT_start_db.zip, or a folder")
    parser.add_argument("--gold", type=_path, required=True, help="dbt_gold.zip, or a folder")
    parser.add_argument("--target", type=Path, default=TARGET, help="default: %(default)s")
    parser.add_argument("--no-dvc", action="store_true", help="leave out `dvc add`")
    given = parser.parse_args(arguments)
    installed = install(given.source, given.start, given.gold, given.target)
    show(make_console(), installed, given.target)
    if not given.no_dvc:
        track(given.target)


if __name__ == "__main__":
    main(run)
