"""The fast comparison against a plain transcription of the published rules, on generated pairs."""

from __future__ import annotations

import warnings
from collections import Counter

import duckdb
import pytest

from stages.evaluate.official import plain
from stages.evaluate.official.compare import EvaluatorError, compare
from stages.evaluate.table import Table, open_table
from tests.unit.generated_tables import TYPES, Pair, pair

LIGHT, WHOLE = 2_000, 20_000


def opened(connection: duckdb.DuckDBPyConnection, given: Pair) -> tuple[Table, Table] | None:
    """Both tables; None where DuckDB refuses a value of the pair."""
    try:
        for statement in given.statements:
            connection.execute(statement)
    except duckdb.Error:
        return None
    try:
        return open_table(connection, "gold"), open_table(connection, "result")
    except duckdb.Error:
        for name in ("gold", "result"):
            try:
                connection.execute(f"SELECT * FROM {name}").fetchdf()
            except duckdb.Error:
                return None
        raise


def outcome(judge: object, *given: object) -> bool | str:
    try:
        return bool(judge(*given))  # type: ignore[operator]
    except Exception:
        return "raises"


def disagreements(
    monkeypatch: pytest.MonkeyPatch, seeds: range
) -> tuple[list[int], Counter[object]]:
    """The seeds on which the two differ, and how often each outcome was."""
    wrong, seen = [], Counter[object]()
    with duckdb.connect(config={"threads": 1}) as connection:
        for seed in seeds:
            given = pair(seed)
            monkeypatch.setattr("stages.evaluate.table.AT_ONCE", 0 if seed % 2 else 250_000)
            tables = opened(connection, given)
            if tables is None:
                seen["refused"] += 1
                continue
            gold, result = (
                connection.execute(f"SELECT * FROM {name}").fetchdf() for name in ("gold", "result")
            )
            rules = given.columns, given.ignore_order
            expected = outcome(plain.matches, gold, result, *rules)
            try:
                found: bool | str = compare(*tables, *rules).matched
            except EvaluatorError:
                found = "raises"
            seen[expected] += 1
            if found != expected:
                wrong.append(seed)
    return wrong, seen


def agreement(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrong, seen = disagreements(monkeypatch, seeds)
    assert not wrong, f"seeds {wrong[:20]} of {len(wrong)}; {seen}"
    share = {what: count / len(seeds) for what, count in seen.items()}
    assert share[True] > 0.2 and share[False] > 0.2 and seen["raises"], share


def test_the_comparison_agrees_with_the_plain_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    agreement(monkeypatch, range(LIGHT))


@pytest.mark.heavy
def test_the_comparison_agrees_with_the_plain_rules_on_many_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreement(monkeypatch, range(LIGHT, LIGHT + WHOLE))


def test_the_generated_pairs_hold_every_type_that_duckdb_has() -> None:
    with duckdb.connect() as connection:
        listed = connection.execute(
            "SELECT DISTINCT logical_type FROM duckdb_types() WHERE internal"
        ).fetchall()
    names = " ".join(kind.name for kind in TYPES)
    aliases = {"LIST": "[]", "ARRAY": "[2]", "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
    aliases |= {"TIME WITH TIME ZONE": "TIMETZ", "NULL": "", "INVALID": "", "ANY": ""}
    aliases |= {"TUPLE": "", "TYPE": ""}  # no column is of these
    missing = [name for (name,) in listed if aliases.get(name, name) not in names]
    assert not missing
