"""One measured ratio."""

from __future__ import annotations

from stages.common.files import Record


class Ratio(Record):
    """What was measured, in terms of something else that was measured in the same run."""

    what: str
    part: float
    whole: float
    unit: str
    note: str = ""

    @property
    def value(self) -> float:
        """`part` in terms of `whole`."""
        return self.part / self.whole
