"""Intervals, paired tests and pass@k agree with calculations made another way."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from stages.report.statistics import (
    mcnemar_p,
    mean_difference,
    pass_all,
    pass_at,
    rate,
    tasks_needed,
)


@pytest.mark.parametrize(("part", "whole"), [(0, 15), (9, 15), (15, 15), (34, 68), (1, 3)])
def test_wilson_solves_its_own_equation(part: int, whole: int) -> None:
    found = rate(part, whole)
    z = 1.959963984540054
    for bound in (found.low, found.high):
        # The bounds are the rates from which the one seen is just z standard errors away.
        if 0 < bound < 1:
            error = math.sqrt(bound * (1 - bound) / whole)
            assert abs(part / whole - bound) / error == pytest.approx(z, abs=1e-6)
    assert 0 <= found.low <= part / whole <= found.high <= 1


def test_of_nothing_any_rate_is_possible() -> None:
    found = rate(0, 0)
    assert (found.low, found.high, found.value) == (0.0, 1.0, None)


@pytest.mark.parametrize(("trials", "passes", "k"), [(5, 2, 1), (5, 2, 3), (3, 0, 2), (4, 4, 4)])
def test_pass_at_k_is_the_share_of_all_choices_of_k_trials(
    trials: int, passes: int, k: int
) -> None:
    outcomes = [True] * passes + [False] * (trials - passes)
    choices = list(itertools.combinations(outcomes, k))
    assert pass_at(k, trials, passes) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_all(k, trials, passes) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_more_than_there_are_trials_is_refused() -> None:
    with pytest.raises(ValueError, match="k = 4 of 3 trials"):
        pass_at(4, 3, 1)
    with pytest.raises(ValueError, match="k = 0 of 3 trials"):
        pass_all(0, 3, 1)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (6, 0), (3, 2), (2, 11), (8, 8)])
def test_mcnemar_counts_the_ways_to_toss_coins(gained: int, lost: int) -> None:
    flips = gained + lost
    tail = sum(math.comb(flips, i) for i in range(min(gained, lost) + 1))
    expected = min(Fraction(1), 2 * Fraction(tail, 2**flips))
    assert mcnemar_p(gained, lost) == pytest.approx(float(expected))


def test_the_bootstrap_of_many_pairs_is_near_the_normal_interval() -> None:
    random.seed(1)
    values = [random.gauss(0.5, 1.0) for _ in range(400)]
    mean = sum(values) / len(values)
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    found = mean_difference(values)
    assert found is not None
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(mean + 1.96 * error, abs=0.15 * error)
    assert found.apart_from_zero
    assert mean_difference(values) == found, "the seed is fixed"


def test_an_interval_needs_two_pairs_and_may_be_a_point() -> None:
    assert mean_difference([1.0]) is None
    found = mean_difference([2.0, 2.0, 2.0])
    assert found is not None
    assert (found.low, found.mean, found.high) == (2.0, 2.0, 2.0)


def test_the_tasks_that_are_needed_give_the_power_that_is_promised() -> None:
    needed = tasks_needed(gained=8, lost=2, tasks=50)
    assert needed is not None
    flips = needed * 10 // 50
    random.seed(2)
    seen = 0
    for _ in range(4000):
        gained = sum(random.random() < 0.8 for _ in range(flips))
        seen += gained > flips - gained and mcnemar_p(gained, flips - gained) < 0.05
    assert 0.76 < seen / 4000 < 0.90


def test_no_number_of_tasks_shows_a_difference_that_is_none() -> None:
    assert tasks_needed(3, 3, 40) is None
    assert tasks_needed(0, 0, 40) is None
    assert tasks_needed(1, 0, 0) is None
