"""A measured ratio, and how ratios are printed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from stages.common.console import make_console
from stages.common.files import Record


class Ratio(Record):
    """One measured ratio."""

    what: str
    part: float
    whole: float
    unit: str

    @property
    def value(self) -> float:
        """`part` in terms of `whole`."""
        return self.part / self.whole


def print_ratios(ratios: Sequence[Ratio]) -> None:
    """Print a table: what was measured, the ratio, and the two figures."""
    table = Table("what", "ratio", "measured")
    for ratio in ratios:
        measured = f"{ratio.part:,.1f} / {ratio.whole:,.1f} {ratio.unit}"
        if ratio.unit == "s":
            measured = f"{ratio.part:.3g} / {ratio.whole:.3g} s"
        table.add_row(ratio.what, f"{ratio.value:.2f}", measured)
    make_console().print(table)
