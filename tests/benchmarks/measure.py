"""Taking turns: rivals are measured one after the other, round after round, in the same process."""

from __future__ import annotations

import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Mapping
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


def in_turn(rivals: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: bool = True) -> dict[str, Timing]:
    """Run every rival ``rounds`` times, in turn; the results are dropped outside of the timing."""
    if warm_up:
        for run in rivals.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            gc.collect()
            start = time.perf_counter()
            result = run()
            seconds[name].append(time.perf_counter() - start)
            del result
    return {name: Timing(tuple(values)) for name, values in seconds.items()}
