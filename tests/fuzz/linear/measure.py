"""Linear time as a law: four times the parts take at most eight times the CPU time, whatever the parts are.

Counted lines of Python do not see what happens within one call of ``re`` or ``find``; CPU time does. Work that grows
with the square takes sixteen times as long for four times the text, linear work four times. A ladder of sizes is
climbed, so that fast work is measured where it takes long enough, and slow work is not waited for.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any, Final

MOST: Final = 8
"""How many times as long four times the parts may take."""

# Shorter is noise.
_LEAST_SECONDS: Final = 0.008
_FIRST_BYTES: Final = 1 << 9
_MOST_BYTES: Final = 1 << 17


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """Text that has one part again and again.

    Attributes:
        head: What stands before the parts.
        part: What is repeated.
        tail: What stands behind each part and closes what it opened, in the end.
        foot: What stands behind all of it.
    """

    head: bytes
    part: bytes
    tail: bytes = b""
    foot: bytes = b""

    def of(self, n_parts: int) -> bytes:
        """Return the text with ``n_parts`` parts."""
        return self.head + self.part * n_parts + self.tail * n_parts + self.foot


@dataclasses.dataclass(frozen=True, slots=True)
class Slow:
    """What took longer than linear work would.

    Attributes:
        n_parts: How many parts took ``seconds``; four times as many took ``longer``.
        seconds: CPU seconds.
        longer: CPU seconds.
    """

    n_parts: int
    seconds: float
    longer: float

    def __str__(self) -> str:
        return (
            f"{self.n_parts} parts take {self.seconds:.4f} s, {4 * self.n_parts} take {self.longer:.4f} s: "
            f"{self.longer / max(self.seconds, 1e-9):.1f} times"
        )


def slow(write: Callable[[int], bytes], read: Callable[[bytes], Any], *, enough_seconds: float = 0.12) -> Slow | None:
    """Return where ``read`` takes more than linear time for what ``write`` writes, or None.

    Args:
        write: Returns the text with so many parts.
        read: Takes the text; what it returns does not matter, what it raises is a fault.
        enough_seconds: Where a text takes as long as this, longer ones are not tried.
    """
    n_parts = _FIRST_BYTES // (len(write(1)) or 1) or 1
    before = _cpu_seconds(read, write(n_parts))
    while True:
        longer = write(4 * n_parts)
        if len(longer) > _MOST_BYTES:
            return None
        after = _cpu_seconds(read, longer)
        if after > _LEAST_SECONDS and after > MOST * before:
            # Measured again before it counts: something else may have had the machine.
            before = min(_cpu_seconds(read, write(n_parts)) for _ in range(5))
            after = min(_cpu_seconds(read, longer) for _ in range(2))
            if after > _LEAST_SECONDS and after > MOST * before:
                return Slow(n_parts, before, after)
        if after > enough_seconds:
            return None
        n_parts *= 4
        before = after


def _cpu_seconds(read: Callable[[bytes], Any], text: bytes) -> float:
    collects = gc.isenabled()
    gc.disable()
    try:
        start = time.thread_time()
        read(text)
        return time.thread_time() - start
    finally:
        if collects:
            gc.enable()
