"""Exports of small results folders, read back by what the formats are for."""

from __future__ import annotations

import csv
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from stages.agent.models import Event, Tokens, TrialStatus
from stages.common.errors import UserError
from stages.common.files import write_json, write_text
from stages.common.params import load_params
from stages.evaluate.models import Reason, Resolution, TableVerdict, TaskVerdict, write_verdicts
from stages.report.export.read import Run, read_run
from stages.report.export.rows import SCHEMA, Format, write_rows
from stages.report.export.spider2 import write_spider2
from stages.run.models import TaskResult
from stages.suite.models import AuditEntry, Evaluation, Status, Task, write_audit, write_tasks

REPOSITORY = Path(__file__).resolve().parents[2]
KEY = "sk-ant-" + "a1B2" * 8
HOSTILE = f'=1+1, "quoted"\nand \ud800 half \0 nul; key {KEY} <script>alert(1)</script>'
OLD = 64
"""The storage number that DuckDB 0.10 to 1.1 write and read."""


class Results:
    """A results folder that is filled trial by trial."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "results"
        self.params: dict[str, Any] = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
        self.audit: dict[str, AuditEntry] = {}
        self.verdicts: list[TaskVerdict] = []

    def trial(
        self,
        name: str,
        trial: int = 0,
        *,
        sql: str = "create table t as select 1 as a",
        gold: str = "create table t as select 1 as a",
        storage: str = "v1.0.0",
        passed: bool = True,
        resolutions: tuple[Resolution, ...] = (),
        status: TrialStatus = TrialStatus.COMPLETED,
        detail: str = "",
        events: tuple[Event, ...] = (),
        frozen: str | None = None,
    ) -> Path:
        """Add a trial with its database; `frozen` fills views.duckdb, for each view one table."""
        folder = self.folder / "runs" / name / str(trial)
        make(folder / "project" / "db.duckdb", sql, storage)
        if frozen is not None:
            make(folder / "frozen" / "views.duckdb", frozen, "latest")
            with duckdb.connect(str(folder / "frozen" / "views.duckdb")) as connection:
                rows = connection.execute(
                    "select schema_name, table_name from duckdb_tables()"
                ).fetchall()
            lines = [
                {"schema": schema, "view": view, "rows": 1, "error": None, "status": "frozen"}
                for schema, view in rows
            ]
            write_json(folder / "frozen" / "views.json", lines)
        gold_file = self.root / "gold" / name / "db.duckdb"
        if not gold_file.exists():
            make(gold_file, gold, "v1.0.0")
        self.audit[name] = AuditEntry(
            instance_id=name,
            status=Status.SCOREABLE,
            detail="",
            gold_database=gold_file,
            evaluation=Evaluation(
                instance_id=name,
                gold="db.duckdb",
                condition_tabs=("t",),
                condition_cols=((),),
                ignore_orders=(True,),
            ),
        )
        write_json(folder / "trace.json", [event.model_dump() for event in events])
        TaskResult(
            instance_id=name,
            trial=trial,
            agent="claude",
            model="replay",
            status=status,
            detail=detail,
            run_key="k" * 64,
            run_key_parts={"task": name},
            gold_date="2024-02-29",
            sealed=True,
            database="db.duckdb",
            turns=3,
            elapsed_s=12.5,
            attempts=1,
            cost_usd=0.25,
            tokens=Tokens(input=10, output=20, cache_read=30, cache_write=40),
            versions={"duckdb": "2.0.1"},
        ).write(folder / "task_result.json")
        table = TableVerdict(
            table="t",
            official=passed,
            reason=Reason.MATCHED if passed else Reason.VALUES_DIFFER,
            detail=detail,
            resolutions=resolutions,
        )
        self.verdicts.append(
            TaskVerdict(
                instance_id=name,
                trial=trial,
                status=status,
                passed=passed,
                passed_officially=passed and not resolutions,
                resolutions=resolutions,
                tables=(table,),
                reason=detail or "all tables match",
            )
        )
        return folder

    def write(self) -> Run:
        """Put the stages' files down, and read the run as an export does."""
        write_text(self.root / "params.yaml", yaml.safe_dump(self.params))
        write_audit(self.folder / "suite_audit.json", list(self.audit.values()))
        write_verdicts(self.folder / "verdicts.json", self.verdicts)
        tasks = [
            Task(
                instance_id=name,
                instruction=f"Write the model of {name}.",
                project=Path(name),
                overlay=None,
                database=Path("db.duckdb"),
                start_digest="",
            )
            for name in self.audit
        ]
        write_tasks(self.folder / "suite" / "tasks.json", tasks)
        return read_run(load_params(self.root / "params.yaml"), self.folder)


