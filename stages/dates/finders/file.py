"""What the file itself tells: the DuckDB that created it."""

from __future__ import annotations

import re
from pathlib import Path

_MAGIC = slice(8, 12)
_VERSION = slice(52, 84)
"""Where a DuckDB file's first block names the library that created the file."""


def file_remark(path: Path) -> str:
    """The version that created the file, as a remark; empty where the header has none.

    No build is older than the program that made it, but a file may well be younger than its
    tables: who copies them into a new file, or sets the clock back, leaves the program's own
    version. So it is told, and bounds nothing.
    """
    with path.open("rb") as file:
        header = file.read(84)
    if header[_MAGIC] != b"DUCK":
        return ""
    text = header[_VERSION].split(b"\0")[0].decode("ascii", "replace")
    return f"the file was created by DuckDB {text}" if re.fullmatch(r"v[\w.+-]+", text) else ""
