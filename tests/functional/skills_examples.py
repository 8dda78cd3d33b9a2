"""The examples in a skill or prompt: how they are written, and whether they came out as written.

A file's fenced blocks, from top to bottom, on one in-memory database of the stack's DuckDB:

    ```sql setup    statements that must succeed
    ```sql          one query; it needs a ```result or an ```error after it
    ```result       a line of column names, then a line a row, cells apart by ` | `;
                    a single line is a single value, `(no rows)` an empty result
    ```error        a part of the error's message
    ```sql values   a line each: `expression -- value` or `select … -- value`; several cells
                    as `(1, a), (2, b)`, nothing as `no rows`, an error as `error: part`
    ```dbt          files and steps in a dbt project of its own, see `DbtSteps`
    ```text         not executed

Where engines differ, `result` and `error` name theirs (```result DuckDB 1.1), a line of values
ends with `(DuckDB 1.1: other)`, and a line of dbt begins with `[dbt 1.8]` or `[DuckDB 1.1]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(.*)$")
LABEL = re.compile(r"^(DuckDB|dbt) (\d+\.\d+)$")
OTHERWISE = re.compile(r"^(.*?)\s*\(((?:DuckDB|dbt) \d+\.\d+): (.*)\)$")
LABELLED = re.compile(r"^\[((?:DuckDB|dbt) \d+\.\d+)\] (.*)$")
NO_ROWS = "no rows"


class BadExampleError(Exception):
    """An example that is not written as it must be."""


@dataclass
class Example:
    """One statement, or one dbt project's steps, and what must come of it."""

    place: str
    kind: str
    """`setup`, `query` or `dbt`."""
    code: str
    expected: dict[str, str] = field(default_factory=dict)
    """By label of a version, or '' for all others: a rendered result or `error: part`."""
    table: bool = False
    """True where the result is written with column names."""

    def wanted(self, versions: Mapping[str, str]) -> str | None:
        """What must come of it under these versions; None where nothing is said."""
        return choose(self.expected, versions)


def fits(label: str, versions: Mapping[str, str]) -> bool:
    """Whether a label such as `DuckDB 1.1` names one of the versions."""
    match = LABEL.match(label)
    assert match is not None
    version = versions["duckdb" if match.group(1) == "DuckDB" else "dbt-core"]
    return version.split(".")[:2] == match.group(2).split(".")


