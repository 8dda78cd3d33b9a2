"""The task's clock: the environment that makes a process live on the gold date.

Standard library only: the dbt wrapper imports it under the stack's Python.
"""

from __future__ import annotations

import datetime
from pathlib import Path

NOON = "12:00:00"
"""The time of day at which every process on the task's clock starts, in UTC."""


def faketime_library(prefix: Path) -> Path:
    """The libfaketime that the environment's own wheel carries.

    Raises:
        FileNotFoundError: the environment at `prefix` has no libfaketime.
    """
    for pattern in ("libfaketime.so.1", "libfaketime.*.dylib"):
        places = f"lib/python3*/site-packages/libfaketime/vendor/libfaketime/src/{pattern}"
        for path in sorted(prefix.glob(places)):
            return path
    raise FileNotFoundError(f"no libfaketime below {prefix}: rebuild the stack with `make setup`")


def clock_environment(prefix: Path, day: datetime.date) -> dict[str, str]:
    """Variables that set a process's clock to `day`, 12:00:00 UTC, running on from there.

    The monotonic clock stays real, since waits and time-outs would hang on a faked one.
    """
    library = faketime_library(prefix)
    preload = "DYLD_INSERT_LIBRARIES" if library.suffix == ".dylib" else "LD_PRELOAD"
    return {
        preload: str(library),
        "FAKETIME": f"@{day.isoformat()} {NOON}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TZ": "UTC",
    }
