"""Freezes gold's views, once for each gold file, day and stack."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from pathlib import Path

from stages.common.files import cache_root, digest_file, digest_text
from stages.stack.environments import ensure_stack, stack_lock
from stages.stack.host import freeze_views


def freeze_gold(gold: Path, day: datetime.date, stack: str) -> Path:
    """The folder with what gold's views showed on `day` under the named stack's DuckDB.

    It is built on first use, below the cache, and renamed into place.

    Raises:
        UserError: the stack cannot be built, or its DuckDB cannot read the file.
    """
    lock = stack_lock(stack)
    environment = ensure_stack(stack, lock)
    key = digest_text(digest_file(gold), day.isoformat(), digest_file(lock))
    place = cache_root() / "frozen" / key
    if (place / "views.json").is_file():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{key[:12]}.", dir=place.parent))
    try:
        freeze_views(environment, gold, building, day)
        building.chmod(0o755)
        try:
            building.rename(place)
        except OSError:
            if not (place / "views.json").is_file():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return place
