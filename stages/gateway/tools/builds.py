"""Tools that check what dbt has built, and read why it did not."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import Field

from stages.common.sql import quote
from stages.gateway.connection import Reader
from stages.gateway.desk import Desk
from stages.gateway.models import Answer, failed
from stages.gateway.project import Model, Project, read_project
from stages.gateway.relations import Relation, count, count_or_reason, pick, relations, unknown
from stages.gateway.render import clip, join, table
from stages.gateway.tools.models import ModelName


def _built(reader: Reader, project: Project, name: str) -> tuple[Relation, Model | None]:
    """What dbt has built of a model.

    Raises:
        CallError: it is not built, or there is no such model.
    """
    found = relations(reader)
    wanted = name.strip().removesuffix(".sql").rpartition("/")[2]
    model = project.model(wanted)
    relation = pick(found, model.table if model else wanted)
    if relation is None and model is None:
        choices = [item.name for item in project.models] + [item.label for item in found]
        raise unknown("model or table", wanted, choices)
    if relation is None:
        raise failed(
            f"{wanted} is not in the database ({model.status if model else 'unknown'})",
            f"run `dbt run --select {wanted}` and read its output with dbt_error_parser",
        )
    return relation, model


def check_model_schema(desk: Desk, model: ModelName) -> Answer:
    """Compare a built model's columns with its YAML: missing, extra, order, case and type."""
    project = read_project(desk.settings.project)
    with desk.open() as reader:
        relation, noted = _built(reader, project, model)
    columns = noted.note.columns if noted and noted.note else ()
    if not columns:
        rows = [(column.name, column.type) for column in relation.columns]
        title = f"{relation.label}: the YAML lists no columns to compare with. It has:"
        return table(["column", "type"], rows, desk.limits, title=title)
    theirs = {column.name.lower(): column for column in relation.columns}
    order = [column.name.lower() for column in relation.columns]
    lines: list[tuple[str, str, str, str]] = []
    for column in columns:
        have = theirs.get(column.name.lower())
        if have is None:
            lines.append((column.name, column.data_type, "", "MISSING"))
            continue
        verdict = "ok"
        if have.name != column.name:
            verdict = f"ok, written {have.name}"
        if column.data_type and not _same_type(column.data_type, have.type):
            verdict = "OTHER TYPE"
        lines.append((column.name, column.data_type, have.type, verdict))
    noted_names = [column.name.lower() for column in columns]
    for extra in relation.columns:
        if extra.name.lower() not in noted_names:
            lines.append((extra.name, "", extra.type, "not in the YAML"))
    shared = [name for name in noted_names if name in theirs]
    same_order = shared == [name for name in order if name in noted_names]
    bad = sum(line[3] in ("MISSING", "OTHER TYPE") for line in lines)
    verdict = f"{bad} columns do not match" if bad else "all YAML columns are there"
    return table(
        ["column", "YAML type", "built type", "verdict"],
        lines,
        desk.limits,
        title=f"{relation.label}: {verdict}; order {'as in' if same_order else 'differs from'} "
        "the YAML.",
    )


def _same_type(noted: str, have: str) -> bool:
    aliases = {
        "STRING": "VARCHAR",
        "TEXT": "VARCHAR",
        "INT": "INTEGER",
        "INT64": "BIGINT",
        "FLOAT64": "DOUBLE",
        "BOOL": "BOOLEAN",
        "DATETIME": "TIMESTAMP",
        "NUMERIC": "DECIMAL",
    }
    first, second = (re.sub(r"\(.*", "", text).strip().upper() for text in (noted, have))
    return aliases.get(first, first) == aliases.get(second, second)


def validate_model_output(desk: Desk, model: ModelName) -> Answer:
    """Look for faults in a built model: no rows, NULL or constant columns, duplicates, fan-out.

    It runs the YAML's `unique` and `not_null` tests itself, and sets the number of rows beside
    those of what the model reads. A finding is a hint, not always a fault.
    """
    project = read_project(desk.settings.project)
    with desk.open() as reader:
        relation, noted = _built(reader, project, model)
        total = count(reader, relation)
        title = f"{relation.label}: {total} rows, {len(relation.columns)} columns"
        if total == 0:
            return Answer(
                text=f"{title}\n- EMPTY: a filter or an inner join removed everything, or an "
                "input is empty (see audit_model_sources)",
                rows=0,
            )
        findings = _column_findings(reader, relation, total)
        whole = f"SELECT count(*) FROM (SELECT DISTINCT * FROM {relation.sql})"
        distinct = int(reader.rows(whole)[0][0])
        if distinct < total:
            findings.append(f"{total - distinct} rows are exact duplicates of others")
        for column in noted.note.columns if noted and noted.note else ():
            findings += _test_findings(reader, relation, column.name, column.tests)
        found = relations(reader)
        inputs = []
        for name in noted.refs if noted else ():
            source = pick(found, name)
            if source is not None:
                inputs.append((name, count_or_reason(reader, source)))
        sizes = [size for _, size in inputs if isinstance(size, int)]
        if sizes and total > max(sizes):
            findings.append(f"more rows than any input (largest: {max(sizes)}): fan-out?")
    parts: list[str | Answer] = [
        title,
        "\n".join(f"- {text}" for text in findings) or "No findings.",
    ]
    if inputs:
        parts.append(table(["input", "rows"], inputs, desk.limits))
    return join(parts, desk.limits)


