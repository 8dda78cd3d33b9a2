"""What an agent is told holds nothing of any task: no instance id, no graded table, no column.

A name of one word (`name`, `amount`, `provider`) cannot be told from ordinary English, so it
counts as a column never, and as a table only where a relation stands: after `from`, `join`,
`table`, in `ref(...)`, `source(...)` or a model's path. A name of two or more words joined by
underscores is a leak wherever it stands, unless `VOCABULARY` has it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pytest
import yaml

from stages.common.files import walk

TOLD = ("stages/agent/prompts", "stages/agent/skills", "conf/skills")
"""All that an agent is told beside its task, relative to the checkout."""

VOCABULARY: frozenset[str] = frozenset()
"""Compound words of SQL or dbt that a suite also has as a column; none is needed so far."""

RELATION = re.compile(
    r"""\b(?:from|join|table|view)\s+"?(\w+)   # SQL
    | (?:ref|source)\((?:\s*['"]\w+['"]\s*,)?\s*['"](\w+)['"]  # dbt
    | /(\w+)\.sql\b""",
    re.VERBOSE | re.IGNORECASE,
)


class Secrets:
    """What must not be told of the suites that have been added."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.tables: set[str] = set()
        self.columns: set[str] = set()
        self.graded: dict[str, set[str]] = {}

    def add_config(self, path: Path) -> None:
        """Ids and condition tables of an evaluation config."""
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            tables = entry["evaluation"]["parameters"].get("condition_tabs") or []
            self.ids.add(entry["instance_id"].lower())
            self.graded[entry["instance_id"]] = {name.lower() for name in tables}
            self.tables |= self.graded[entry["instance_id"]]

    def add_databases(self, gold: Path) -> int:
        """Columns of the graded tables in every gold database there is; how many databases."""
        paths = sorted(gold.glob("*/*.duckdb"))
        for path in paths:
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute("SELECT table_name, column_name FROM duckdb_columns()")
                self._add(path.parent.name, rows.fetchall())
        return len(paths)

    def add_descriptions(self, examples: Path) -> None:
        """Columns that the tasks' own YAML gives their graded tables."""
        for path in sorted(examples.rglob("*.yml")):
            models = (yaml.safe_load(path.read_text()) or {}).get("models") or []
            for model in models if isinstance(models, list) else []:
                task = path.relative_to(examples).parts[0]
                columns = model.get("columns") or []
                self._add(task, [(model["name"], item["name"]) for item in columns])

    def _add(self, task: str, columns: Iterable[tuple[str, str]]) -> None:
        graded = self.graded.get(task, set())
        self.columns |= {column.lower() for table, column in columns if table.lower() in graded}


def compound(names: Iterable[str]) -> set[str]:
    """The names of two or more words."""
    return {name for name in names if len([word for word in name.split("_") if word]) > 1}


def leaks(told: Iterable[Path], secrets: Secrets) -> list[str]:
    """Every secret in the files, with the file that tells it."""
    found = []
    for path in told:
        text = path.read_text(encoding="utf-8").lower()
        words = set(re.findall(r"\w+", text))
        relations = {name for names in RELATION.findall(text) for name in names if name}
        told_here = {name for name in secrets.ids if name in text}
        told_here |= words & (compound(secrets.tables) | compound(secrets.columns) - VOCABULARY)
        told_here |= relations & secrets.tables
        found += [f"{path.name}: {name}" for name in sorted(told_here)]
    return found


def files_told(root: Path) -> list[Path]:
    return [path for part in TOLD for path in walk(root / part, skip=["__pycache__"])]


@pytest.fixture(scope="module")
def starter(repository: Path) -> Secrets:
    """The bundled suite: its config, its YAML, and its gold where it has been built."""
    secrets = Secrets()
    secrets.add_config(repository / "data/starter/evaluation_suite/gold/spider2_eval.jsonl")
    secrets.add_descriptions(repository / "data/starter/examples")
    secrets.add_databases(repository / "data/built/starter/gold")
    return secrets


@pytest.fixture(scope="module")
def official(spider2_shared: Path) -> Secrets:
    """The official suite: its config, and the gold databases that there are."""
    gold = spider2_shared / "spider2" / "gold"
    secrets = Secrets()
    secrets.add_config(gold / "spider2_eval.jsonl")
    assert secrets.add_databases(gold) > 0
    return secrets


def test_nothing_of_the_starter_suite_is_told(repository: Path, starter: Secrets) -> None:
    assert (len(starter.ids), len(starter.columns) > 50) == (15, True)
    assert len(files_told(repository)) > 15
    assert leaks(files_told(repository), starter) == []


@pytest.mark.spider2_data
def test_nothing_of_the_official_suite_is_told(repository: Path, official: Secrets) -> None:
    assert (len(official.ids), len(official.columns) > 500) == (68, True)
    assert leaks(files_told(repository), official) == []


@pytest.mark.spider2_data
def test_the_vocabulary_excuses_only_what_occurs(repository: Path, official: Secrets) -> None:
    text = "".join(path.read_text() for path in files_told(repository)).lower()
    assert official.columns >= VOCABULARY
    assert set(re.findall(r"\w+", text)) >= VOCABULARY


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        ("As in Harbor001, count nights.", "harbor001"),
        ("The table berth_daily_occupancy has one row a day.", "berth_daily_occupancy"),
        ("Sum `Tonnage_Moored` by day.", "tonnage_moored"),
        ('select * from "table"', "table"),
        ("{{ ref('table') }}", "table"),
        ("{{ source('raw', 'table') }}", "table"),
        ("--- models/table.sql", "table"),
    ],
)
def test_a_planted_secret_is_found(
    repository: Path, starter: Secrets, tmp_path: Path, planted: str, named: str
) -> None:
    for part in TOLD:
        shutil.copytree(repository / part, tmp_path / part)
    with (tmp_path / TOLD[1] / "dbt-write" / "SKILL.md").open("a") as skill:
        skill.write(f"\n{planted}\n")
    assert leaks(files_told(tmp_path), starter) == [f"SKILL.md: {named}"]


@pytest.mark.spider2_data
def test_a_planted_official_column_is_found(official: Secrets, tmp_path: Path) -> None:
    tables = sorted(compound(official.tables))
    columns = sorted(compound(official.columns) - VOCABULARY)
    (tmp_path / "x.md").write_text(f"{tables[0]} {columns[0]} {sorted(official.ids)[0]}")
    assert len(leaks([tmp_path / "x.md"], official)) == 3


def test_an_ordinary_word_is_no_secret(starter: Secrets, tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("Make a table of it; name its day, its amount and its status.")
    assert leaks([tmp_path / "x.md"], starter) == []
