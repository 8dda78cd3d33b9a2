"""Finds the gold date of one database, one folder, or a whole suite."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb

from stages.common.errors import UserError
from stages.dates.database import open_gold
from stages.dates.decide import decide, fall_back
from stages.dates.finders import find_evidence
from stages.dates.finders.file import file_remark
from stages.dates.models import GoldDate
from stages.dates.profile import read_catalog
from stages.suite.models import AuditEntry

SUFFIXES = (".duckdb", ".db")


def find_gold_date(database: Path, fallback: datetime.date) -> GoldDate:
    """Date one database; one that cannot be read gets the fallback, with the reason."""
    if not database.is_file():
        return fall_back(fallback, f"no file {database.name}")
    try:
        with open_gold(database) as connection:
            findings = find_evidence(connection, read_catalog(connection))
    except duckdb.Error as error:
        return fall_back(fallback, f"{database.name} cannot be read: {_reason(error, database)}")
    remarks = [*findings.remarks, file_remark(database)]
    return decide(findings.evidence, [item for item in remarks if item], fallback)


def find_in_folder(folder: Path, fallback: datetime.date) -> GoldDate:
    """Date the one database of a task's folder; none, or several, get the fallback."""
    databases = sorted(
        path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()
    )
    if len(databases) == 1:
        return find_gold_date(databases[0], fallback)
    if not databases:
        return fall_back(fallback, "no database in the folder")
    names = ", ".join(path.name for path in databases)
    return fall_back(fallback, f"{len(databases)} databases, none of them named as gold: {names}")


def find_in_gold(gold: Path, fallback: datetime.date) -> dict[str, GoldDate]:
    """Date every task of a folder that holds one folder a task; other files are passed over."""
    if not gold.is_dir():
        raise UserError(
            f"{gold} is no folder",
            remedy="--gold takes a folder that holds one folder of gold databases a task",
        )
    folders = sorted(path for path in gold.iterdir() if path.is_dir() and path.name[0] != ".")
    return {folder.name: find_in_folder(folder, fallback) for folder in folders}


def find_in_suite(audit: list[AuditEntry], fallback: datetime.date) -> dict[str, GoldDate]:
    """Date every task that the audit lists, by the gold database that it names."""
    return {
        entry.instance_id: (
            fall_back(fallback, entry.detail or "the task has no gold database")
            if entry.gold_database is None
            else find_gold_date(entry.gold_database, fallback)
        )
        for entry in sorted(audit, key=lambda entry: entry.instance_id)
    }


def _reason(error: duckdb.Error, database: Path) -> str:
    """The error's first line, without the path, which differs from machine to machine."""
    text = str(error).strip().split("\n")[0]
    return text.replace(str(database.resolve()), database.name).replace(
        str(database), database.name
    )