def _column_findings(reader: Reader, relation: Relation, total: int) -> list[str]:
    columns = relation.columns[:200]
    counts = ", ".join(
        f"count({quote(column.name)}), count(DISTINCT {quote(column.name)})" for column in columns
    )
    row = reader.rows(f"SELECT {counts} FROM {relation.sql}")[0]
    found = []
    for index, column in enumerate(columns):
        filled, distinct = row[2 * index], row[2 * index + 1]
        if filled == 0:
            found.append(f"{column.name} is NULL in every row")
        elif distinct == 1 and filled == total and total > 1:
            found.append(f"{column.name} has the same value in every row")
    return found


def _test_findings(
    reader: Reader, relation: Relation, name: str, tests: tuple[str, ...]
) -> list[str]:
    if name.lower() not in {column.name.lower() for column in relation.columns}:
        return [f"{name} is in the YAML and not in the table (see check_model_schema)"]
    column = quote(relation.column(name).name)
    nulls, repeated = reader.rows(
        f"SELECT count(*) - count({column}), count({column}) - count(DISTINCT {column}) "
        f"FROM {relation.sql}"
    )[0]
    found = []
    if "not_null" in tests and nulls:
        found.append(f"FAILS not_null: {name} is NULL in {nulls} rows")
    if "unique" in tests and repeated:
        found.append(f"FAILS unique: {name} repeats in {repeated} rows")
    return found


HINTS = (
    (
        r"depends on a node named '([^']+)'.*?not found",
        "write the model {0}, or correct the name in ref()",
    ),
    (
        r"depends on a source named '([^']+)'.*?not found",
        "define the source {0} in YAML, or correct source()",
    ),
    (r"two schema\.yml entries|found two|found duplicate", "one of the two has to go"),
    (
        r"'(\w+)' is undefined",
        "the macro or variable {0} does not exist: is its package installed?",
    ),
    (r"Could not set lock|Conflicting lock", "another process has the database open: wait, retry"),
    (
        r'Referenced column "([^"]+)" not found',
        "{0} is not a column there: see describe_table of the inputs",
    ),
    (r"Table with name (\S+) does not exist", "{0} is not built yet: build it first"),
    (r"must appear in the GROUP BY", "add the column to GROUP BY, or aggregate it"),
    (r"Could not convert|Conversion Error", "look at the values with explore_column; use TRY_CAST"),
    (r"No function matches", "cast the arguments to the types that the function takes"),
    (r"Ambiguous reference", "put the table's alias before the column"),
    (r"syntax error at or near \"?([^\s\"]+)", "look just before {0} in the compiled SQL"),
    (r"Circular|cycle", "two models refer to each other: break the circle"),
    (r"(?i)yaml|mapping values|could not be parsed|Parsing Error", "mend the YAML at that line"),
    (r"packages? .*not (found|installed)|dbt deps", "packages are vendored: do not run dbt deps"),
)
"""What an error's text says to do next; the first that fits is given."""


def dbt_error_parser(
    desk: Desk,
    output: Annotated[
        str,
        Field(description="dbt's output; empty: the last run, from target/run_results.json."),
    ] = "",
) -> Answer:
    """Pick the errors out of dbt's output: which model, what went wrong, and what to try next."""
    if output.strip():
        errors = _from_text(output)
        origin = "the given output"
    else:
        errors, origin = _from_results(desk)
    if not errors:
        return Answer(text=f"No errors in {origin}.", rows=0)
    wide = desk.limits.model_copy(update={"cell": 400})
    rows = [(node, message, _hint(message)) for node, message in errors]
    return table(["node", "error", "try"], rows, wide, title=f"{len(rows)} errors in {origin}")


def _from_results(desk: Desk) -> tuple[list[tuple[str, str]], str]:
    path = desk.settings.project / "target" / "run_results.json"
    if not path.is_file():
        raise failed("there is no target/run_results.json", "run dbt, or pass its output")
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        results = content["results"]
        return [
            (str(item["unique_id"]), clip(str(item.get("message") or ""), 1000))
            for item in results
            if item.get("status") in ("error", "fail", "runtime error")
        ], "target/run_results.json"
    except (ValueError, KeyError, TypeError, AttributeError):
        raise failed("target/run_results.json cannot be read", "pass dbt's output") from None


START = re.compile(
    r"((?:Compilation|Runtime|Database|Parsing|Dependency|Validation|Syntax|Internal) Error)"
    r"(?: in (?:\w+ )?(\S+))?[^\n]*|^Failure in (?:\w+ )?(\S+)[^\n]*|"
    r"^((?:Parser|Binder|Catalog|IO|Conversion|Invalid Input|Out of Memory) Error)[^\n]*",
    re.MULTILINE,
)


def _from_text(output: str) -> list[tuple[str, str]]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output[-200_000:])
    plain = re.sub(r"^\d\d:\d\d:\d\d(?:\.\d+)?\s{0,2}", "", plain, flags=re.MULTILINE)
    found: dict[tuple[str, str], None] = {}
    starts = list(START.finditer(plain))
    for index, start in enumerate(starts):
        inner = start.group(4) is not None
        if inner and index and plain[starts[index - 1].end() : start.start()].count("\n") < 4:
            continue
        end = len(plain)
        for later in starts[index + 1 :]:
            if later.group(4) is None:
                end = later.start()
                break
        lines = plain[start.start() : end].splitlines()
        body = [line.strip() for line in lines[:12]]
        stop = next((at for at, line in enumerate(body) if at and not line), len(body))
        node = start.group(2) or start.group(3) or "(project)"
        found[(node.rstrip(":"), clip(" ".join(body[: max(stop, 2)]), 600))] = None
    return list(found)


def _hint(message: str) -> str:
    for pattern, text in HINTS:
        if match := re.search(pattern, message, re.DOTALL):
            return text.format(*(match.groups() or ("",)))
    return "read the compiled SQL in target/compiled/, and try it with query_database"
