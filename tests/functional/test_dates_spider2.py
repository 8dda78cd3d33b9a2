"""The real gold databases: how many days are found, and that none is claimed wrongly."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from stages.dates.find import find_in_gold
from stages.dates.models import DateStatus, GoldDate

pytestmark = pytest.mark.spider2_data

PINNED = datetime.date(2024, 9, 8)
BUILT = {
    "analytics_engineering001": datetime.date(2025, 7, 31),
    "pendo001": datetime.date(2023, 6, 18),
    "quickbooks003": datetime.date(2026, 5, 20),
    "salesforce001": datetime.date(2026, 3, 14),
    "shopify001": datetime.date(2024, 3, 1),
    "xero_new001": datetime.date(2024, 4, 30),
    "zuora001": datetime.date(2025, 8, 12),
}
"""The days on which the real databases were built; all others on the pinned day."""


@pytest.fixture(scope="module")
def found(spider2_shared: Path) -> dict[str, GoldDate]:
    return find_in_gold(spider2_shared / "spider2" / "gold", PINNED)


def test_every_task_is_dated(found: dict[str, GoldDate]) -> None:
    assert len(found) == 34
    assert set(BUILT) < set(found)


def test_no_exact_day_is_wrong(found: dict[str, GoldDate]) -> None:
    exact = {key: item.date for key, item in found.items() if item.status is DateStatus.EXACT}
    assert {"analytics_engineering001", "pendo001", "zuora001"} <= set(exact)
    assert exact == {key: BUILT.get(key, PINNED) for key in exact}


def test_every_interval_contains_the_day(found: dict[str, GoldDate]) -> None:
    intervals = {key: item for key, item in found.items() if item.status is DateStatus.INTERVAL}
    assert len(intervals) >= 6
    for key, item in intervals.items():
        built = BUILT.get(key, PINNED)
        assert item.low is None or item.low <= built, key
        assert item.high is None or built <= item.high, key


def test_fallback_is_the_pinned_day_without_evidence(found: dict[str, GoldDate]) -> None:
    fallen = [item for item in found.values() if item.status is DateStatus.FALLBACK]
    assert fallen
    assert {(item.date, item.evidence) for item in fallen} == {(PINNED, ())}
    assert all(item.note for item in fallen)


def test_as_many_days_are_right_as_were_before(found: dict[str, GoldDate]) -> None:
    right = [key for key, item in found.items() if item.date == BUILT.get(key, PINNED)]
    assert len(right) >= 32
