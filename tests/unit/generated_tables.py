"""Seeded pairs of small DuckDB tables that are equal, nearly equal, or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Value = Callable[[Random], str]
"""Writes one value of a type as SQL."""


def _among(*values: str) -> Value:
    return lambda random: random.choice(values)


def _integer(low: int, high: int) -> Value:
    def value(random: Random) -> str:
        edges = [low, high, 0, 1, min(high, 9), min(high, 10), min(high, 100)]
        drawn = random.choice(edges) if random.random() < 0.3 else random.randint(0, 12)
        return str(max(low, min(high, drawn)))

    return value


def _float(random: Random) -> str:
    special = (
        "nan",
        "inf",
        "-inf",
        "-0.0",
        "0.0",
        "1e16",
        "1e-5",
        "1.5e-7",
        "9.999",
        "10.0",
        "1e300",
    )
    if random.random() < 0.2:
        return f"'{random.choice(special)}'"
    number = round(random.uniform(-12, 12), random.choice((0, 1, 2, 4)))
    return f"'{number + random.choice((0, 0, 0.004, -0.004, 0.0099, 0.0101, 0.02))!r}'"


def _decimal(scale: int) -> Value:
    return lambda random: f"{round(random.uniform(-12, 12), scale):.{scale}f}"


def _text(random: Random) -> str:
    common = "a", "b", "A", "", " a", "nan", "None", "<NA>", "NaT", "1", "1.0", "10", "9.999", "é"
    return f"'{random.choice((*common, '2024-01-01', 'true', '😀', chr(0xFFFD)))}'"


def _moment(*, fraction: bool, far: bool = True) -> Value:
    def value(random: Random) -> str:
        if far and random.random() < 0.04:
            return random.choice(("'infinity'", "'-infinity'", "'20000-01-01'", "'0900-01-01'"))
        text = f"2024-0{random.randint(1, 3)}-0{random.randint(1, 3)}"
        if fraction and random.random() < 0.6:
            text += f" 0{random.randint(0, 2)}:00:00" + random.choice(("", ".5", ".000001"))
        return f"'{text}'"

    return value


def _nanoseconds(random: Random) -> str:
    return f"'2024-01-0{random.randint(1, 2)} 00:00:00{random.choice(('', '.5', '.000000001'))}'"


@dataclass(frozen=True)
class Type:
    """A DuckDB type and its values; `alike` may hold the same values in another type."""

    name: str
    value: Value
    alike: tuple[str, ...] = ()


WHOLE = ("BIGINT", "DOUBLE", "HUGEINT", "VARCHAR", "DECIMAL(18,2)", "INTEGER")
TYPES = (
    Type("BOOLEAN", _among("true", "false"), ("INTEGER", "VARCHAR", "DOUBLE")),
    Type("TINYINT", _integer(-128, 127), WHOLE),
    Type("SMALLINT", _integer(-(2**15), 2**15 - 1), WHOLE),
    Type("INTEGER", _integer(-(2**31), 2**31 - 1), WHOLE),
    Type("BIGINT", _integer(-(2**63), 2**63 - 1), ("DOUBLE", "HUGEINT", "VARCHAR")),
    Type("UTINYINT", _integer(0, 255), WHOLE),
    Type("USMALLINT", _integer(0, 2**16 - 1), WHOLE),
    Type("UINTEGER", _integer(0, 2**32 - 1), ("BIGINT", "DOUBLE", "VARCHAR")),
    Type("UBIGINT", _integer(0, 2**64 - 1), ("DOUBLE", "HUGEINT", "VARCHAR")),
    Type("HUGEINT", _integer(-(2**127) + 1, 2**127 - 1), ("DOUBLE", "VARCHAR")),
    Type("UHUGEINT", _integer(0, 2**128 - 1)),
    Type("BIGNUM", _integer(-(10**40), 10**40)),
    Type("FLOAT", _float, ("DOUBLE", "VARCHAR")),
    Type("DOUBLE", _float, ("FLOAT", "VARCHAR")),
    Type("DECIMAL(6,2)", _decimal(2), ("DOUBLE", "VARCHAR", "FLOAT")),
    Type("DECIMAL(38,6)", _decimal(4), ("DOUBLE", "VARCHAR")),
    Type("VARCHAR", _text),
    Type("ENUM('a','b','nan','<NA>')", _among("'a'", "'b'", "'nan'", "'<NA>'"), ("VARCHAR",)),
    Type("JSON", _among("'{}'", "'1'", "'null'", "'[1]'"), ("VARCHAR",)),
    Type("DATE", _moment(fraction=False), ("TIMESTAMP", "VARCHAR", "TIMESTAMP_S")),
    Type("TIMESTAMP", _moment(fraction=True), ("TIMESTAMP_MS", "VARCHAR", "TIMESTAMPTZ", "DATE")),
    Type("TIMESTAMP_S", _moment(fraction=True), ("TIMESTAMP", "DATE")),
    Type("TIMESTAMP_MS", _moment(fraction=True), ("TIMESTAMP", "TIMESTAMP_S")),
    Type("TIMESTAMP_NS", _nanoseconds, ("TIMESTAMP", "TIMESTAMP_MS")),
    Type("TIMESTAMPTZ", _moment(fraction=True), ("TIMESTAMP",)),
    Type("TIME", _among("'10:00:00'", "'10:00:00.5'", "'00:00:00'"), ("VARCHAR", "TIME_NS")),
    Type("TIME_NS", _among("'10:00:00'", "'10:00:00.000000001'"), ("TIME",)),
    Type("TIMETZ", _among("'10:00:00+01'", "'10:00:00'")),
    Type("INTERVAL", _among("'1 day'", "'24 hours'", "'1 month'", "'-3 minutes'", "'9000 years'")),
    Type(
        "UUID",
        lambda random: f"'{random.randint(0, 3):08d}-0000-0000-0000-000000000000'",
        ("VARCHAR",),
    ),
    Type("BLOB", _among("'a'", "'b'", "''", r"'\x00'"), ("VARCHAR",)),
    Type("BIT", _among("'1'", "'101'", "'0000000000'"), ("VARCHAR",)),
    Type("INTEGER[]", _among("[]", "[1]", "[2]", "[1, 2]", "[NULL]")),
    Type("VARCHAR[]", _among("[]", "['a']", "['b']", "['a', 'b']", "[NULL]")),
    Type("INTEGER[2]", _among("[1, 2]", "[2, 1]")),
    Type("STRUCT(a INTEGER, b VARCHAR)", _among("{'a': 1, 'b': 'x'}", "{'a': 2, 'b': NULL}")),
    Type("STRUCT(a INTEGER[])", _among("{'a': [1]}", "{'a': [1, 2]}")),
    Type("MAP(VARCHAR, INTEGER)", _among("map {'a': 1}", "map {}", "map {'a': 2, 'b': 1}")),
    Type(
        "UNION(n BIGINT, f DOUBLE, s VARCHAR, b BOOLEAN)",
        _among("1", "2", "1.5::DOUBLE", "'1'", "'a'", "true", "'nan'::DOUBLE", "'nan'"),
    ),
    Type("UNION(s VARCHAR, n BIGINT)", _among("'a'", "'b'", "'<NA>'", "1::BIGINT"), ("VARCHAR",)),
    Type("TIMESTAMPTZ_NS", _nanoseconds, ("TIMESTAMP_NS", "TIMESTAMP")),
    Type("GEOMETRY", _among("'POINT(0 0)'", "'POINT(1 0)'")),
    Type("VARIANT", _among("1", "'a'", "true", "1.5::DOUBLE")),
)
FAMILIES = (
    tuple(kind for kind in TYPES if kind.name in ("DOUBLE", "INTEGER", "BIGINT", "DECIMAL(6,2)")),
    tuple(
        kind for kind in TYPES if kind.name in ("DOUBLE", "FLOAT", "SMALLINT", "BIGINT", "UBIGINT")
    ),
    tuple(
        kind for kind in TYPES if kind.name in ("VARCHAR", "DOUBLE", "DATE", "INTEGER", "TIMESTAMP")
    ),
    tuple(kind for kind in TYPES if kind.name.startswith(("DATE", "TIMESTAMP"))),
    tuple(kind for kind in TYPES if kind.name == "VARCHAR"),
    TYPES,
)


@dataclass(frozen=True)
class Pair:
    """SQL that makes the tables `gold` and `result`, and how they are graded."""

    statements: tuple[str, ...]
    columns: tuple[int, ...]
    ignore_order: bool


class _Column:
    def __init__(self, random: Random, kind: Type, rows: int) -> None:
        self.kind = kind
        share = random.choice((0, 0, 0.2, 1 if random.random() < 0.2 else 0.2))
        self.cells = [
            "NULL" if random.random() < share else f"({kind.value(random)})::{kind.name}"
            for _ in range(rows)
        ]


def pair(seed: int) -> Pair:
    """The pair of this seed."""
    random = Random(seed)
    types = random.choice(FAMILIES)
    if random.random() < 0.3:
        types = (random.choice(types),)
    rows = random.choice((0, 1, 2, 2, 3, 4, 5, 8, 13))
    gold = [_Column(random, random.choice(types), rows) for _ in range(random.randint(1, 4))]
    result, names = [], []
    order = list(range(rows))
    if random.random() < 0.6:
        random.shuffle(order)
    for column in gold:
        cells = [column.cells[row] for row in order]
        name = column.kind.name
        if random.random() < 0.15:
            random.shuffle(cells)
        if cells and random.random() < 0.25:
            cells[random.randrange(rows)] = f"({column.kind.value(random)})::{name}"
        if name in ("DOUBLE", "FLOAT") and random.random() < 0.4:
            noise = random.choice((0.001, 0.009, 0.011))
            cells = [f"{cell} + {random.uniform(-noise, noise)!r}" for cell in cells]
        if column.kind.alike and random.random() < 0.3:
            name = random.choice(column.kind.alike)
        result.append([f"TRY_CAST({cell} AS {name})" for cell in cells])
        names.append(name)
    if random.random() < 0.3:
        extra = _Column(random, random.choice(types), rows)
        result.append(extra.cells)
        names.append(extra.kind.name)
    if rows and random.random() < 0.08:
        result = [cells[:-1] for cells in result]
    if len(result) > 1 and random.random() < 0.3:
        first = result.pop(0)
        result.append(first)
        names.append(names.pop(0))
    columns: tuple[int, ...] = ()
    if random.random() < 0.5:
        columns = tuple(random.randrange(len(gold)) for _ in range(random.randint(1, 3)))
        if random.random() < 0.05:
            columns = (*columns, len(gold))
    return Pair(
        (
            *_statements("gold", [item.cells for item in gold], [item.kind.name for item in gold]),
            *_statements("result", result, names),
        ),
        columns,
        random.random() < 0.6,
    )


def _statements(name: str, columns: list[list[str]], types: list[str]) -> list[str]:
    defined = ", ".join(f"c{at} {kind}" for at, kind in enumerate(types))
    made = [f"CREATE OR REPLACE TABLE {name} ({defined})"]
    if columns[0]:
        rows = ", ".join(f"({', '.join(cells)})" for cells in zip(*columns, strict=True))
        made.append(f"INSERT INTO {name} VALUES {rows}")
    return made