def make(path: Path, sql: str, storage: str) -> None:
    """A database filled by SQL, of a storage version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"attach '{path}' as db (storage_version '{storage}')")
        connection.execute("use db")
        connection.execute(sql)


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def storage_number(path: Path) -> int:
    """A DuckDB file's storage number: 64 bits after checksum and magic bytes."""
    return int.from_bytes(path.read_bytes()[12:20], "little")


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def submission(folder: Path) -> dict[str, Path]:
    """Instance id to database, as the official script finds them."""
    assert [path.name for path in folder.glob("*.jsonl")] == ["results_metadata.jsonl"]
    found = {}
    for line in (folder / "results_metadata.jsonl").read_text().splitlines():
        given = json.loads(line)
        assert given["answer_type"] == "file"
        found[given["instance_id"]] = folder / given["instance_id"] / given["answer_or_path"]
    return found


def test_a_submission_holds_a_line_a_task_and_the_database_of_the_chosen_trial(
    results: Results, tmp_path: Path
) -> None:
    results.trial("one001", 0)
    results.trial("one001", 1, sql="create table t as select 2 as a")
    results.trial("two001", 0)
    run = results.write()
    write_spider2(run, tmp_path / "out")
    assert query(submission(tmp_path / "out")["one001"], "from t") == [(1,)]
    notes = write_spider2(run, tmp_path / "out", trial=1)
    found = submission(tmp_path / "out")
    assert query(found["one001"], "from t") == [(2,)]
    assert not found["two001"].exists()
    assert [str(note) for note in notes] == ["two001/1: not run: no database"]
    with pytest.raises(UserError, match="no task has a trial 7"):
        write_spider2(run, tmp_path / "out", trial=7)


def test_a_submission_shows_views_as_they_were_frozen_in_a_format_that_old_engines_read(
    results: Results, tmp_path: Path
) -> None:
    results.trial(
        "one001",
        sql="create table raw as select range as a from range(3); create schema other; "
        "create view t as select current_date as day; create view other.v as from raw",
        storage="latest",
        frozen="create table t as select date '2024-02-29' as day; create schema other; "
        "create table other.v as select 7 as a",
    )
    assert write_spider2(results.write(), tmp_path / "out") == []
    path = submission(tmp_path / "out")["one001"]
    assert query(path, "select day::varchar from t") == [("2024-02-29",)]
    assert query(path, "from raw") == [(0,), (1,), (2,)]
    assert query(path, "from other.v") == [(7,)]
    assert query(path, "select count(*) from duckdb_views() where not internal") == [(0,)]
    assert storage_number(path) == OLD
    write_spider2(results.write(), tmp_path / "new", storage="latest")
    assert storage_number(submission(tmp_path / "new")["one001"]) > OLD
    with pytest.raises(UserError, match="v9"):
        write_spider2(results.write(), tmp_path / "new", storage="v9")


def test_a_view_that_could_not_be_frozen_is_left_out_and_named(
    results: Results, tmp_path: Path
) -> None:
    results.trial("one001", sql="create view t as select current_date as day", passed=False)
    (note,) = write_spider2(results.write(), tmp_path / "out")
    assert "its views were not frozen" in note.text
    shown = query(submission(tmp_path / "out")["one001"], "show tables")
    assert shown == []


