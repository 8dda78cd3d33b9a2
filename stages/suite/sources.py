"""What a task's databases are built from: `sources/<task>/build.yaml`, typed and checked."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path, PurePosixPath

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from stages.common.errors import UserError
from stages.common.files import Record

BUILD_FILE = "build.yaml"


def _inside(path: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or not parts.name:
        raise ValueError("must be a relative path that stays inside the folder")
    return path


class TableSource(Record):
    """One table of a start database: rows from a CSV file, or from one SELECT."""

    name: str = Field(min_length=1)
    schema_name: str = Field(default="main", alias="schema", min_length=1)
    csv: str | None = None
    """CSV file with a header, beside build.yaml; an empty field is NULL."""
    columns: dict[str, str] | None = None
    """Column name to DuckDB type, in the CSV file's order."""
    sql: str | None = None
    """File with one SELECT that makes the rows; it sees the tables declared before it."""

    @field_validator("csv", "sql")
    @classmethod
    def _stays_inside(cls, path: str | None) -> str | None:
        return None if path is None else _inside(path)

    @model_validator(mode="after")
    def _one_origin(self) -> TableSource:
        if (self.csv is None) == (self.sql is None):
            raise ValueError("give either `csv` or `sql`")
        if (self.csv is None) != (not self.columns):
            raise ValueError("`csv` needs `columns`, and `sql` takes none")
        return self


class ViewSource(Record):
    """One view of a start database."""

    name: str = Field(min_length=1)
    schema_name: str = Field(default="main", alias="schema", min_length=1)
    sql: str
    """File with the view's SELECT."""

    @field_validator("sql")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        return _inside(path)


class DatabaseSource(Record):
    """One DuckDB file that a task starts with."""

    file: str
    """Path relative to the project's folder."""
    tables: tuple[TableSource, ...] = Field(min_length=1)
    views: tuple[ViewSource, ...] = ()

    @field_validator("file")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        return _inside(path)


class BuildSources(Record):
    """A task's build.yaml."""

    build_date: datetime.date
    """The day on which gold is built, at 12:00:00 UTC."""
    databases: tuple[DatabaseSource, ...] = Field(min_length=1)
    """The first is the project's own, of which gold is a copy; more may be attached."""
    gold_file: str | None = None
    """Gold's file name where it is not that of the first database."""

    @field_validator("gold_file")
    @classmethod
    def _plain_name(cls, name: str | None) -> str | None:
        if name is not None and PurePosixPath(name).name != name:
            raise ValueError("must be a file name without a folder")
        return name

    @model_validator(mode="after")
    def _distinct_files(self) -> BuildSources:
        counts = Counter(PurePosixPath(database.file).stem for database in self.databases)
        if twice := sorted(stem for stem, count in counts.items() if count > 1):
            raise ValueError(f"two databases would have the catalog name {twice[0]!r}")
        return self

    @property
    def database(self) -> Path:
        """The project's own DuckDB file, relative to the project's folder."""
        return Path(self.databases[0].file)

    @property
    def gold_name(self) -> str:
        """The name of the gold file that is built."""
        return self.gold_file or self.database.name


def read_sources(folder: Path) -> BuildSources:
    """Read and check one task's build.yaml.

    Raises `UserError` naming the file and the key that is unknown, missing or wrong.
    """
    path = folder / BUILD_FILE
    try:
        return BuildSources.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UserError(
            f"task {folder.name} has no {BUILD_FILE}",
            where=str(folder),
            remedy="write one, or remove the folder",
        ) from None
    except ValidationError as error:
        details = "; ".join(
            f"{'.'.join(str(step) for step in item['loc']) or '(top)'}: {item['msg']}"
            for item in error.errors()
        )
        raise UserError(
            f"{BUILD_FILE} of task {folder.name} does not fit: {details}",
            where=str(path),
            remedy="the keys are described in stages/suite/sources.py",
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        # A day that does not exist, or bytes that are no UTF-8, are plain ValueErrors.
        raise UserError(f"{BUILD_FILE} cannot be read: {error}", where=str(path)) from None
