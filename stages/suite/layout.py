"""Reads a suite in the official layout: instructions, evaluation config, task folders."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict

from stages.common.errors import UserError
from stages.common.files import Record, digest_file, digest_text, walk
from stages.common.params import SuiteParams
from stages.suite.jsonl import Line, read_lines
from stages.suite.models import Evaluation, Task
from stages.suite.profile import databases_in, locate_database

INSTRUCTIONS = "spider2-dbt.jsonl"
EVALUATIONS = "spider2_eval.jsonl"
FUNCTION = "duckdb_match"


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    gold: str
    condition_tabs: tuple[str, ...] | None = None
    condition_cols: tuple[tuple[int, ...] | None, ...] | None = None
    ignore_orders: tuple[bool, ...] | None = None


class _Grading(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    func: str
    parameters: _Parameters


class _InstructionLine(Line):
    instruction: str


class _EvaluationLine(Line):
    evaluation: _Grading


class Slot(Record):
    """An instance id of the suite with its task, or with the reason why there is none."""

    instance_id: str
    task: Task | None
    note: str
    """Without a task the reason; with one what had to be assumed, empty when nothing."""


def read_instructions(path: Path) -> dict[str, str]:
    """Instance id to instruction, in the file's order (spider2-dbt.jsonl).

    Raises `UserError` with file, line and fault (see `read_lines`).
    """
    return {line.instance_id: line.instruction for _, line in read_lines(path, _InstructionLine)}


def read_evaluations(path: Path) -> dict[str, Evaluation]:
    """Instance id to evaluation config, in the file's order (spider2_eval.jsonl).

    `condition_tabs`, `condition_cols` and `ignore_orders` may be absent or null; a null list
    of columns becomes an empty one, which grades all. Lists of unequal length are kept as
    they are: that is the audit's finding. Raises `UserError` with file, line and fault, also
    for a function other than `duckdb_match` and for a gold path that leaves the task's folder.
    """
    found: dict[str, Evaluation] = {}
    for place, line in read_lines(path, _EvaluationLine):
        key, grading, given = line.instance_id, line.evaluation, line.evaluation.parameters
        if grading.func != FUNCTION:
            raise UserError(
                f"{key}: evaluation function {grading.func!r} is not known",
                where=place,
                remedy=f"valid: {FUNCTION}",
            )
        gold = PurePosixPath(given.gold)
        if not gold.name or gold.is_absolute() or ".." in gold.parts or "\\" in given.gold:
            raise UserError(
                f"{key}: gold {given.gold!r} is no file below the task's gold folder",
                where=place,
                remedy=f"give the name of a file in {path.parent / key}",
            )
        columns = given.condition_cols
        found[key] = Evaluation(
            instance_id=key,
            gold=given.gold,
            condition_tabs=given.condition_tabs,
            condition_cols=None if columns is None else tuple(item or () for item in columns),
            ignore_orders=given.ignore_orders,
        )
    return found


def read_slots(suite: SuiteParams, built: dict[str, str]) -> list[Slot]:
    """Every instance id of the suite's instructions, each with its task or the reason for none.

    `built` maps the instance ids whose start database was built here to its start digest;
    it is empty for a suite that brings its databases. Raises `UserError` when the suite has
    no examples or its instructions cannot be read.
    """
    instructions = read_instructions(instructions_path(suite))
    return [_slot(suite, key, text, built) for key, text in instructions.items()]


def instructions_path(suite: SuiteParams) -> Path:
    """The suite's spider2-dbt.jsonl; raises `UserError` with the remedy where there is none."""
    path = suite.examples / INSTRUCTIONS
    if path.is_file():
        return path
    remedy = f"lay the suite out there: examples/{INSTRUCTIONS} and evaluation_suite/gold/"
    if suite.name == "spider2-dbt":
        remedy = (
            "make spider2 SOURCE=<clone of xlang-ai/Spider2> "
            "START=<DBT_start_db.zip> GOLD=<dbt_gold.zip>"
        )
    raise UserError(f"suite {suite.name!r} has no examples", where=str(path), remedy=remedy)


def _slot(suite: SuiteParams, key: str, instruction: str, built: dict[str, str]) -> Slot:
    project = suite.examples / key
    if not project.is_dir():
        return Slot(instance_id=key, task=None, note=f"there is no project folder {project}")
    if not (project / "dbt_project.yml").is_file():
        return Slot(instance_id=key, task=None, note="the project has no dbt_project.yml")
    overlay: Path | None = None
    if suite.sources:
        overlay = suite.built / "start" / key
        if key not in built or not overlay.is_dir():
            return Slot(instance_id=key, task=None, note="no start database was built")
    located = locate_database(project, overlay)
    if located.path is None:
        return Slot(instance_id=key, task=None, note=located.note)
    if not ((overlay or project) / located.path).is_file():
        return Slot(instance_id=key, task=None, note=_absent(located.path, project, overlay))
    digest = built[key] if suite.sources else digest_databases(project)
    task = Task(
        instance_id=key,
        instruction=instruction,
        project=project,
        overlay=overlay,
        database=located.path,
        start_digest=digest,
    )
    return Slot(instance_id=key, task=task, note=located.note)


def _absent(wanted: Path, project: Path, overlay: Path | None) -> str:
    others = ", ".join(path.as_posix() for path in databases_in(project, overlay))
    if others:
        return f"the profile's database {wanted} is absent, while {others} lies there unused"
    return f"the profile's database {wanted} is absent"


def digest_databases(project: Path) -> str:
    """SHA-256 over relative names and bytes of every *.duckdb below a project's folder."""
    parts: list[str] = []
    for path in walk(project):
        if path.suffix == ".duckdb" and path.is_file():
            parts += [path.relative_to(project).as_posix(), digest_file(path)]
    return digest_text(*parts)
