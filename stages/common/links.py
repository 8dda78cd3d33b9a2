"""One file, several places: links instead of copies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dvc_objects.fs.system import reflink

from stages.common.files import walk


def link_file(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`: a reflink, else a hard link, else a copy."""
    try:
        reflink(str(source), str(target))  # type: ignore[no-untyped-call]
        return
    except (OSError, NotImplementedError):
        target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def link_tree(source: Path, target: Path) -> None:
    """Make `target` hold the files of `source` without a second copy where the disk allows it."""
    for path in walk(source):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        link_file(path, place)
