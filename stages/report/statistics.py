"""The statistics of scores: intervals, paired tests, pass@k. All of them from libraries."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from scipy.stats import binom, bootstrap
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from stages.common.files import Record

LEVEL = 0.05
"""A difference counts as seen below this p-value; intervals are of the other 95 %."""
POWER = 0.8
"""How surely a planned comparison is to see a difference that is there."""
SEED = 20240908
RESAMPLES = 9999
MOST_TASKS = 100_000


class Rate(Record):
    """So many of so many, with the 95 % interval of Wilson (1927)."""

    part: int
    whole: int
    low: float
    high: float

    @property
    def value(self) -> float | None:
        """The rate; null of nothing."""
        return self.part / self.whole if self.whole else None


class Interval(Record):
    """A mean with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    @property
    def apart_from_zero(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def rate(part: int, whole: int) -> Rate:
    """The rate of `part` in `whole`; of nothing, anything from 0 to 1 is possible."""
    if not whole:
        return Rate(part=part, whole=whole, low=0.0, high=1.0)
    low, high = proportion_confint(part, whole, alpha=LEVEL, method="wilson")
    return Rate(part=part, whole=whole, low=float(low), high=float(high))


def pass_at(k: int, trials: int, passes: int) -> float:
    """The chance that at least one of `k` trials passes, without bias (Chen et al. 2021).

    Raises:
        ValueError: there are fewer than `k` trials.
    """
    _enough(k, trials)
    return 1.0 - comb(trials - passes, k) / comb(trials, k)


def pass_all(k: int, trials: int, passes: int) -> float:
    """The chance that all of `k` trials pass, without bias (pass^k of Yao et al. 2024).

    Raises:
        ValueError: there are fewer than `k` trials.
    """
    _enough(k, trials)
    return comb(passes, k) / comb(trials, k)


def _enough(k: int, trials: int) -> None:
    if not 1 <= k <= trials:
        raise ValueError(f"k = {k} of {trials} trials")


def mcnemar_p(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test on paired passes; 1 where nothing flipped."""
    if gained + lost == 0:
        return 1.0
    table = [[0, gained], [lost, 0]]
    return float(mcnemar(table, exact=True).pvalue)


def mean_difference(values: Sequence[float]) -> Interval | None:
    """The mean of paired differences with its 95 % bootstrap interval; null below two pairs.

    Percentile bootstrap over the pairs, with a fixed seed.
    """
    if len(values) < 2:
        return None
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    if np.ptp(data) == 0:
        return Interval(mean=mean, low=mean, high=mean)
    found = bootstrap(
        (data,),
        np.mean,
        n_resamples=RESAMPLES,
        method="percentile",
        confidence_level=1 - LEVEL,
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    return Interval(mean=mean, low=float(found.low), high=float(found.high))


def tasks_needed(gained: int, lost: int, tasks: int) -> int | None:
    """How many tasks would show a difference of this size with `POWER`, at `LEVEL`.

    The flips are taken to come as often, and to be as one-sided, as seen; the answer is the
    smallest number of flips at which the exact test has the power, divided by how often a task
    flips. Null where as many were gained as lost: there is no difference to see.
    """
    flips = gained + lost
    if gained == lost or not tasks:
        return None
    share = max(gained, lost) / flips
    for number in range(1, MOST_TASKS):
        if _power(number, share) >= POWER:
            return -(-number * tasks // flips)
    return None


def _power(flips: int, share: float) -> float:
    """The chance that the exact test is significant, of so many flips of which `share` go one way.

    Only the better side's rejections count.
    """
    counts = np.arange(flips + 1)
    p_values = np.minimum(1.0, 2 * binom.sf(counts - 1, flips, 0.5))
    rejected = counts[p_values < LEVEL]
    return float(binom.sf(rejected[0] - 1, flips, share)) if len(rejected) else 0.0
