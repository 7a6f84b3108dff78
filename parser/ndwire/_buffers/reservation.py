"""Memory for one large array, which can be resized while it fills.

What is large, or of unknown size, is on Linux an anonymous private mapping: growing moves pages instead of copying
bytes, and giving back what was reserved too much costs nothing. (NumPy's in-place ``resize`` did the same and is
deprecated.) Huge pages are asked for, as NumPy does: faulting in small ones costs more than decoding.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Generator
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

_HUGE_PAGE: Final = 2 << 20
# glibc maps larger blocks anew each time.
_LARGEST_OF_THE_HEAP: Final = 32 << 20


@contextlib.contextmanager
def _out_of_memory() -> Generator[None]:
    """Raise ``MemoryError`` where a mapping fails for want of memory or of addresses."""
    try:
        yield
    except OSError as exc:
        raise MemoryError(str(exc)) from exc


class Reservation(Protocol):
    """Memory that one owner fills from its beginning.

    Attributes:
        view: The memory, writable.
    """

    view: memoryview

    def resize(self, n_bytes: int, keep: int) -> None:
        """Make it ``n_bytes`` long; the first ``keep`` bytes stay. The old view is gone."""
        ...

    def finish(self, n_bytes: int) -> Any:
        """Return a buffer of exactly ``n_bytes`` bytes that owns the memory; the view is gone."""
        ...


class Mapping:
    """A private anonymous mapping (Linux)."""

    __slots__ = ("_map", "view")

    def __init__(self, n_bytes: int) -> None:
        with _out_of_memory():
            self._map = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self._map)
        self._advise(n_bytes)

    def resize(self, n_bytes: int, keep: int) -> None:  # noqa: ARG002 - all pages stay
        """Grow or shrink in place or move the pages."""
        self.view.release()
        with _out_of_memory():
            self._map.resize(n_bytes)
        self._advise(n_bytes)
        self.view = memoryview(self._map)

    def finish(self, n_bytes: int) -> mmap.mmap:
        """Give back what is not used."""
        self.view.release()
        if n_bytes != len(self._map):
            self._map.resize(n_bytes)
        return self._map

    def _advise(self, n_bytes: int) -> None:
        if n_bytes >= 2 * _HUGE_PAGE:
            try:
                self._map.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                # A kernel without huge pages.
                pass


class Heap:
    """An ordinary array. What is not used is given back by copying."""

    __slots__ = ("_array", "view")

    def __init__(self, n_bytes: int) -> None:
        self._array = np.empty(n_bytes, np.uint8)
        self.view = self._array.data

    def resize(self, n_bytes: int, keep: int) -> None:
        """Move the first ``keep`` bytes into another array."""
        array = np.empty(n_bytes, np.uint8)
        array[:keep] = self._array[:keep]
        self._array = array
        self.view = array.data

    def finish(self, n_bytes: int) -> NDArray[np.uint8]:
        """Give back what is not used, where that is more than a page."""
        if len(self._array) - n_bytes > mmap.PAGESIZE:
            return self._array[:n_bytes].copy()
        return self._array[:n_bytes]


def reserve(n_bytes: int, *, growing: bool) -> Reservation:
    """Return memory of ``n_bytes`` bytes, more than none.

    Args:
        n_bytes: The size.
        growing: Whether it is a guess, rather than a bound.

    Raises:
        MemoryError: There is not as much.
    """
    # What malloc hands out up to this size was often an array before, and its pages are there already.
    from_the_heap = n_bytes <= _LARGEST_OF_THE_HEAP and not growing
    return Heap(n_bytes) if from_the_heap or sys.platform != "linux" else Mapping(n_bytes)
