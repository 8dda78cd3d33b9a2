"""The comparison of two runs over the tasks that both have scored."""

from __future__ import annotations

from collections.abc import Callable

from stages.common.files import Record
from stages.report.models import RunSummary, TaskOutcome
from stages.report.statistics import (
    LEVEL,
    Interval,
    Rate,
    mcnemar_p,
    mean_difference,
    rate,
    tasks_needed,
)


class Flip(Record):
    """A task that one run passed and the other failed."""

    instance_id: str
    passed_in_b: bool
    """True: gained; false: lost."""
    trials_a: str
    """Passes of trials, `2/3`."""
    trials_b: str
    causes_a: tuple[str, ...]
    causes_b: tuple[str, ...]


class Comparison(Record):
    """Run B as against run A."""

    a: str
    b: str
    settings: dict[str, tuple[str, str]]
    """What was chosen differently: name to both values."""
    tasks: int
    """Tasks that both runs scored: everything below is of these."""
    rate_a: Rate
    rate_b: Rate
    flips: tuple[Flip, ...]
    p_value: float
    """Exact McNemar test on the tasks."""
    trial_rate: Interval | None
    """Difference of the share of trials passed, B - A, over tasks."""
    cost_usd: Interval | None
    """Difference a task, mean of its trials, B - A."""
    elapsed_s: Interval | None
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    needed: int | None
    """Tasks that would show a difference of this size."""

    @property
    def gained(self) -> int:
        """Tasks that B passes and A does not."""
        return sum(flip.passed_in_b for flip in self.flips)

    @property
    def lost(self) -> int:
        """Tasks that A passes and B does not."""
        return len(self.flips) - self.gained

    @property
    def significant(self) -> bool:
        """Whether the difference on tasks is more than chance would make."""
        return self.p_value < LEVEL

    def sentence(self) -> str:
        """Better, worse, or no evidence, in plain words."""
        counts = f"{self.gained} gained, {self.lost} lost of {self.tasks} tasks"
        test = f"exact McNemar p = {self.p_value:.3g}"
        if not self.tasks:
            return f"{self.b} and {self.a} have no scored task in common."
        if self.significant:
            word = "better" if self.gained > self.lost else "worse"
            return f"{self.b} is {word} than {self.a}: {counts}; {test}."
        text = f"No evidence of a difference between {self.a} and {self.b}: {counts}; {test}."
        if self.needed is not None:
            text += (
                f" To see a difference of this size, about {self.needed} such tasks would be "
                "needed (80 % power)."
            )
        elif self.flips:
            text += " As many were gained as lost."
        return text


def compare(a: RunSummary, b: RunSummary) -> Comparison:
    """Pair the two runs task by task.

    A task passes where all its trials do, as in the headline. Tasks that only one of them scored
    are named, and count for neither.
    """
    scored_a, scored_b = _scored(a), _scored(b)
    both = sorted(scored_a.keys() & scored_b.keys())
    pairs = [(scored_a[name], scored_b[name]) for name in both]
    flips = tuple(_flip(one, two) for one, two in pairs if one.passed != two.passed)
    gained = sum(flip.passed_in_b for flip in flips)
    lost = len(flips) - gained
    return Comparison(
        a=a.label,
        b=b.label,
        settings=_settings(a, b),
        tasks=len(both),
        rate_a=rate(sum(one.passed is True for one, _ in pairs), len(both)),
        rate_b=rate(sum(two.passed is True for _, two in pairs), len(both)),
        flips=flips,
        p_value=mcnemar_p(gained, lost),
        trial_rate=_difference(pairs, lambda task: task.passes / len(task.trials)),
        cost_usd=_difference(pairs, lambda task: _mean([t.cost_usd for t in task.trials])),
        elapsed_s=_difference(pairs, lambda task: _mean([t.elapsed_s for t in task.trials])),
        only_in_a=tuple(sorted(scored_a.keys() - scored_b.keys())),
        only_in_b=tuple(sorted(scored_b.keys() - scored_a.keys())),
        needed=None if mcnemar_p(gained, lost) < LEVEL else tasks_needed(gained, lost, len(both)),
    )


def _scored(run: RunSummary) -> dict[str, TaskOutcome]:
    return {task.instance_id: task for task in run.tasks if task.passed is not None}


def _flip(one: TaskOutcome, two: TaskOutcome) -> Flip:
    return Flip(
        instance_id=one.instance_id,
        passed_in_b=two.passed is True,
        trials_a=f"{one.passes}/{len(one.trials)}",
        trials_b=f"{two.passes}/{len(two.trials)}",
        causes_a=one.causes,
        causes_b=two.causes,
    )


def _settings(a: RunSummary, b: RunSummary) -> dict[str, tuple[str, str]]:
    def chosen(run: RunSummary) -> dict[str, str]:
        return {"suite": run.suite, "agent": run.agent, "model": run.model or "-", **run.params}

    one, two = chosen(a), chosen(b)
    return {
        name: (one.get(name, "-"), two.get(name, "-"))
        for name in {**one, **two}
        if one.get(name) != two.get(name)
    }


def _difference(
    pairs: list[tuple[TaskOutcome, TaskOutcome]], value: Callable[[TaskOutcome], float]
) -> Interval | None:
    return mean_difference([value(two) - value(one) for one, two in pairs])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