def test_where_gold_is_a_view_the_trial_s_view_moves_with_it(
    results: Results, tmp_path: Path
) -> None:
    view = "create view {} as select current_date as day, n from inner_view"
    sql = "create view inner_view as select 1 as n; " + view.format("t")
    frozen = "create table t as select date '2024-02-29' as day, 1 as n; "
    frozen += "create table inner_view as select 1 as n"
    results.trial("both001", sql=sql, gold=sql, frozen=frozen, storage="latest")
    results.trial("gold001", sql="create table t as select 1 as a", gold=sql)
    notes = write_spider2(results.write(), tmp_path / "out")
    found = submission(tmp_path / "out")
    assert query(found["both001"], "select day = current_date, n from t") == [(True, 1)]
    assert storage_number(found["both001"]) == OLD
    assert [note.about for note in notes] == ["gold001/0"]
    assert "on the gold date alone" in notes[0].text


def test_what_is_missing_or_broken_is_noted_and_the_other_tasks_go_on(
    results: Results, tmp_path: Path
) -> None:
    results.trial("good001", resolutions=(Resolution.QUOTED_NAME,))
    (results.trial("torn001") / "project" / "db.duckdb").write_bytes(b"no database at all")
    (results.trial("gone001") / "project" / "db.duckdb").unlink()
    write_text(results.trial("json001") / "task_result.json", "{")
    results.trial("infra001", status=TrialStatus.INFRA_ERROR)
    secret = tmp_path / "secret.duckdb"
    make(secret, "create table t as select 1 as a", "v1.0.0")
    linked = results.trial("link001") / "project" / "db.duckdb"
    linked.unlink()
    linked.symlink_to(secret)
    run = results.write()
    notes = {note.about: note.text for note in write_spider2(run, tmp_path / "out")}
    found = submission(tmp_path / "out")
    assert [name for name, path in found.items() if path.exists()] == ["good001"]
    assert len(found) == 6
    assert "officially it fails" in notes["good001/0"]
    assert "cannot be opened" in notes["torn001/0"]
    assert "there is no database" in notes["gone001/0"]
    assert "task_result.json cannot be read" in notes["json001/0"]
    assert "infra_error" in notes["infra001/0"]
    assert "leads out of" in notes["link001/0"]
    written = (tmp_path / "out" / "notes.txt").read_text()
    assert "expected of the official script: 5 of 6" in written
    rows = {note.about: note.text for note in write_rows(run, tmp_path / "rows", "csv")}
    assert list(rows) == ["json001/0"]


def test_an_export_replaces_an_export_and_nothing_else(results: Results, tmp_path: Path) -> None:
    results.trial("one001")
    run = results.write()
    write_rows(run, tmp_path / "out", "csv")
    write_rows(run, tmp_path / "out", "parquet")
    assert not (tmp_path / "out" / "trials.csv").exists()
    write_text(tmp_path / "mine" / "thesis.txt", "years of work")
    with pytest.raises(UserError, match="holds something else"):
        write_rows(run, tmp_path / "mine", "csv")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_survive_hostile_texts_and_carry_no_key(
    results: Results, tmp_path: Path, form: Format
) -> None:
    # A half character is read from JSON's escape, as a model may write it.
    results.trial("one001", passed=False, detail="plain")
    results.trial("two001")
    run = results.write()
    path = results.folder / "verdicts.json"
    write_text(path, path.read_text().replace('"plain"', json.dumps(HOSTILE)))
    run = read_run(load_params(results.root / "params.yaml"), results.folder)
    write_rows(run, tmp_path / "out", form)
    file = tmp_path / "out" / f"trials.{form}"
    assert KEY.encode() not in file.read_bytes()
    (reason,) = query_file(file, "select reason from $ where instance_id = 'one001'")[0]
    assert reason.startswith('=1+1, "quoted"\nand ? half \ufffd nul; key [secret removed]')
    names = query_file(file, "select instance_id, passed from $ order by 1")
    assert [name for name, _ in names] == ["one001", "two001"]
    if form == "csv":
        with file.open(newline="", encoding="utf-8") as opened:
            assert len(list(csv.DictReader(opened))) == 2


