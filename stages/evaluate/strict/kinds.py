"""What a column's values are compared as: its kind, and SQL that gives equal values one code.

A code is DuckDB's 64-bit hash of the value in the kind's common form, so that two tables in
two databases can be compared without moving their rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stages.common.sql import quote
from stages.evaluate.table import Column

NUMBER = "number"
MOMENT = "moment"
ZONED = "moment with a zone"
TEXT = "text"
BOOLEAN = "boolean"

WHOLE = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?\Z|BIGNUM\Z")
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
NESTED = re.compile(r".*\]\Z|(STRUCT|MAP|UNION)\(", re.DOTALL)
PLAIN = re.compile(r"(TIME|TIME WITH TIME ZONE|INTERVAL|UUID|BLOB|BIT)\Z")

QUOTED = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')""")
LEAVES = (
    (re.compile(r"\bENUM\([^()]*\)"), "VARCHAR"),
    (re.compile(r"\bDECIMAL\(\d+,\d+\)"), "DOUBLE"),
    (re.compile(r"\b(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT)\b"), "DOUBLE"),
    (re.compile(r"\b(DATE|TIMESTAMP(_S|_MS|_NS)?)\b(?! WITH)"), "TIMESTAMP"),
    (re.compile(r"\[\d+\]"), "[]"),
)

EXACT_IN_DOUBLE = 2**53
"""Up to so many units of its last digit, a number is one double and no other number is."""

SURE_DIGITS = 15
"""Decimals of so many digits never exceed `EXACT_IN_DOUBLE` units."""


@dataclass(frozen=True)
class Facet:
    """How a column takes part in a comparison."""

    kind: str
    """Columns of two kinds are never equal, unless both hold NULL only."""
    exact: bool
    """False for FLOAT and DOUBLE, which agree within a tolerance."""
    single: bool
    """FLOAT, of about seven digits."""
    scale: int | None
    """Digits after the point where the type may hold more units than a double can; else null."""
    code: str
    """SQL of the value's code; numbers by their nearest double."""
    text_code: str
    """SQL of an exact number's code by all its digits; elsewhere the same as `code`."""


@lru_cache(maxsize=4096)
def facet(column: Column) -> Facet:
    """The facet of a column, by its type alone."""
    name, kind = quote(column.name), column.type
    if kind in ("FLOAT", "DOUBLE"):
        code = f"hash(CAST({name} AS DOUBLE))"
        return Facet(NUMBER, False, kind == "FLOAT", None, code, code)
    if WHOLE.match(kind):
        scale = 0 if kind in ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM") else None
        return _exact_number(name, scale, f"CAST({name} AS VARCHAR)")
    if match := DECIMAL.match(kind):
        digits, scale = int(match[1]), int(match[2])
        text = f"CAST({name} AS VARCHAR)"
        trimmed = f"rtrim(rtrim({text}, '0'), '.')" if scale else text
        return _exact_number(name, scale if digits > SURE_DIGITS else None, trimmed)
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"):
        moment = f"TRY_CAST({name} AS TIMESTAMP)"
        return _other(MOMENT, _either(f"{moment} IS NOT NULL", moment, name))
    if kind == "TIMESTAMP_NS":
        moment = f"CAST({name} AS TIMESTAMP)"
        return _other(MOMENT, _either(f"CAST({moment} AS TIMESTAMP_NS) = {name}", moment, name))
    if kind == "TIMESTAMP WITH TIME ZONE":
        return _other(ZONED, f"hash({name})")
    if kind in ("VARCHAR", "JSON") or kind.startswith("ENUM("):
        return _other(TEXT, f"hash(CAST({name} AS VARCHAR))")
    if kind == "BOOLEAN":
        return _other(BOOLEAN, f"hash({name})")
    if PLAIN.match(kind):
        return _other(kind.lower(), f"hash({name})")
    if NESTED.match(kind) and not kind.startswith("UNION("):
        common = common_type(kind)
        return _other(common, f"hash(CAST({name} AS {common}))")
    return _other(kind, f"hash(CAST({name} AS VARCHAR))")


def common_type(kind: str) -> str:
    """A nested type with its leaves widened: numbers to DOUBLE, dates to TIMESTAMP."""
    parts = QUOTED.split(kind)
    for at in range(0, len(parts), 2):
        for leaf, wide in LEAVES:
            parts[at] = leaf.sub(wide, parts[at])
    return "".join(parts)


def _exact_number(name: str, scale: int | None, text: str) -> Facet:
    code = f"hash(CAST({name} AS DOUBLE))"
    return Facet(NUMBER, True, False, scale, code, f"hash({text})")


def _other(kind: str, code: str) -> Facet:
    return Facet(kind, True, False, None, code, code)


def _either(fits: str, moment: str, name: str) -> str:
    """The code as a TIMESTAMP where the value is one, else as text; NULL is NULL in both."""
    return f"CASE WHEN {fits} THEN hash({moment}) ELSE hash(CAST({name} AS VARCHAR)) END"
