"""Skills and prompts: what is read, what is refused, and what the ablations leave out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stages.agent import prompts, skills
from stages.agent.prompts import Facts, Prompt, describe_skills, fill
from stages.agent.skills import install_skills, known_skills, read_skills
from stages.common.errors import UnknownChoiceError, UserError
from tests.functional.skills_examples import (
    BadExampleError,
    choose,
    faults_of_query,
    faults_of_steps,
    read_examples,
    read_steps,
)

FIVE = {"dbt-workflow", "dbt-write", "dbt-debugging", "dbt-date-spines", "duckdb-sql"}
NEW = {"duckdb": "2.0.1", "dbt-core": "1.11.16"}
OLD = {"duckdb": "1.1.3", "dbt-core": "1.8.10"}
FACTS = Facts(
    instruction="Build {this} from {{ that }}.",
    database="shop.duckdb",
    today="2024-03-15",
    dbt_version="1.11.16",
    duckdb_version="2.0.1",
)


def test_there_are_five_skills_and_each_is_short() -> None:
    assert set(known_skills()) == FIVE
    for skill in read_skills(known_skills()):
        assert 60 <= len(skill.text.splitlines()) <= 160, skill.name
        assert 40 <= len(skill.description) <= 250, skill.name


def test_skills_are_installed_where_the_cli_looks_for_them(tmp_path: Path) -> None:
    chosen = read_skills(["duckdb-sql", "dbt-write", "duckdb-sql"])
    assert [skill.name for skill in chosen] == ["duckdb-sql", "dbt-write"]
    install_skills(chosen, tmp_path)
    found = sorted(path.parent.name for path in tmp_path.glob(".claude/skills/*/SKILL.md"))
    assert found == ["dbt-write", "duckdb-sql"]
    text = (tmp_path / ".claude/skills/duckdb-sql/SKILL.md").read_text()
    assert text == (skills.FOLDER / "duckdb-sql" / "SKILL.md").read_text()


def test_no_skill_chosen_installs_nothing(tmp_path: Path) -> None:
    install_skills(read_skills([]), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_skill_is_answered_with_the_valid_ones() -> None:
    with pytest.raises(UnknownChoiceError, match=r"unknown skill 'duckdb-sqk'[^?]*mean duckdb-sql"):
        read_skills(["dbt-write", "duckdb-sqk"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No front matter\n", "does not begin with a front matter"),
        ("---\nname: odd\ndescription: d\n---\n", "does not begin with a front matter"),
        ("---\nname: odd\n---\ntext\n", "description"),
        ("---\nname: odd\ndescription: d\ncolour: blue\n---\ntext\n", "colour"),
        ("---\nname: [\n---\ntext\n", "this is no skill"),
        ("---\nname: other\ndescription: d\n---\ntext\n", "calls itself 'other'"),
    ],
)
def test_a_faulty_skill_is_named_with_its_fault(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "SKILL.md").write_text(text)
    with pytest.raises(UserError, match=message):
        read_skills(["odd"], tmp_path)


def test_the_configurations_are_full_none_and_one_without_each(repository: Path) -> None:
    found = {
        path.stem: yaml.safe_load(path.read_text())
        for path in (repository / "conf" / "skills").glob("*.yaml")
    }
    assert set(found) == {"full", "none", *(f"no-{name}" for name in FIVE)}
    for name, choice in found.items():
        assert set(choice) == {"name", "skills"}
        assert choice["name"] == name
        assert [skill.name for skill in read_skills(choice["skills"])] == choice["skills"]
        left_out = {"full": set(), "none": FIVE}.get(name, {name.removeprefix("no-")})
        assert FIVE - set(choice["skills"]) == left_out


def test_the_skills_name_no_skill_that_is_not_there() -> None:
    texts = [path.read_text() for path in skills.FOLDER.glob("*/SKILL.md")]
    texts += [path.read_text() for path in prompts.FOLDER.glob("*.md")]
    named = {name for text in texts for name in re.findall(r"[Ss]kill `([^`]+)`", text)}
    assert named
    assert named <= FIVE


@pytest.mark.parametrize("prompt", list(Prompt))
def test_every_prompt_can_be_filled(prompt: Prompt) -> None:
    text = fill(prompt, FACTS)
    assert len(text) > 500
    assert "{tool_prefix}" not in text
    assert ("Build {this} from {{ that }}." in text) == (prompt in (Prompt.CLAUDE_MD, "verifier"))


def test_every_fact_is_told_somewhere() -> None:
    texts = "".join(path.read_text() for path in prompts.FOLDER.glob("*.md"))
    named = set(prompts.PLACEHOLDER.findall(texts))
    assert named == set(Facts.model_fields)


def test_an_unknown_placeholder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("{today} {{ ref('x') }} {tody}")
    with pytest.raises(UnknownChoiceError, match="unknown placeholder 'tody'"):
        fill(Prompt.SYSTEM, FACTS, tmp_path)


def test_doubled_braces_and_braces_in_a_value_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("{{ ref('x') }} {instruction}")
    assert fill(Prompt.SYSTEM, FACTS, tmp_path) == "{{ ref('x') }} Build {this} from {{ that }}."


def test_the_tools_are_named_with_the_gateways_prefix() -> None:
    text = fill(Prompt.TOOLS, FACTS.model_copy(update={"tool_prefix": "mcp__other__"}))
    assert "`mcp__other__query_database`" in text
    assert "gateway" not in text


def test_the_installed_skills_are_listed_with_their_descriptions() -> None:
    described = describe_skills({item.name: item.description for item in read_skills(FIVE)})
    assert described.count("\n") == 4
    assert "- `duckdb-sql`: How DuckDB" in described
    assert describe_skills({}) == "None are installed."


def example_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "example.md"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sql\nselect 1\n```\n", "example.md:1: no result is written for this query"),
        ("```sql values\n1 + 1\n```\n", "example.md:2: no value is written"),
        ("```sql\nselect 1\n```\n```result DuckDB\n1\n```\n", "'DuckDB' names no version"),
        ("```result\n1\n```\n", "this result belongs to no query"),
        ("```sql\nselect 1\n```\n```result\n1\n```\n```result\n2\n```\n", "belongs to no query"),
        ("```python\n1\n```\n", "'python' cannot be executed"),
        ("```sql\nselect 1\n", "line 1: the block is never closed"),
        ("```sql\nselect 1\n```sql\n", "begins inside the block of line 1"),
    ],
)
def test_an_example_that_cannot_be_checked_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(BadExampleError, match=message):
        read_examples(example_file(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--- models/a.sql\nselect 1\n", "no dbt command in it"),
        ("$ dbt run\n? select 1\n", "no rows are written for 'select 1'"),
        ("$ rm a\n", "only dbt can be run"),
        ("> words\n$ dbt run\n", "does not follow what it speaks of"),
        ("words\n$ dbt run\n", "this is no step: 'words'"),
    ],
)
def test_a_dbt_example_that_cannot_be_checked_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    [example] = read_examples(example_file(tmp_path, f"```dbt\n{text}```\n"))
    with pytest.raises(BadExampleError, match=message):
        read_steps(example, NEW)


def test_each_engine_is_held_to_its_own_result(tmp_path: Path) -> None:
    text = "```sql values\nx // y   -- error: by zero (DuckDB 1.1: NULL)\n```\n"
    [example] = read_examples(example_file(tmp_path, text))
    assert example.code == "select x // y"
    assert choose(example.expected, NEW) == "error: by zero"
    assert choose(example.expected, OLD) == "NULL"
    null = {"error": None, "columns": ["a"], "rows": [["NULL"]]}
    assert faults_of_query(example, null, OLD) == ""
    assert "written 'error: by zero', found 'NULL'" in faults_of_query(example, null, NEW)


def test_a_version_without_a_result_is_a_fault(tmp_path: Path) -> None:
    text = "```sql\nselect 1\n```\n```result DuckDB 1.1\n1\n```\n"
    [example] = read_examples(example_file(tmp_path, text))
    seen = {"error": None, "columns": ["1"], "rows": [["1"]]}
    assert faults_of_query(example, seen, OLD) == ""
    assert "nothing is written for" in faults_of_query(example, seen, NEW)


def test_a_dbt_step_that_comes_out_otherwise_is_a_fault(tmp_path: Path) -> None:
    text = "```dbt\n$ dbt run\n> fine\n>! odd\n? select 1\n= 1\n```\n"
    [example] = read_examples(example_file(tmp_path, text))
    steps = read_steps(example, NEW)

    def faults(*, failed: bool, output: str, rows: list[list[str]]) -> int:
        query = {"error": None, "columns": ["a"], "rows": rows}
        return len(faults_of_steps("x", steps, [{"failed": failed, "output": output}, query]))

    assert faults(failed=False, output="fine", rows=[["1"]]) == 0
    assert faults(failed=True, output="fine", rows=[["1"]]) == 1
    assert faults(failed=False, output="odd", rows=[["1"]]) == 2
    assert faults(failed=False, output="fine", rows=[]) == 1