def query_file(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(sql.replace("$", f"'{path}'")).fetchall()


def test_a_trial_s_row_says_what_its_result_and_verdict_say(
    results: Results, tmp_path: Path
) -> None:
    results.trial("one001", 3, resolutions=(Resolution.FCT_FACT, Resolution.SCHEMA))
    write_rows(results.write(), tmp_path / "out", "csv")
    with (tmp_path / "out" / "trials.csv").open(newline="", encoding="utf-8") as opened:
        (row,) = csv.DictReader(opened)
    expected = {
        "instance_id": "one001",
        "trial": "3",
        "passed": "true",
        "passed_officially": "false",
        "passed_strictly": "",
        "resolutions": "fct_fact, schema",
        "tokens_cache_write": "40",
        "gold_date": "2024-02-29",
        "sealed": "true",
        "cost_usd": "0.25",
    }
    assert {name: row[name] for name in expected} == expected
    # Null and an empty text are told apart: passed_strictly, and the note at the end.
    line = (tmp_path / "out" / "trials.csv").read_text().splitlines()[1]
    assert ",true,false,," in line
    assert line.endswith(',""')
    with (tmp_path / "out" / "tables.csv").open(newline="", encoding="utf-8") as opened:
        (table,) = csv.DictReader(opened)
    assert (table["table_name"], table["official"], table["strict"]) == ("t", "true", "")


def test_the_docs_list_the_columns_and_types_that_are_written(
    results: Results, tmp_path: Path
) -> None:
    results.trial("one001")
    write_rows(results.write(), tmp_path / "out", "parquet")
    text = (REPOSITORY / "docs" / "exports.md").read_text()
    for name in SCHEMA:
        section = text.split(f"\n### {name}\n")[1].split("\n#")[0]
        documented = re.findall(r"^\| (\w+) \| ([A-Z]+) \| ..+ \|$", section, re.MULTILINE)
        described = query_file(tmp_path / "out" / f"{name}.parquet", "describe from $")
        assert documented == [(column, kind) for column, kind, *_ in described]


def export(results: Results, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stages.report.export", *arguments],
        cwd=results.root,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **variables},
        capture_output=True,
        text=True,
    )


