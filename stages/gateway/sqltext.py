"""Reads a dbt model's text, which is Jinja and SQL at once and which no parser takes whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

JINJA_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)
SQL_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*|/\*.*?\*/", re.DOTALL)
CONFIG = re.compile(r"\{\{-?\s*config\s*\(.*?\)\s*-?\}\}", re.DOTALL)
REF = re.compile(r"\bref\s*\(\s*(['\"])(?P<one>[^'\"]+)\1\s*(?:,\s*(['\"])(?P<two>[^'\"]+)\3\s*)?")
SOURCE = re.compile(r"\bsource\s*\(\s*(['\"])([^'\"]+)\1\s*,\s*(['\"])([^'\"]+)\3\s*\)")
MATERIALIZED = re.compile(r"materialized\s*=\s*['\"](\w+)['\"]")
ALIAS = re.compile(r"\balias\s*=\s*['\"]([^'\"]+)['\"]")
CLOCK = re.compile(
    r"\b(current_date|current_timestamp|localtimestamp|getdate|today\s*\(\s*\)|now\s*\(\s*\)|"
    r"dbt\.current_timestamp|modules\.datetime)",
    re.IGNORECASE,
)
ROW_NUMBER = re.compile(r"\brow_number\s*\(\s*\)\s*over\s*\(", re.IGNORECASE)
UNIQUE = re.compile(r"(\b|_)(id|key|uuid|sk|pk|hash|number)\b|id\b", re.IGNORECASE)


def without_comments(text: str) -> str:
    """The text without Jinja and SQL comments; comment signs inside strings stay."""
    plain = JINJA_COMMENT.sub(" ", text)
    return SQL_COMMENT.sub(lambda found: found.group(1) or " ", plain)


def refs(text: str) -> tuple[str, ...]:
    """Models that it refers to, in order, each once."""
    plain = without_comments(text)
    names = [found.group("two") or found.group("one") for found in REF.finditer(plain)]
    return tuple(dict.fromkeys(names))


def sources(text: str) -> tuple[tuple[str, str], ...]:
    """Sources (source name, table name) that it reads, in order, each once."""
    found = SOURCE.finditer(without_comments(text))
    return tuple(dict.fromkeys((item.group(2), item.group(4)) for item in found))


def alias(text: str) -> str:
    """The name that a model's `config(alias=…)` gives its table; empty where there is none."""
    found = CONFIG.search(without_comments(text))
    named = ALIAS.search(found.group()) if found else None
    return named.group(1) if named else ""


def stub_reason(text: str) -> str:
    """Why a model's text is no finished model; empty where it is one."""
    if re.search(r"(--|#|/\*)\s*(todo|fixme|placeholder|stub|implement)\b", text, re.IGNORECASE):
        return "a comment marks it as unfinished"
    body = CONFIG.sub(" ", without_comments(text)).strip().rstrip(";").strip()
    if not body:
        return "no SQL in it"
    if not re.search(r"\bselect\b|\bfrom\b", body, re.IGNORECASE) and "{{" not in body:
        return "no SELECT in it"
    if re.search(r"\blimit\s+0\s*$|\bwhere\s+(false|1\s*=\s*0)\s*$", body, re.IGNORECASE):
        return "it selects no rows (LIMIT 0, WHERE false)"
    if not re.search(r"\bfrom\b|\bvalues\b|\{[{%]", body, re.IGNORECASE):
        return "it selects constants from nothing"
    return ""


def warnings(text: str) -> tuple[str, ...]:
    """What in a model depends on the day, or can differ from build to build."""
    plain = without_comments(text)
    found = []
    if clocks := sorted({item.group(1).lower() for item in CLOCK.finditer(plain)}):
        found.append(f"{', '.join(clocks)}: the clock is pinned for this task, keep it as it is")
    for window in _windows(plain):
        order = re.search(r"\border\s+by\b(.*)", window, re.IGNORECASE | re.DOTALL)
        if order is None:
            found.append("row_number() without ORDER BY is unstable")
            continue
        partition = re.search(r"partition\s+by\b(.*?)\border\b", window, re.IGNORECASE | re.DOTALL)
        keys = _names(order.group(1))
        if partition is not None and keys <= _names(partition.group(1)):
            found.append("row_number() ordered by its own partition is unstable")
        elif not UNIQUE.search(order.group(1)):
            listed = " ".join(order.group(1).split())[:60]
            found.append(f"row_number() ORDER BY {listed}: unstable where values tie")
    return tuple(dict.fromkeys(found))


def _names(text: str) -> set[str]:
    return set(re.findall(r"[a-z_]\w*", text.lower())) - {"asc", "desc", "nulls", "last", "first"}


def _windows(text: str) -> Iterator[str]:
    """What stands in the brackets after each `row_number() over`."""
    for found in ROW_NUMBER.finditer(text):
        depth = 1
        for place in range(found.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0:
                yield text[found.end() : place]
                break
