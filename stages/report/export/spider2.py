"""The official submission folder: `results_metadata.jsonl` and one database a task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from stages.common.errors import UserError
from stages.common.files import write_text
from stages.evaluate.apart import Apart
from stages.report.export.database import Gold, check_storage, copy_database
from stages.report.export.place import fresh_folder, write_notes
from stages.report.export.read import Note, Run, RunTrial, clean, first
from stages.run.models import POLICY
from stages.suite.models import AuditEntry
from stages.suite.storage import OLDEST

METADATA = "results_metadata.jsonl"


def write_spider2(run: Run, out: Path, trial: int = 0, storage: str = OLDEST) -> list[Note]:
    """Write the submission of one trial a task to the folder `out`; what is to be known of it.

    Every task of the run has its line, since the official script divides by the number of
    lines: one without a database scores 0. `storage` is a DuckDB storage version.

    Raises:
        UserError: no task has this trial, DuckDB knows no such storage version, or `out` holds
            something else.
    """
    fault = check_storage(storage)
    if fault:
        raise UserError(fault, where="--storage", remedy=f"the default is {OLDEST}")
    selected = {item.instance_id: item for item in run.trials if item.trial == trial}
    if not selected:
        numbers = sorted({item.trial for item in run.trials})
        raise UserError(
            f"no task has a trial {trial}",
            where=str(run.folder / "runs"),
            remedy=f"--trial takes one of: {', '.join(map(str, numbers)) or '(none)'}",
        )
    notes: list[Note] = []
    lines: list[str] = []
    with fresh_folder(out) as folder, Apart() as apart:
        for entry in run.tasks:
            chosen = selected.get(entry.instance_id)
            name = _file_name(entry, chosen)
            about = f"{entry.instance_id}/{trial}"
            for text in _put(apart, folder, entry, chosen, name, storage):
                notes.append(Note(about=about, text=clean(text)))
            line = {
                "instance_id": entry.instance_id,
                "answer_type": "file",
                "answer_or_path": name,
            }
            lines.append(json.dumps(line) + "\n")
        write_text(folder / METADATA, "".join(lines))
        write_notes(folder, list(_about(run, trial, selected)), notes)
    return notes


def _about(run: Run, trial: int, selected: dict[str, RunTrial]) -> Iterator[str]:
    judged = [item.verdict for item in selected.values() if item.verdict is not None]
    passed = sum(verdict.passed_officially is True for verdict in judged)
    yield f"suite {run.suite}, agent {run.agent}, model {run.model or 'none'}, trial {trial}"
    yield f"expected of the official script: {passed} of {len(run.tasks)} tasks passed"
    resolved = sum(verdict.passed is True for verdict in judged) - passed
    if resolved:
        yield f"{resolved} more pass through a resolution, which the official script does not know"


def _file_name(entry: AuditEntry, chosen: RunTrial | None) -> str:
    """The database's own name: DuckDB's catalog is called after it."""
    given = chosen.result.database if chosen and chosen.result else ""
    if not given and entry.evaluation:
        given = entry.evaluation.gold
    return PurePosixPath(given).name or f"{entry.instance_id}.duckdb"


def _gold(entry: AuditEntry) -> Gold | None:
    if entry.gold_database is None or entry.evaluation is None:
        return None
    return Gold(entry.gold_database, entry.evaluation.condition_tabs)


def _put(
    apart: Apart,
    folder: Path,
    entry: AuditEntry,
    chosen: RunTrial | None,
    name: str,
    storage: str,
) -> Iterator[str]:
    """Write one task's database; a sentence on whatever is not as it should be."""
    if chosen is None:
        yield "not run: no database"
        return
    if chosen.folder is None or chosen.result is None:
        yield f"{chosen.note}: no database"
        return
    instance_id = entry.instance_id
    if Path(instance_id).name != instance_id:
        yield "its instance id is no name of a folder: no database"
        return
    if not POLICY[chosen.result.status].score:
        yield f"ended with {chosen.result.status}, which says nothing of the agent: no database"
        return
    target = folder / instance_id / name
    try:
        database = chosen.result.database
        left = apart.call(copy_database, chosen.folder, database, target, storage, _gold(entry))
    except Exception as error:
        target.unlink(missing_ok=True)
        yield f"no database: {first(error)}"
        return
    yield from left
    verdict = chosen.verdict
    if verdict and verdict.passed and not verdict.passed_officially:
        yield f"passes only through {', '.join(verdict.resolutions)}: officially it fails"
