"""The finder for recorded events: no build is earlier than what it holds."""

from __future__ import annotations

from stages.dates.finders.gathered import Gathered, evidence_of
from stages.dates.models import Evidence, Rule
from stages.dates.profile import shown


def recorded_events(gathered: Gathered) -> list[Evidence]:
    """The latest event whose column says that it was recorded: no build is earlier."""
    item = gathered.latest
    if item is None:
        return []
    return [evidence_of(item, shown(item.highest), Rule.RECORDED, item.last, None, None)]
