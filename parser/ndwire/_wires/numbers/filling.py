"""Numbers on their way into an array, piece by piece, so that no copy of all of them in 64 bits is needed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._wires.numbers.fitting import Attempt, Numbers, spans, store

# What is filled where no dtype is left.
_NONE: Final[NDArray[Any]] = np.empty(0, np.bool_)


class Filling:
    """An array that fills in the first dtype that the numbers fit.

    Where a piece does not fit, the numbers before it move on to the next dtype, if that holds them all as they are.
    Otherwise they have to come again.

    Args:
        order: The dtypes to try.
        capacity: No more numbers than this will come.

    Attributes:
        count: How many numbers have come.
    """

    def __init__(self, order: tuple[Attempt, ...], capacity: int) -> None:
        self.count = 0
        self._order = order
        self._capacity = capacity
        self._tried = 0
        self._values = self._memory()

    def add(self, numbers: Numbers) -> bool:
        """Append numbers.

        Returns:
            False where all have to come again, from the first.
        """
        end = self.count + len(numbers.values)
        while self._tried < len(self._order):
            if store(numbers, self._values[self.count : end], self._order[self._tried]):
                break
            if not self._move_on():
                self.count = 0
                return False
        self.count = end
        return True

    def array(self) -> NDArray[Any] | None:
        """Return the numbers in memory of their own; None if no dtype holds all of them."""
        return None if self._tried == len(self._order) else self._values[: self.count].copy()

    def _memory(self) -> NDArray[Any]:
        """Return the memory for the next dtype that is to be tried."""
        if self._tried == len(self._order):
            return _NONE
        return np.empty(self._capacity, self._order[self._tried].dtype)

    def _move_on(self) -> bool:
        """Go on with the next dtype, or with none; return whether the numbers so far are in place."""
        filled = self._values[: self.count]
        self._tried += 1
        self._values = self._memory()
        if self._tried == len(self._order) or not len(filled):
            return True
        name = self._order[self._tried].name
        if filled.dtype.kind not in "iu" or not spans(name, int(filled.min()), int(filled.max())):
            # Floats have lost digits, or are to lose some.
            return False
        self._values[: self.count] = filled
        return True
