"""Pieces of a page that are loaded on demand, also from a file: scripts with packed HTML.

A page that was opened from a file may not fetch another one, but it may load scripts. Each
piece is one call, `report.take(name, data)`, whose data is gzip in base64: nothing in it can end
the script, and it takes a fraction of the room.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

from stages.common.files import digest_text, write_text

LEVEL = 6


def pack(html: str) -> str:
    """HTML as base64 of its gzip; the same bytes for the same text."""
    data = gzip.compress(html.encode("utf-8", errors="replace"), LEVEL, mtime=0)
    return base64.b64encode(data).decode("ascii")


def unpack(packed: str) -> str:
    """What `pack` packed."""
    return gzip.decompress(base64.b64decode(packed)).decode("utf-8")


def write_piece(folder: Path, name: str, packed: str) -> None:
    """Write the piece `name` to `<folder>/<name>.js`."""
    write_text(folder / f"{name}.js", f"report.take({json.dumps(name)}, {json.dumps(packed)});\n")


def file_name(text: str) -> str:
    """A name that is safe as a file's and in an address; different for different texts."""
    safe = re.sub(r"[^a-z0-9_-]", "-", text.lower())[:60]
    return safe if safe == text else f"{safe}-{digest_text(text)[:8]}"
