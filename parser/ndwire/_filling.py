"""Numbers on their way into an array: the first of some dtypes that holds every one of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._dtypes import DTYPES, DType

NOTHING_FITS: Final[NDArray[Any]] = np.empty(0, np.bool_)
"""Stands for numbers that no dtype holds."""

_RANGES: Final = {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in DTYPES.items() if dtype.kind in "iu"
}
_NO_RANGE: Final = (0, -1)
_LEAST_INT64: Final = -(1 << 63)


def flattened(values: Any) -> Any:
    """Return the numbers of nested lists, all of the same depth, as one list."""
    while type(values[0]) is list:
        values = list(itertools.chain.from_iterable(values))
    return values


def integers_of(values: Any, dtype: DType) -> NDArray[Any] | None:
    """Return a flat list of integers as an array of ``dtype``; None if one of them does not fit.

    An integer of more than 64 bits is a float here, as orjson reads it, and too large; but for one: the float that
    stands for -2**63 - 1 is -2**63.
    """
    if dtype == np.uint8:
        # The one case that Python itself has a fast way for.
        try:
            return np.frombuffer(bytearray(values), np.uint8)
        except (ValueError, TypeError):
            return None
    try:
        array = np.array(values, dtype)
    except OverflowError:
        return None
    if dtype == np.int64 and int(array.min()) == _LEAST_INT64 and float in set(map(type, values)):
        return None
    return array


def in_range(least: float, greatest: float, name: str) -> bool:
    """Return whether an integer dtype holds all from ``least`` to ``greatest``; no other dtype does."""
    lower, upper = _RANGES.get(name, _NO_RANGE)
    return lower <= least and greatest <= upper


def _exactly(numbers: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return ``numbers`` as they are to be stored in ``dtype``: integers become floats as Python does it."""
    return numbers if dtype.kind in "iu" else numbers.astype(np.float64, copy=False)


def rounded(values: NDArray[Any], dtype: DType) -> NDArray[Any] | None:
    """Return ``values`` as Python rounds them to floats, cast to ``dtype``; None if one is no longer finite."""
    with np.errstate(over="ignore"):
        floats = values.astype(np.float64, copy=False).astype(dtype)
    return floats if dtype.itemsize == 8 or bool(np.isfinite(floats).all()) else None


class Filling:
    """An array that fills piece by piece, in the first of some dtypes that holds every number so far.

    Integers that prove too large for it move on to the next dtype. Floats have lost digits then: they are added anew,
    from the first, in the dtype that is known to hold them.

    Args:
        names: The dtypes in order of preference.
        capacity: No more numbers than this will come.

    Attributes:
        done: Whether ``end`` has found every number in place.
    """

    def __init__(self, names: Sequence[str], capacity: int) -> None:
        self.done = False
        self._names = names
        self._capacity = capacity
        self._least: float | None = None
        self._greatest: float = 0
        self._values: NDArray[Any] | None = None
        self._filled = 0
        self._anew = False

    def add(self, numbers: NDArray[Any]) -> None:
        """Append numbers: int64, uint64 or float64, and of the same dtype each time."""
        least, greatest = numbers.min().item(), numbers.max().item()
        if self._least is None or least < self._least or greatest > self._greatest:
            self._least = least if self._least is None else min(least, self._least)
            self._greatest = max(greatest, self._greatest)
            self._choose(numbers.dtype.kind)
        if self._values is not None and not self._anew:
            end = self._filled + len(numbers)
            self._values[self._filled : end] = _exactly(numbers, self._values.dtype)
            self._filled = end

    def end(self) -> None:
        """All numbers have come. They are to come again if ``done`` is still false."""
        self.done = not self._anew
        if self._anew:
            self._anew = False
            self._filled = 0

    def array(self) -> NDArray[Any]:
        """Return the numbers in memory of their own; ``NOTHING_FITS`` if no dtype holds all of them."""
        return NOTHING_FITS if self._values is None else self._values[: self._filled].copy()

    def _choose(self, kind: str) -> None:
        name = next((name for name in self._names if self._holds(DTYPES[name], kind)), None)
        before = self._values
        if name is None:
            self._values = None
        elif before is None or before.dtype != DTYPES[name]:
            self._values = np.empty(self._capacity, DTYPES[name])
            if before is not None and before.dtype.kind not in "iu":
                self._anew = True
            elif before is not None:
                self._values[: self._filled] = _exactly(before[: self._filled], DTYPES[name])

    def _holds(self, dtype: DType, kind: str) -> bool:
        if dtype.kind in "iu" and kind != "f":
            return self._least is not None and in_range(self._least, self._greatest, dtype.name)
        extremes = np.array([self._least, self._greatest], np.float64)
        return dtype.kind in "fV" and rounded(extremes, dtype) is not None
