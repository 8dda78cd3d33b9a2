"""What the gateway reads from a project's files, and how it renders what it found."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from stages.common.files import write_text
from stages.gateway import log, sqltext
from stages.gateway.models import Call, Limits
from stages.gateway.parse import engine_parse
from stages.gateway.project import read_project
from stages.gateway.properties import read_properties
from stages.gateway.render import bounded, join, table, value_text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no SQL in it"),
        ("-- only a comment\n{# select 1 from x #}", "no SQL in it"),
        ("{{ config(materialized='table') }}\n", "no SQL in it"),
        ("select * from {{ ref('a') }} -- TODO: join", "a comment marks it as unfinished"),
        ("select * from {{ ref('a') }} limit 0", "it selects no rows"),
        ("select cast(null as int) as id where false", "it selects no rows"),
        ("select 1 as id", "it selects constants from nothing"),
    ],
)
def test_a_stub_is_told_from_a_model(text: str, why: str) -> None:
    assert sqltext.stub_reason(text).startswith(why)


@pytest.mark.parametrize(
    "text",
    [
        "select * from {{ ref('a') }}",
        "from x",
        "{{ dbt_utils.date_spine('day', \"'2020-01-01'\", 'current_date') }}",
        "select * from (values (1), (2)) v(a)",
    ],
)
def test_a_finished_model_is_no_stub(text: str) -> None:
    assert sqltext.stub_reason(text) == ""


def test_references_in_comments_do_not_count() -> None:
    text = (
        "-- {{ ref('old') }}\n/* {{ ref('older') }} */{# {{ ref('oldest') }} #}\n"
        "select '--' as dash from {{ ref('a') }} join {{ ref(\"package\", 'b') }} using (id) "
        "join {{ source( 's' , 't' ) }} using (id) join {{ ref('a') }} using (id)"
    )
    assert sqltext.refs(text) == ("a", "b")
    assert sqltext.sources(text) == (("s", "t"),)


@pytest.mark.parametrize(
    ("window", "part"),
    [
        ("partition by a", "without ORDER BY is unstable"),
        ("partition by a order by a desc", "ordered by its own partition"),
        ("partition by a order by coalesce(day, '')", "unstable where values tie"),
        ("partition by a order by day, order_id", ""),
    ],
)
def test_an_unstable_row_number_is_found(window: str, part: str) -> None:
    found = sqltext.warnings(f"select row_number() over ({window}) from x")
    assert part in found[0] if part else found == ()


def test_every_way_to_ask_for_the_day_is_found() -> None:
    text = "select current_date, now() , today(), note_now from x -- current_timestamp"
    assert sqltext.warnings(text)[0].startswith("current_date, now(), today(): the clock is pinned")


def test_invalid_yaml_is_named_with_its_line_and_read_line_by_line(tmp_path: Path) -> None:
    text = (
        "version: 2\nsources:\n  - name: raw\nmodels:\n  - name: one\n    description: a: b\n"
        "    columns:\n      - name: id\n      - name: 'day'\n  - name: two\n"
    )
    write_text(tmp_path / "x.yml", text)
    found = read_properties(tmp_path / "x.yml", tmp_path)
    assert [(model.name, [c.name for c in model.columns]) for model in found.models] == [
        ("one", ["id", "day"]),
        ("two", []),
    ]
    assert "x.yml: invalid YAML in line 6" in found.problems[0]


@pytest.mark.parametrize(
    "text", ["", "- a\n- b\n", "models: 3", "models: [a, {columns: 1}, {name: }]", "x: \x00"]
)
def test_yaml_of_any_shape_is_taken(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "x.yml", text)
    assert read_properties(tmp_path / "x.yml", tmp_path).models == ()


def test_models_come_in_the_order_of_work_even_in_a_circle(tmp_path: Path) -> None:
    write_text(tmp_path / "dbt_project.yml", "model-paths: [sql]\n")
    for name, text in {
        "fct_a": "select * from {{ ref('stg_b') }} join {{ ref('nowhere') }} using (id)",
        "stg_b": "select * from {{ source('raw', 'b') }}",
        "round_1": "select * from {{ ref('round_2') }}",
        "round_2": "select * from {{ ref('round_1') }}",
    }.items():
        write_text(tmp_path / "sql" / f"{name}.sql", text)
    write_text(tmp_path / "dbt_packages/p/models/given.sql", "select 1 as a from x")
    project = read_project(tmp_path)
    order = [model.name for model in project.models]
    assert sorted(order) == ["fct_a", "nowhere", "round_1", "round_2", "stg_b"]
    assert order.index("stg_b") < order.index("fct_a") > order.index("nowhere")
    missing = project.model("NOWHERE")
    assert missing is not None and missing.status == "missing"
    assert missing.why == "referred to by fct_a, and described nowhere"
    assert project.package_models == {"given"}


def test_a_table_stops_at_its_limits_and_says_so() -> None:
    limits = Limits(rows=3, bytes=200, cell=10)
    taken: list[int] = []

    def rows() -> object:
        for number in range(1_000_000):
            taken.append(number)
            yield (number, "x" * 50)

    answer = table(["n", "a|b"], rows(), limits)  # type: ignore[arg-type]
    assert answer.cut and answer.rows == 3 and len(taken) == 4
    assert "CUT after 3 rows" in answer.text and "| a\\|b |" in answer.text
    assert "| 0 | xxxxxxxxx… |" in answer.text
    few = table(["n"], [(index,) for index in range(100)], Limits(rows=100, bytes=60, cell=10))
    assert "at the limit of 60 bytes" in few.text and few.cut


def test_values_are_written_as_duckdb_writes_them() -> None:
    assert value_text(None) == "NULL" and value_text(True) == "true"
    assert value_text(datetime.datetime(2024, 2, 29, 1, 2)) == "2024-02-29 01:02:00"
    assert value_text(b"\x01a") == "\\x0161"
    assert value_text([1, None]) == "[1, NULL]"
    assert value_text(list(range(10**6))).endswith("49, …]")


def test_parts_that_do_not_fit_are_counted() -> None:
    answer = join(["a" * 50, "b" * 50, "c" * 50], Limits(bytes=110))
    assert answer.cut and "CUT: 1 further parts" in answer.text
    assert bounded("é" * 10, 5).startswith("éé\nCUT at 5 of 20 bytes")


def test_duckdb_s_own_parser_names_tables_and_functions() -> None:
    parsed = engine_parse("SELECT md5(a) FROM t, 'x.csv', read_csv('y') WHERE b IN (FROM s.u)")
    assert parsed.tables == {"t", "x.csv", "u"}
    assert parsed.table_functions == {"read_csv"} and "md5" in parsed.functions
    assert engine_parse("SELECT 1; SELECT 2").kinds == ("SELECT", "SELECT")
    assert engine_parse("SELEC 1").error
    assert "DELETE_QUERY_NODE" in engine_parse("WITH d AS (DELETE FROM t RETURNING *) FROM d").nodes


def test_a_log_line_is_bounded_and_half_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "queries" / "queries.jsonl"
    call = Call(
        time=log.now(),
        tool="query_database",
        arguments={"rows": 5, "note": "n" * 50_000},
        sql="x" * 50_000 + "\ud800",
        rows=None,
        ms=3,
        outcome="failed",
        error="no",
    )
    log.append(path, call)
    with path.open("a") as file:
        file.write('{"time": "half')
    assert len(path.read_text()) < 2 * log.LONGEST + 1000
    assert [item.error for item in log.read(path, last=10)] == ["no"]


def test_an_alias_is_the_name_under_which_a_model_is_built(tmp_path: Path) -> None:
    write_text(tmp_path / "dbt_project.yml", "name: p\n")
    text = "{{ config(materialized='table', alias='sales') }}\nselect * from {{ ref('x') }}"
    write_text(tmp_path / "models" / "rpt_sales.sql", text)
    model = read_project(tmp_path).model("rpt_sales")
    assert model is not None
    assert (model.name, model.table) == ("rpt_sales", "sales")
