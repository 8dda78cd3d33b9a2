"""Gold databases generated at random known days: how many are dated, and that none is wrong."""

from __future__ import annotations

import pytest

from benchmarks.gold.build import Count, Dated, build_all, by_kind
from benchmarks.gold.kinds import KINDS, Tells
from stages.dates.models import DateStatus, Rule

COUNT, SEED = 322, 20240908


@pytest.fixture(scope="module")
def dated(tmp_path_factory: pytest.TempPathFactory) -> list[Dated]:
    found = list(build_all(tmp_path_factory.mktemp("gold"), COUNT, SEED))
    print("\n" + " | ".join(Count.model_fields))
    for kind in by_kind(found):
        print(" | ".join(kind.row()))
    return found


def test_there_are_enough_of_enough_kinds(dated: list[Dated]) -> None:
    assert len(dated) >= 300
    assert len(KINDS) >= 12
    assert {item.tells for item in dated} == set(Tells)


def test_no_exact_day_is_wrong(dated: list[Dated]) -> None:
    assert [item for item in dated if item.wrong] == []


def test_no_bounds_exclude_the_day(dated: list[Dated]) -> None:
    assert [item for item in dated if item.outside] == []


def test_nearly_all_that_hold_the_day_are_dated_exactly(dated: list[Dated]) -> None:
    holding = [item for item in dated if item.tells is Tells.DAY]
    assert len(holding) >= 100
    missed = [(item.kind, item.number, item.built) for item in holding if not item.exact]
    assert len(missed) <= 0.01 * len(holding), missed


def test_nothing_is_claimed_where_there_is_nothing(dated: list[Dated]) -> None:
    nothing = [item for item in dated if item.tells is Tells.NOTHING]
    counted = [item for item in nothing if item.kind == "up to the data s end"]
    assert all(item.found.high is None for item in counted)
    for item in nothing:
        if item not in counted:
            # Events after the pinned day rule that out, and tell no day themselves.
            assert {found.rule for found in item.found.evidence} <= {Rule.RECORDED}, item
            assert item.found.status in (DateStatus.FALLBACK, DateStatus.INTERVAL)
            assert item.found.high is None
