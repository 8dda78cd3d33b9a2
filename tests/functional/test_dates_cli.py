"""The dates stage as a command: what it writes, and that the clock does not matter."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import yaml

from stages.dates.models import DateStatus, read_gold_build_dates, read_gold_dates
from stages.suite.models import AuditEntry, Status, write_audit

SPINE = """
    CREATE TABLE date_spine AS SELECT d::DATE AS date_day
    FROM generate_series(DATE '2020-01-01', DATE '2023-05-17', INTERVAL 1 DAY) s(d)
"""
CLOCK_VIEWS = """
    CREATE VIEW calendar AS SELECT d::DATE AS date_day
    FROM generate_series(DATE '2020-01-01', current_date, INTERVAL 1 DAY) s(d)
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", "stages.dates", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    folder = tmp_path / "gold"
    for task, statement in (("task_b", SPINE), ("task_a", CLOCK_VIEWS)):
        (folder / task).mkdir(parents=True)
        with duckdb.connect(str(folder / task / "x.duckdb")) as connection:
            connection.execute(statement)
    (folder / "empty").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "x.duckdb").write_bytes(b"not a database" * 500)
    (folder / "spider2_eval.jsonl").write_text("{}\n")
    return folder


def test_any_folder_of_gold_gets_a_map_and_the_evidence_beside_it(
    gold: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out" / "map.json"
    done = run(tmp_path, "--gold", str(gold), "--out", str(out), "--fallback", "2021-02-03")
    assert done.returncode == 0, done.stderr
    days = {key: value.isoformat() for key, value in read_gold_build_dates(out).items()}
    assert days == {
        "broken": "2021-02-03",
        "empty": "2021-02-03",
        "task_a": "2021-02-03",
        "task_b": "2023-05-17",
    }
    assert list(json.loads(out.read_text())) == sorted(days)
    found = read_gold_dates(out.with_name("dates.json"))
    assert found["task_b"].status is DateStatus.INTERVAL
    assert "x.duckdb cannot be read" in found["broken"].note
    assert "date_spine.date_day" in done.stdout


def test_same_input_gives_the_same_bytes_on_every_day(gold: Path, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("libfaketime")
    assert spec is not None and spec.origin is not None
    library = Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    assert library.is_file()
    clock = {"LD_PRELOAD": str(library), "FAKETIME": "@2031-05-05 12:00:00", "TZ": "UTC"}
    year = subprocess.run(
        [sys.executable, "-c", "import datetime; print(datetime.date.today().year)"],
        env={**os.environ, **clock},
        capture_output=True,
        text=True,
        check=True,
    )
    assert year.stdout.strip() == "2031"
    written = []
    for name, environment in (("first", {}), ("second", {}), ("later", clock)):
        out = tmp_path / name / "map.json"
        done = run(tmp_path, "--gold", str(gold), "--out", str(out), **environment)
        assert done.returncode == 0, done.stderr
        written.append((out.read_bytes(), out.with_name("dates.json").read_bytes(), done.stdout))
    assert written[0] == written[1] == written[2]


def test_time_zone_of_the_machine_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "gold" / "task").mkdir(parents=True)
    with duckdb.connect(str(tmp_path / "gold" / "task" / "x.duckdb")) as connection:
        for source in ("a", "b"):
            connection.execute(f"CREATE TABLE {source} AS SELECT 1 AS id")
            connection.execute(
                f"CREATE TABLE stg_{source} AS "
                "SELECT 1 AS id, TIMESTAMPTZ '2025-07-31 22:00:00+00' AS built_at"
            )
    for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
        out = tmp_path / "map.json"
        done = run(tmp_path, "--gold", "gold", "--out", "map.json", TZ=zone)
        assert done.returncode == 0, done.stderr
        assert json.loads(out.read_text()) == {"task": "2025-07-31"}


def test_stage_dates_the_suites_tasks_by_the_audit(
    gold: Path, tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "results").mkdir()
    entries = [
        AuditEntry(
            instance_id=name,
            status=Status.SCOREABLE if path else Status.NO_GOLD,
            detail="" if path else "no gold was published",
            gold_database=path,
            evaluation=None,
        )
        for name, path in (("with_gold", gold / "task_b" / "x.duckdb"), ("without", None))
    ]
    write_audit(tmp_path / "results" / "suite_audit.json", entries)
    params = yaml.safe_load((repository / "params.yaml").read_text())
    params["dates"]["fallback"] = "2022-03-04"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    days = json.loads((tmp_path / "data" / "gold_build_dates.json").read_text())
    assert days == {"with_gold": "2023-05-17", "without": "2022-03-04"}
    found = read_gold_dates(tmp_path / "results" / "dates.json")
    assert found["without"].note == "no gold was published"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gold", "absent", "--out", "map.json"], "absent is no folder"),
        (["--gold", "gold"], "--gold and --out go together"),
        (["--gold", "gold", "--out", "dates.json"], "is the name of the file with the evidence"),
        ([], "no results/suite_audit.json here"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    gold: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
