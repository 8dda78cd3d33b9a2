"""The controls' typed values: kinds of mutant, what each was judged, and the report."""

from __future__ import annotations

from enum import StrEnum

from stages.common.files import Record


class Control(StrEnum):
    """A whole database that stands in for a trial's result."""

    GOLD = "gold against itself"
    START = "the start database"
    EMPTY = "an empty database"

    @property
    def must_pass(self) -> bool:
        """The verdict that it must get, in both scores."""
        return self is Control.GOLD


class Kind(StrEnum):
    """What was done to the graded columns of a gold table."""

    NUMBER = "one number changed"
    SMALL_NUMBER = "one number changed by less than 0.01"
    TEXT = "one text changed"
    DATE = "one date changed"
    BOOLEAN = "one true or false changed"
    ROW_DROPPED = "one row dropped"
    ROW_DOUBLED = "one row doubled"
    ROW_REPLACED = "one row replaced by another"
    NO_ROWS = "all rows dropped"
    SCRAMBLED = "a column scrambled by itself"
    ROUNDED = "a column rounded to fewer digits"
    ROUNDED_WHOLE = "a column rounded to whole numbers"
    NULL_FOR_ZERO = "NULL for zero"
    ZERO_FOR_NULL = "zero for NULL"
    TEXT_FOR_NUMBER = "text for a number"
    NUMBER_AS_TEXT = "number-like text for a number"
    TEXT_AS_NUMBER = "a number for number-like text"
    DAY_SHIFT = "dates shifted by a day"
    TABLES_SWAPPED = "two graded tables swapped"
    ROWS_REORDERED_COUNTS = "rows in another order, where it counts"
    ROWS_REORDERED = "rows in another order, where it does not count"
    COLUMNS_REORDERED = "columns in another order"
    COLUMNS_RENAMED = "columns renamed"
    NAMES_EXCHANGED = "columns with each other's names"
    EXTRA_COLUMN = "an extra column"

    @property
    def must_pass(self) -> bool:
        """Whether it leaves the graded content as it is; the others must fail strictly.

        Only an empty table needs its columns' names, so that renamed it must fail strictly.
        """
        return self in MUST_PASS


MUST_PASS = {
    Kind.ROWS_REORDERED,
    Kind.COLUMNS_REORDERED,
    Kind.COLUMNS_RENAMED,
    Kind.NAMES_EXCHANGED,
    Kind.EXTRA_COLUMN,
}


class Outcome(Record):
    """One control or mutant with the verdicts that it got, and those that it must get."""

    instance_id: str
    table: str
    """Empty for a control, which is a whole database."""
    kind: Kind | Control
    what: str
    """Column, row and change, in one phrase."""
    changed: bool
    """False where the mutation left everything as it was, so that it is no mutant."""
    official: bool | None = None
    official_must: bool | None = None
    """Null where the rules were not worked out: a table too large for the plain transcription."""
    strict: bool | None = None
    strict_must: bool | None = None
    disagreement: str | None = None
    """Why the two scores differ, as the verdict says it; null where they agree."""
    wrong: str = ""
    """What is wrong with the verdicts; empty where they are what they must be."""
    explained: str = ""
    """Why the strict score rightly lets a mutant through that was meant to fail."""

    @property
    def meant_to_pass(self) -> bool:
        """Whether nothing that counts was changed."""
        return self.kind.must_pass


class Tally(Record):
    """The outcomes of one kind of mutant, or of one control."""

    kind: Kind | Control
    must_pass: bool
    made: int
    """Mutants that were judged: those that changed something."""
    no_change: int
    passed_officially: int
    """Of a kind that must fail, those that the official score lets through."""
    passed_strictly: int
    underived: int
    """Of the made ones, those whose official verdict was not worked out."""
    wrong: int


class Report(Record):
    """Everything that a run of the controls found."""

    tasks: int
    tables: int
    """Graded tables that mutants were made of."""
    controls: tuple[Tally, ...]
    mutants: tuple[Tally, ...]
    wrong: tuple[Outcome, ...]
    let_through_strictly: tuple[Outcome, ...]
    """Mutants that were meant to fail and pass strictly, each with its reason."""
    let_through_officially: tuple[Outcome, ...]
    not_made: tuple[str, ...]
    """Mutations that DuckDB could not make, and tables that were left out, with the reason."""
    skipped: dict[str, str]
    """Tasks that cannot be scored, and why."""


def tally(kind: Kind | Control, outcomes: list[Outcome]) -> Tally:
    """Count the outcomes of one kind."""
    made = [item for item in outcomes if item.kind is kind and item.changed]
    return Tally(
        kind=kind,
        must_pass=kind.must_pass,
        made=len(made),
        no_change=sum(item.kind is kind and not item.changed for item in outcomes),
        passed_officially=sum(item.official is True for item in made),
        passed_strictly=sum(item.strict is True for item in made),
        underived=sum(item.official_must is None for item in made),
        wrong=sum(bool(item.wrong) for item in made),
    )


def report(
    outcomes: list[Outcome], tasks: int, tables: int, not_made: list[str], skipped: dict[str, str]
) -> Report:
    """Sum up all outcomes."""
    through = [item for item in outcomes if item.changed and not item.meant_to_pass]
    return Report(
        tasks=tasks,
        tables=tables,
        controls=tuple(tally(control, outcomes) for control in Control),
        mutants=tuple(tally(kind, outcomes) for kind in Kind),
        wrong=tuple(item for item in outcomes if item.wrong),
        let_through_strictly=tuple(item for item in through if item.strict),
        let_through_officially=tuple(item for item in through if item.official),
        not_made=tuple(not_made),
        skipped=skipped,
    )
