"""The folder that an export is written to: whole or not at all, and never over something else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stages.common.errors import UserError
from stages.common.files import write_text
from stages.report.export.read import Note, clean

NOTES = "notes.txt"
HEADING = "An export of a benchmark run"
"""How the notes begin; a folder whose notes begin so may be replaced."""


@contextmanager
def fresh_folder(out: Path) -> Iterator[Path]:
    """An empty folder to write into, which takes the place of `out` when all went well.

    Raises:
        UserError: `out` is there and is no earlier export.
    """
    if out.exists() and not _replaceable(out):
        raise UserError(
            "the folder to export to holds something else",
            where=str(out),
            remedy="choose another with OUT=<folder> (--out), or empty it",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        yield building
        building.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        building.rename(out)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_notes(folder: Path, about: Sequence[str], notes: Sequence[Note]) -> None:
    """Write `notes.txt`: what the export is, then what is to be known of single trials."""
    lines = [HEADING, *about, "", *(str(note) for note in notes)]
    write_text(folder / NOTES, clean("\n".join(lines).rstrip()) + "\n")


def _replaceable(out: Path) -> bool:
    if not out.is_dir() or out.is_symlink():
        return False
    notes = out / NOTES
    if notes.is_file():
        return notes.read_bytes().startswith(HEADING.encode())
    return not any(out.iterdir())
