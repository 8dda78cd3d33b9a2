"""Errors that a user can mend, told in one sentence with the remedy."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable


class UserError(Exception):
    """Something the user can mend: what is wrong, where, and what to do next.

    It prints without a traceback (see `main`) and survives pickling, so that a worker
    process can raise it. Anything that is not a `UserError` is a bug.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __reduce__(self) -> tuple[Callable[..., UserError], tuple[str, str, str, type[UserError]]]:
        return _rebuild, (self.what, self.where, self.remedy, type(self))

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where:  {self.where}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)


def _rebuild(what: str, where: str, remedy: str, kind: type[UserError]) -> UserError:
    error = kind.__new__(kind)
    UserError.__init__(error, what, where=where, remedy=remedy)
    return error


class UnknownChoiceError(UserError):
    """A name that is not among the valid ones; the message lists those, nearest first."""

    def __init__(self, kind: str, given: str, choices: Iterable[str], *, where: str = "") -> None:
        valid = sorted(choices)
        near = difflib.get_close_matches(given, valid, n=3, cutoff=0.6)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        super().__init__(
            f"unknown {kind} {given!r}",
            where=where,
            remedy=f"{hint}valid: {', '.join(valid) or '(none)'}",
        )


def reason(output: str) -> str:
    """The line of a failed command's output that names its error.

    Python and DuckDB put it after the traceback and before the hints; the last such line, or
    the last line of all.
    """
    lines = [line.strip() for line in output.strip().splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"([\w.]*(Error|Exception)|error): ", line)]
    return (named or lines or ["no output"])[-1]


def main(run: Callable[[], int | None]) -> None:
    """Run a stage's entry point and exit: 0 when done, 1 on a `UserError`, which is printed.

    Ctrl-C exits with 130, as a shell does. Any other exception keeps its traceback.
    """
    try:
        code = run()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code or 0)