def choose(expected: Mapping[str, str], versions: Mapping[str, str]) -> str | None:
    """The value whose label fits, else the one without a label."""
    for label, value in expected.items():
        if label and fits(label, versions):
            return value
    return expected.get("")


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, info string and content of every fenced block."""
    info, start, lines = "", 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif not start:
            info, start, lines = fence.group(1).strip(), number, []
        elif fence.group(1):
            raise BadExampleError(f"line {number}: a block begins inside the block of line {start}")
        else:
            yield start, info, "\n".join(lines)
            start = 0
    if start:
        raise BadExampleError(f"line {start}: the block is never closed")


def read_examples(path: Path) -> list[Example]:
    """Every example of a Markdown file; raises `BadExampleError` with the place of a faulty one."""
    name = path.parent.name if path.name == "SKILL.md" else path.name
    examples: list[Example] = []
    try:
        found = list(blocks(path.read_text(encoding="utf-8")))
    except BadExampleError as error:
        raise BadExampleError(f"{name}: {error}") from None
    for line, info, content in found:
        place = f"{name}:{line}"
        kind, _, label = info.partition(" ")
        if info == "sql setup":
            examples.append(Example(place, "setup", content))
        elif info == "sql":
            examples.append(Example(place, "query", content))
        elif info == "sql values":
            examples += read_values(name, line, content)
        elif info == "dbt":
            examples.append(Example(place, "dbt", content))
        elif kind in ("result", "error"):
            _attach(place, kind, label, content, examples)
        elif info != "text":
            raise BadExampleError(f"{place}: a block of the kind {info!r} cannot be executed")
    for example in examples:
        if example.kind == "query" and not example.expected:
            raise BadExampleError(f"{example.place}: no result is written for this query")
    return examples


def _attach(place: str, kind: str, label: str, content: str, examples: list[Example]) -> None:
    if not examples or examples[-1].kind != "query" or label in examples[-1].expected:
        raise BadExampleError(f"{place}: this {kind} belongs to no query")
    if label and not LABEL.match(label):
        raise BadExampleError(f"{place}: {label!r} names no version")
    if kind == "error":
        examples[-1].expected[label] = f"error: {content.strip()}"
        return
    lines = [" | ".join(_cells(line)) for line in content.strip().splitlines()]
    examples[-1].table = examples[-1].table or len(lines) > 1
    examples[-1].expected[label] = NO_ROWS if lines == ["(no rows)"] else "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def read_values(name: str, line: int, content: str) -> list[Example]:
    """The lines of a `sql values` block."""
    examples = []
    for number, text in enumerate(content.splitlines(), line + 1):
        if not text.strip():
            continue
        code, mark, value = text.rpartition(" -- ")
        if not mark:
            raise BadExampleError(f"{name}:{number}: no value is written for this expression")
        query = code.strip()
        if not re.match(r"(select|from|with|create)\b", query):
            query = f"select {query}"
        other = OTHERWISE.match(value.strip())
        expected = {other.group(2): other.group(3), "": other.group(1)} if other else {"": value}
        expected = {label: item.strip() for label, item in expected.items()}
        examples.append(Example(f"{name}:{number}", "query", query, expected))
    return examples


@dataclass
class DbtSteps:
    """A `dbt` block: a project `demo` on `demo.duckdb`, its day 2024-03-15.

    --- PATH            the lines that follow are this file's, until a step or another file
    ! STATEMENT         executed in the database
    $ dbt ARGUMENTS     must succeed; with ` # fails` at its end, it must not
    > PART              stands in the output of the last command
    >! PART             does not stand there
    @ YYYY-MM-DD        the day from here on
    ? QUERY             its rows follow, one `= cell | cell` a line; `= (no rows)` for none
    """

    steps: list[dict[str, Any]]


def read_steps(example: Example, versions: Mapping[str, str]) -> DbtSteps:
    """Parse a `dbt` block for the given versions."""
    steps: list[dict[str, Any]] = []
    file: dict[str, Any] | None = None
    for text in example.code.splitlines():
        line, skipped = text, False
        if labelled := LABELLED.match(text):
            line, skipped = labelled.group(2), not fits(labelled.group(1), versions)
        mark, _, rest = line.partition(" ")
        rest = rest.strip()
        if mark == "---":
            file = {"do": "file", "path": rest, "text": ""}
            steps.append(file)
            continue
        if mark in ("!", "$", ">", ">!", "@", "?", "="):
            file = None
            if not skipped:
                _step(example, steps, mark, rest)
        elif file is not None:
            file["text"] += line + "\n"
        elif line.strip():
            raise BadExampleError(f"{example.place}: this is no step: {line!r}")
    if not any(step["do"] == "dbt" for step in steps):
        raise BadExampleError(f"{example.place}: no dbt command in it")
    for step in steps:
        checked = step.get("rows") or step.get("parts") or step["do"] != "query"
        if not checked:
            raise BadExampleError(f"{example.place}: no rows are written for {step['sql']!r}")
    return DbtSteps(steps)


def _step(example: Example, steps: list[dict[str, Any]], mark: str, rest: str) -> None:
    last = steps[-1] if steps else {"do": ""}
    if mark == "!":
        steps.append({"do": "execute", "sql": rest})
    elif mark == "@":
        steps.append({"do": "day", "day": rest})
    elif mark == "?":
        steps.append({"do": "query", "sql": rest, "rows": []})
    elif mark == "$":
        command, _, remark = rest.partition("#")
        words = command.split()
        if words[:1] != ["dbt"]:
            raise BadExampleError(f"{example.place}: only dbt can be run: {rest!r}")
        fails = remark.strip() == "fails"
        steps.append({"do": "dbt", "words": words[1:], "fails": fails, "parts": [], "not": []})
    elif mark == "=" and last["do"] == "query":
        last["rows"].append(" | ".join(_cells(rest)))
    elif mark in (">", ">!") and last["do"] == "dbt":
        last["parts" if mark == ">" else "not"].append(rest)
    else:
        raise BadExampleError(f"{example.place}: {mark!r} does not follow what it speaks of")


def render(example: Example, seen: Mapping[str, Any]) -> str:
    """An observed result in the notation of the example."""
    if seen["error"] is not None:
        return f"error: {seen['error']}"
    rows, columns = seen["rows"], seen["columns"]
    if not rows:
        return NO_ROWS
    if example.table:
        return "\n".join(" | ".join(line) for line in [columns, *rows])
    if len(rows) == 1 and len(rows[0]) == 1:
        return str(rows[0][0])
    return ", ".join(f"({', '.join(row)})" for row in rows)


def faults_of_query(example: Example, seen: Mapping[str, Any], versions: Mapping[str, str]) -> str:
    """Why an executed query is not as written; empty when it is."""
    if example.kind == "setup":
        return f"{example.place}: {seen['error']}" if seen["error"] else ""
    wanted, found = example.wanted(versions), render(example, seen)
    if wanted is None:
        return f"{example.place}: nothing is written for {dict(versions)}, it gives {found}"
    fine = found == wanted
    if wanted.startswith("error: "):
        fine = found.startswith("error: ") and wanted.removeprefix("error: ") in found
    return "" if fine else f"{example.place}: written {wanted!r}, found {found!r}: {example.code}"


def faults_of_steps(place: str, steps: DbtSteps, seen: list[Mapping[str, Any]]) -> list[str]:
    """Why the steps of a `dbt` block did not come out as written."""
    faults = []
    for step, found in zip(steps.steps, seen, strict=True):
        if step["do"] == "dbt":
            command, output = " ".join(step["words"]), found["output"]
            if found["failed"] != step["fails"]:
                faults.append(f"{place}: dbt {command}: failed is {found['failed']}: {output}")
            faults += [
                f"{place}: dbt {command}: no {part!r} in: {output}"
                for part in step["parts"]
                if part not in output
            ]
            faults += [
                f"{place}: dbt {command}: {part!r} in: {output}"
                for part in step["not"]
                if part in output
            ]
        elif step["do"] == "query":
            rows = found["error"] or [" | ".join(row) for row in found["rows"]] or ["(no rows)"]
            if rows != step["rows"]:
                faults.append(f"{place}: {step['sql']}: written {step['rows']}, found {rows}")
        elif found.get("error"):
            faults.append(f"{place}: {found['error']}")
    return faults