def test_the_command_says_where_it_wrote_and_what_it_lacks(results: Results) -> None:
    assert "there is no scored run" in export_without_run(results)
    results.trial("one001")
    results.write()
    done = export(results, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert "results/export/csv" in done.stdout
    assert (results.folder / "export" / "csv" / "tables.csv").is_file()
    done = export(results, "--format", "inspect", DVC_ROOT=str(results.root))
    assert done.returncode == 1
    assert "Inspect AI is not installed" in done.stderr
    assert "pip sync --require-hashes -p .cache/extras/inspect" in done.stderr
    assert "extras/inspect.lock" in done.stderr


def export_without_run(results: Results) -> str:
    write_text(results.root / "params.yaml", yaml.safe_dump(results.params))
    done = export(results, "--format", "spider2")
    assert done.returncode == 1
    return done.stderr


def event(kind: str, text: str, who: str = "main", turn: int = 1, **more: Any) -> Event:
    event.clock += 0.5  # type: ignore[attr-defined]
    clock = event.clock  # type: ignore[attr-defined]
    return Event(time_s=clock, turn=turn, who=who, kind=kind, text=text, **more)


event.clock = 0.0  # type: ignore[attr-defined]


def trace() -> tuple[Event, ...]:
    """Main calls two tools at once, then the verifier, whose events come in between."""
    return (
        event("thinking", "Hm."),
        event("text", "I look."),
        event("tool_use", '{"sql": "select 1"}', tool="query", tool_id="a"),
        event("tool_use", "[" * 3000, tool="Bash", tool_id="b"),
        event("tool_result", f"key {KEY}", tool_id="a"),
        event("tool_result", "attachment://x <b>no</b>", tool_id="b", error=True),
        event("tool_use", '{"subagent_type": "verifier"}', turn=2, tool="Agent", tool_id="c"),
        event("text", "I check.", who="verifier", turn=2),
        event("tool_use", '{"n": NaN}', who="verifier", turn=2, tool="query", tool_id="d"),
        event("tool_result", "fine", who="verifier", turn=2, tool_id="d"),
        event("tool_result", "Checked.", turn=2, tool_id="c"),
        event("text", "Done.", turn=3),
        event("result", "Done.", turn=3),
    )


@contextmanager
def inspect_view(environment: Path, logs: Path) -> Iterator[str]:
    """Inspect's own server on a free port, stopped at the end."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [str(environment / "bin" / "inspect"), "view", "start", "--log-dir", str(logs)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with (logs.parent / "view.log").open("w") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(logs.parent)},
        )
    try:
        yield f"http://127.0.0.1:{port}/api"
    finally:
        server.terminate()
        server.wait(30)


def ask(url: str) -> Any:
    """The server's answer; it is waited for until it is up."""
    for _ in range(120):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise AssertionError(f"no answer from {url}")


@pytest.mark.heavy
def test_inspect_s_own_server_lists_the_log_and_returns_a_trial_s_transcript(
    results: Results,
) -> None:
    results.trial("one001", 0, events=trace(), detail=f"told {KEY}")
    results.trial("one001", 1, passed=False, status=TrialStatus.MAX_TURNS)
    results.trial("two001", 0, status=TrialStatus.AGENT_ERROR, detail="crashed", passed=False)
    write_text(results.trial("torn001") / "trace.json", '[{"kind": "text"}]')
    (results.trial("lost001") / "task_result.json").unlink()
    results.write()
    place = results.root / ".cache" / "extras" / "inspect"
    uv = Path(sys.executable).with_name("uv")
    lock = REPOSITORY / "extras" / "inspect.lock"
    subprocess.run([uv, "venv", "-q", "-p", sys.executable, place], check=True)
    subprocess.run([uv, "pip", "sync", "-q", "--require-hashes", "-p", place, lock], check=True)

    done = export(results, "--format", "inspect", DVC_ROOT=str(results.root))
    assert done.returncode == 0, done.stderr
    assert "torn001/0: trace.json cannot be read" in done.stdout
    assert "lost001/0: there is no task_result.json" in done.stdout
    out = results.folder / "export" / "inspect"
    with inspect_view(place, out) as url:
        (listed,) = ask(f"{url}/log-files")["files"]
        log = ask(f"{url}/logs/{urllib.parse.quote(listed['name'], safe='')}")
    assert log["status"] == "success"
    assert log["eval"]["model"] == "replay"
    assert log["eval"]["viewer"]["trust_content"] is False
    assert KEY not in json.dumps(log)
    samples = {(sample["id"], sample["epoch"]): sample for sample in log["samples"]}
    assert len(samples) == 5

    one = samples["one001", 1]
    roles = [message["role"] for message in one["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert one["messages"][0]["content"] == "Write the model of one001."
    said = one["messages"][1]
    assert [part["type"] for part in said["content"]] == ["reasoning", "text"]
    calls = {call["id"]: call for call in said["tool_calls"]}
    assert calls["a"]["function"] == "query"
    assert calls["a"]["arguments"] == {"sql": "select 1"}
    assert calls["b"]["arguments"] == {"input": "[" * 3000}
    answers = {m["tool_call_id"]: m for m in one["messages"] if m["role"] == "tool"}
    assert answers["a"]["content"] == "key [secret removed]"
    assert answers["b"]["error"]["message"] == "attachment://x <b>no</b>"
    assert "I check." not in json.dumps(one["messages"])

    (span,) = [item for item in one["events"] if item["event"] == "span_begin"]
    assert span["name"] == "verifier"
    apart = [item for item in one["events"] if item.get("span_id") == span["id"]]
    assert [item["event"] for item in apart] == ["span_begin", "model", "tool", "span_end"]
    assert apart[2]["arguments"] == {"n": "nan"}
    assert apart[2]["result"] == "fine"
    assert one["scores"]["official"]["value"] == "C"
    assert one["model_usage"]["replay"]["input_tokens_cache_read"] == 30
    assert one["metadata"]["gold_date"] == "2024-02-29"
    assert one["metadata"]["run_key"] == "k" * 64
    assert one["metadata"]["sealed"] is True

    assert samples["one001", 2]["limit"]["type"] == "turn"
    assert samples["one001", 2]["scores"]["official"]["value"] == "I"
    assert samples["two001", 1]["error"]["message"] == "agent_error: crashed"
    assert "no task_result.json" in samples["lost001", 1]["error"]["message"]
    accuracy = {s["name"]: s["metrics"]["accuracy"]["value"] for s in log["results"]["scores"]}
    assert accuracy == {"passed": 0.6, "official": 0.6}
