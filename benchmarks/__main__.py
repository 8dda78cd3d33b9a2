"""`make bench`: prints what the harness costs, and how fast dates and scores are, as ratios.

Seconds are told beside them, but only ratios of one run can be compared between machines.
"""

from __future__ import annotations

from benchmarks import comparator, dates, harness, sealed
from benchmarks.clone import clone
from benchmarks.ratio import print_ratios
from stages.common.files import CODE_ROOT, write_json

OUT = CODE_ROOT / "results" / "bench.json"


def main() -> None:
    """Measure, print, and save as results/bench.json."""
    with clone() as root:
        ratios = [*harness.measure(root), *sealed.measure(root)]
    ratios += dates.measure()
    ratios += comparator.measure()
    print_ratios(ratios)
    write_json(OUT, [{**ratio.model_dump(), "ratio": round(ratio.value, 4)} for ratio in ratios])


if __name__ == "__main__":
    main()
