"""Reading the official layout: JSON lines, and instance ids to tasks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from stages.common.errors import UserError
from stages.common.params import SuiteParams
from stages.suite.layout import (
    digest_databases,
    read_evaluations,
    read_instructions,
    read_slots,
)

PROJECT = "name: shop\nprofile: shop\n"
PROFILES = """shop:
  target: dev
  outputs:
    dev: {type: duckdb, path: ./shop.duckdb}
"""


def _evaluation(instance_id: str = "shop001", /, **parameters: object) -> str:
    grading = {"func": "duckdb_match", "parameters": {"gold": "shop.duckdb", **parameters}}
    return json.dumps({"instance_id": instance_id, "evaluation": grading})


def _suite(root: Path, *, sources: bool = False, name: str = "mine") -> SuiteParams:
    return SuiteParams(
        name=name, root=root, built=root / "built", sources=sources, gold_stack="spider2"
    )


def _task(root: Path, key: str = "shop001") -> Path:
    project = root / "examples" / key
    project.mkdir(parents=True)
    (project / "dbt_project.yml").write_text(PROJECT)
    (project / "profiles.yml").write_text(PROFILES)
    line = json.dumps({"instance_id": key, "instruction": f"do {key}", "type": "DBT"})
    with (root / "examples" / "spider2-dbt.jsonl").open("a") as file:
        file.write(line + "\n")
    return project


def test_instructions_are_read_past_a_byte_order_mark_blank_lines_and_crlf(tmp_path: Path) -> None:
    path = tmp_path / "spider2-dbt.jsonl"
    lines = [
        '{"instance_id": "b001", "instruction": "sum\u2028up", "type": "DBT"}',
        "",
        "   ",
        '{"instance_id": "a001", "instruction": "count"}',
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert read_instructions(path) == {"b001": "sum\u2028up", "a001": "count"}


@pytest.mark.parametrize(
    ("second_line", "complaint"),
    [
        ('{"instance_id": ', r"not valid JSON[\s\S]*jsonl, line 3"),
        ("[1, 2]", r"should be an object[\s\S]*jsonl, line 3"),
        ('{"instance_id": "b001"}', r"key 'instruction' is missing[\s\S]*line 3"),
        ('{"instruction": "x"}', r"key 'instance_id' is missing[\s\S]*line 3"),
        ('{"instance_id": "b001", "instruction": 7}', r"instruction: .*string[\s\S]*line 3"),
        (
            '{"instance_id": "a001", "instruction": "x"}',
            r"'a001' stands twice[\s\S]*line 3[\s\S]*line 1",
        ),
        ('{"instance_id": "../a", "instruction": "x"}', r"no plain folder name[\s\S]*line 3"),
        ('{"instance_id": "", "instruction": "x"}', r"no plain folder name[\s\S]*line 3"),
    ],
)
def test_a_wrong_line_is_named_by_file_line_and_fault(
    tmp_path: Path, second_line: str, complaint: str
) -> None:
    path = tmp_path / "spider2-dbt.jsonl"
    path.write_text('{"instance_id": "a001", "instruction": "x"}\n\n' + second_line + "\n")
    with pytest.raises(UserError, match=complaint):
        read_instructions(path)


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spider2-dbt.jsonl"
    path.write_bytes('{"instance_id": "a001", "instruction": "größer"}'.encode("latin-1"))
    with pytest.raises(UserError, match=r"spider2-dbt.jsonl is not UTF-8"):
        read_instructions(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no spider2_eval.jsonl"):
        read_evaluations(tmp_path / "spider2_eval.jsonl")


def test_evaluations_keep_what_is_given(tmp_path: Path) -> None:
    path = tmp_path / "spider2_eval.jsonl"
    path.write_text(
        _evaluation(condition_tabs=["a", "b"], condition_cols=[[0, 2], []], ignore_orders=[True])
    )
    found = read_evaluations(path)["shop001"]
    assert found.gold == "shop.duckdb"
    assert found.condition_tabs == ("a", "b")
    assert found.condition_cols == ((0, 2), ())
    assert found.ignore_orders == (True,), "unequal lengths are the audit's business"


@pytest.mark.parametrize(
    "parameters",
    [{}, {"condition_tabs": None, "condition_cols": None, "ignore_orders": None}],
)
def test_absent_and_null_conditions_are_the_same(
    tmp_path: Path, parameters: dict[str, object]
) -> None:
    path = tmp_path / "spider2_eval.jsonl"
    path.write_text(_evaluation(**parameters))
    found = read_evaluations(path)["shop001"]
    assert (found.condition_tabs, found.condition_cols, found.ignore_orders) == (None, None, None)


def test_a_null_list_of_columns_grades_all(tmp_path: Path) -> None:
    path = tmp_path / "spider2_eval.jsonl"
    path.write_text(_evaluation(condition_tabs=["a", "b"], condition_cols=[None, [1]]))
    assert read_evaluations(path)["shop001"].condition_cols == ((), (1,))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"instance_id": "a"}', r"key 'evaluation' is missing[\s\S]*line 1"),
        (
            '{"instance_id": "a", "evaluation": {"func": "duckdb_match", "parameters": {}}}',
            r"key 'evaluation.parameters.gold' is missing[\s\S]*line 1",
        ),
        (_evaluation(condition_cols=[0, 1]), r"condition_cols.0: .*valid[\s\S]*line 1"),
        (_evaluation(condition_cols=[[True]]), r"condition_cols.0.0: .*integer[\s\S]*line 1"),
        (_evaluation(ignore_orders=True), r"ignore_orders: .*valid[\s\S]*line 1"),
        (
            _evaluation().replace("duckdb_match", "table_match"),
            r"'table_match' is not known[\s\S]*line 1",
        ),
        (_evaluation().replace("shop.duckdb", "../shop.duckdb"), r"no file below[\s\S]*line 1"),
        (_evaluation().replace("shop.duckdb", "/etc/passwd"), r"no file below[\s\S]*line 1"),
    ],
)
def test_a_wrong_evaluation_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "spider2_eval.jsonl"
    path.write_text(line)
    with pytest.raises(UserError, match=complaint):
        read_evaluations(path)


def test_a_task_holds_project_database_and_digest(tmp_path: Path) -> None:
    project = _task(tmp_path)
    duckdb.connect(str(project / "shop.duckdb")).close()
    (slot,) = read_slots(_suite(tmp_path), {})
    assert slot.task is not None and slot.note == ""
    assert slot.task.project == project
    assert slot.task.database == Path("shop.duckdb")
    assert slot.task.instruction == "do shop001"
    assert slot.task.start_database == project / "shop.duckdb"
    assert slot.task.start_digest == digest_databases(project)


def test_the_start_digest_follows_names_and_bytes_of_databases_alone(tmp_path: Path) -> None:
    project = _task(tmp_path)
    (project / "shop.duckdb").write_bytes(b"one")
    before = digest_databases(project)
    (project / "model.sql").write_text("select 1")
    assert digest_databases(project) == before
    (project / "shop.duckdb").write_bytes(b"two")
    changed = digest_databases(project)
    assert changed != before
    (project / "shop.duckdb").rename(project / "other.duckdb")
    assert digest_databases(project) not in (before, changed)


def test_a_built_task_takes_database_and_digest_from_what_was_built(tmp_path: Path) -> None:
    project = _task(tmp_path)
    overlay = tmp_path / "built" / "start" / "shop001"
    overlay.mkdir(parents=True)
    (overlay / "shop.duckdb").write_bytes(b"")
    (slot,) = read_slots(_suite(tmp_path, sources=True), {"shop001": "abc"})
    assert slot.task is not None
    assert (slot.task.project, slot.task.overlay) == (project, overlay)
    assert slot.task.start_database == overlay / "shop.duckdb"
    assert slot.task.start_digest == "abc"


def test_a_task_that_was_not_built_has_the_reason(tmp_path: Path) -> None:
    _task(tmp_path)
    (slot,) = read_slots(_suite(tmp_path, sources=True), {})
    assert slot.task is None and slot.note == "no start database was built"


def test_one_task_without_project_or_database_leaves_the_others(tmp_path: Path) -> None:
    ready = _task(tmp_path, "ready001")
    (ready / "shop.duckdb").write_bytes(b"")
    elsewhere = _task(tmp_path, "elsewhere001")
    (elsewhere / "other.duckdb").write_bytes(b"")
    bare = _task(tmp_path, "bare001")
    (bare / "dbt_project.yml").unlink()
    gone = _task(tmp_path, "gone001")
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    slots = {slot.instance_id: slot for slot in read_slots(_suite(tmp_path), {})}
    assert slots["ready001"].task is not None
    assert {key for key, slot in slots.items() if slot.task is None} == {
        "elsewhere001",
        "bare001",
        "gone001",
    }
    assert "shop.duckdb is absent, while other.duckdb lies there" in slots["elsewhere001"].note
    assert slots["bare001"].note == "the project has no dbt_project.yml"
    assert "no project folder" in slots["gone001"].note


def test_a_suite_without_examples_tells_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no examples[\s\S]*make spider2 SOURCE="):
        read_slots(_suite(tmp_path, name="spider2-dbt"), {})
    with pytest.raises(UserError, match=r"'mine' has no examples[\s\S]*examples/spider2-dbt"):
        read_slots(_suite(tmp_path), {})
