"""build.yaml is checked before anything is built from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stages.common.errors import UserError
from stages.suite.sources import read_sources

TABLE = "{name: t, csv: t.csv, columns: {a: INTEGER}}"


def _read(folder: Path, text: str):
    (folder / "build.yaml").write_text(text)
    return read_sources(folder)


def _databases(*items: str) -> str:
    return "build_date: 2024-05-17\ndatabases: [" + ", ".join(items) + "]\n"


def test_gold_is_named_like_the_projects_database_unless_told_otherwise(tmp_path: Path) -> None:
    text = _databases(f"{{file: db/shop.duckdb, tables: [{TABLE}]}}")
    assert _read(tmp_path, text).gold_name == "shop.duckdb"
    assert _read(tmp_path, text + "gold_file: other.duckdb\n").gold_name == "other.duckdb"


def test_a_table_stands_in_the_default_schema_unless_told_otherwise(tmp_path: Path) -> None:
    other = "{name: t, schema: raw, sql: t.sql}"
    text = _databases(f"{{file: shop.duckdb, tables: [{TABLE}, {other}]}}")
    tables = _read(tmp_path, text).databases[0].tables
    assert [table.schema_name for table in tables] == ["main", "raw"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("build_date: 2024-05-17\n", r"databases: Field required"),
        (_databases() + "", r"databases: .*at least 1"),
        (
            _databases(f"{{file: a.duckdb, tables: [{TABLE}]}}") + "bild_date: 2024-05-17\n",
            r"bild_date: Extra inputs",
        ),
        (
            _databases("{file: a.duckdb, tables: [{name: t, csv: t.csv, colums: {a: INTEGER}}]}"),
            r"databases\.0\.tables\.0\.colums: Extra inputs",
        ),
        (
            _databases("{file: a.duckdb, tables: [{name: t}]}"),
            r"tables\.0: .*either `csv` or `sql`",
        ),
        (
            _databases("{file: a.duckdb, tables: [{name: t, csv: t.csv}]}"),
            r"tables\.0: .*`csv` needs `columns`",
        ),
        (
            _databases("{file: a.duckdb, tables: [{name: t, sql: t.sql, columns: {a: INTEGER}}]}"),
            r"tables\.0: .*`sql` takes none",
        ),
        (_databases(f"{{file: ../a.duckdb, tables: [{TABLE}]}}"), r"file: .*stays inside"),
        (_databases(f"{{file: /a.duckdb, tables: [{TABLE}]}}"), r"file: .*stays inside"),
        (
            _databases(
                f"{{file: a.duckdb, tables: [{TABLE}]}}", f"{{file: b/a.duckdb, tables: [{TABLE}]}}"
            ),
            r"two databases .* 'a'",
        ),
        (
            _databases(f"{{file: a.duckdb, tables: [{TABLE}]}}") + "gold_file: x/a.duckdb\n",
            r"gold_file: .*without a folder",
        ),
        (
            _databases(f"{{file: a.duckdb, tables: [{TABLE}]}}").replace("05-17", "02-30"),
            r"cannot be read: day is out of range",
        ),
        ("build_date: [", r"cannot be read: (?s:.)*flow"),
        ("", r"\(top\): Input should be"),
    ],
)
def test_a_wrong_build_file_is_refused_naming_file_and_key(
    tmp_path: Path, text: str, match: str
) -> None:
    with pytest.raises(UserError, match=match) as caught:
        _read(tmp_path, text)
    assert str(tmp_path / "build.yaml") in str(caught.value)


def test_a_task_without_a_build_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no build\.yaml"):
        read_sources(tmp_path)
