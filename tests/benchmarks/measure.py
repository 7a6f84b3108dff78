"""Taking turns: rivals are measured one after the other, round after round, in the same process."""

from __future__ import annotations

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Container, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of several runs of one rival."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        """The least."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """How far the middle half of the runs lies apart, as a part of the median."""
        if len(self.seconds) < 4:
            return (max(self.seconds) - self.least) / self.median
        lower, _, upper = statistics.quantiles(self.seconds, n=4)
        return (upper - lower) / self.median


@dataclasses.dataclass(frozen=True)
class Figure:
    """Something that was measured.

    Attributes:
        what: What, and against what.
        value: The ratio of the medians, or the median in ``unit``.
        unit: Nothing for a ratio.
        bound: What it is to be: at the most, or for a speed at the least.
        least: The same of the least times.
        spread: The wider of the spreads, as a part of the median.
        milliseconds: The median of what was measured, where it is a time.
    """

    what: str
    value: float
    unit: str = ""
    bound: float | None = None
    least: float | None = None
    spread: float | None = None
    milliseconds: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether it is what it is to be."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.unit.endswith("/s") else self.value <= self.bound


def ratio(what: str, timings: Mapping[str, Timing], left: str, right: str, bound: float | None = None) -> Figure:
    """Compare two rivals of one run."""
    a, b = timings[left], timings[right]
    return Figure(
        what,
        a.median / b.median,
        bound=bound,
        least=a.least / b.least,
        spread=max(a.spread, b.spread),
        milliseconds=a.median * 1000,
    )


def in_turn(rivals: Mapping[str, Callable[[], Any]], rounds: int, *, slow: Container[str] = ()) -> dict[str, Timing]:
    """Run every rival ``rounds`` times, in turn; the results are dropped outside of the timing.

    Args:
        rivals: What is timed.
        rounds: How often.
        slow: The rivals that run in every third round only.
    """
    for name, run in rivals.items():
        if name not in slow:
            run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds):
        for name, run in rivals.items():
            if number % 3 and name in slow:
                continue
            gc.collect()
            start = time.perf_counter()
            result = run()
            seconds[name].append(time.perf_counter() - start)
            del result
    return {name: Timing(tuple(values)) for name, values in seconds.items()}
