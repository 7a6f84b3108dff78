"""Where the decoded bytes of one array go.

A blob has to prove large before it gets a reservation: its first ``_SMALL`` bytes are kept as they came, and most
arrays end there and are joined into a buffer of exactly their size. After that the bytes go into one buffer of the
size that the content length bounds, or into one that grows geometrically; what was reserved too much is given back at
the end. Nothing that a peer *claims* reserves memory: only bytes that arrived, or a content length under the limits.

The final memory is a ``bytearray``, an array or a mapping of the exact size (give or take a page), or the beginning of
the caller's own buffer where there is an ``allocate``.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._buffers.reservation import Reservation, reserve
from ndwire._contract.dtypes import DTYPES
from ndwire._contract.errors import LimitExceeded, MalformedArray
from ndwire._contract.shown import shown
from ndwire._contract.types import Allocate

Memory = bytearray | mmap.mmap | NDArray[np.uint8]

_SMALL: Final = 1 << 20
_FIRST_CAPACITY: Final = 4 << 20
# What every dtype of the wire can begin at: which one will come is not known yet.
_ALIGNMENT: Final = max(dtype.alignment for dtype in DTYPES.values())


def allocated(allocate: Allocate, name: str, n_bytes: int) -> NDArray[np.uint8]:
    """Return what the caller's ``allocate`` gives for ``n_bytes`` bytes, or refuse it.

    Returns:
        One dimension of uint8, a plain ndarray over the caller's memory.

    Raises:
        TypeError: It is no uint8 array, or one that is masked, a matrix, too small, strided, read-only or unaligned
            (its address is no multiple of 8 bytes).
    """
    buffer: Any = allocate(name, n_bytes)
    call = f"allocate({shown(name)}, {n_bytes}) must return"
    # A masked array would hide what is written to it, and a matrix has two dimensions whatever is made of it.
    if not isinstance(buffer, np.ndarray) or isinstance(buffer, (np.ma.MaskedArray, np.matrix)):
        raise TypeError(f"{call} a uint8 array, not {shown(buffer)}")
    if buffer.dtype != np.uint8:
        raise TypeError(f"{call} a uint8 array, not one of {str(buffer.dtype)[:80]}")
    if not (buffer.flags.c_contiguous and buffer.flags.writeable) or buffer.size < n_bytes:
        raise TypeError(f"{call} a writable, C-contiguous array of at least {n_bytes} bytes")
    if n_bytes and buffer.ctypes.data % _ALIGNMENT:
        raise TypeError(f"{call} memory that begins at a multiple of {_ALIGNMENT} bytes")
    return buffer.view(np.ndarray).reshape(-1)


class ArrayBuffer:
    """Collects the bytes of one array.

    Args:
        name: The field's name, for ``allocate``.
        offset: The array's first byte in the body, for errors.
        bound: No array that starts here can have more bytes than this; 0 where nothing is known.
        limit: The bytes that the caller's limits still allow.
        allocate: The caller's source of memory, or None.
        exact: The number of bytes that a header of the array's own claims. It caps what is reserved and reserves
            nothing by itself.
    """

    __slots__ = (
        "_allocate",
        "_bound",
        "_callers",
        "_capacity",
        "_exact",
        "_limit",
        "_name",
        "_offset",
        "_parts",
        "_reservation",
        "_view",
        "size",
    )

    def __init__(
        self, name: str, offset: int, *, bound: int, limit: int, allocate: Allocate | None, exact: int | None = None
    ) -> None:
        self.size = 0
        self._name = name
        self._offset = offset
        self._bound = min(bound, limit) if exact is None else min(bound, limit, exact)
        self._exact = exact
        self._limit = limit
        self._allocate = allocate
        self._parts: list[bytes | bytearray] = []
        self._reservation: Reservation | None = None
        self._callers: NDArray[np.uint8] | None = None  # what allocate() gave, in the reservation's place
        self._view: memoryview | None = None
        self._capacity = 0

    def write(self, decoded: bytes | bytearray) -> None:
        """Append ``decoded``, which becomes the buffer's own.

        Raises:
            LimitExceeded: More than the limits allow.
            MalformedArray: More than the array's own header says.
        """
        start = self.size
        size = start + len(decoded)
        if self._exact is not None and size > self._exact and self._exact <= self._limit:
            raise MalformedArray(
                f"{self._name!r} has more than the {self._exact} bytes of its shape", offset=self._offset
            )
        if size > self._limit:
            raise LimitExceeded(f"the array {self._name!r} has more than {self._limit} bytes", offset=self._offset)
        if size > self._capacity and (self._view is not None or size > _SMALL):
            self._reserve(size)
        if self._view is None:
            self._parts.append(decoded)
        else:
            self._view[start:size] = decoded
        self.size = size

    def finish(self) -> Memory:
        """Return the memory that holds the bytes written, and nothing behind them.

        With ``allocate`` it is the beginning of the caller's buffer; else of its exact size, and owned by whoever
        holds it.
        """
        if self._callers is not None:
            return self._callers[: self.size]
        if self._allocate is not None:
            return self._in_callers_memory(self._allocate)
        if self._reservation is not None:
            self._view = None
            memory: Memory = self._reservation.finish(self.size)
            return memory
        if len(self._parts) == 1 and isinstance(self._parts[0], bytearray):
            return self._parts[0]
        return bytearray().join(self._parts)

    def _reserve(self, size: int) -> None:
        """Make room for at least ``size`` bytes."""
        if self._reservation is not None:
            self._capacity = self._growing(size)
            self._reservation.resize(self._capacity, self.size)
            self._view = self._reservation.view
            return
        if self._bound >= size and self._allocate is not None:
            self._capacity = self._bound
            self._callers = allocated(self._allocate, self._name, self._bound)
            self._view = self._callers.data
        else:
            before = self._view
            self._reservation = self._first_reservation(size)
            self._view = self._reservation.view
            if before is not None:
                # The caller's buffer was bounded by a content length that proves too short.
                self._view[: self.size] = before[: self.size]
                self._callers = None
                return
        _copy(self._parts, self._view)
        self._parts = []

    def _first_reservation(self, size: int) -> Reservation:
        if self._bound >= size:
            try:
                self._capacity = self._bound
                return reserve(self._bound, growing=False)
            except MemoryError:
                # The length that was announced is more than there is memory for; what comes may be less.
                pass
        self._capacity = self._growing(size)
        return reserve(self._capacity, growing=True)

    def _growing(self, size: int) -> int:
        """Return how much to reserve for ``size`` bytes and as many that may come."""
        capacity = max(2 * size, _FIRST_CAPACITY)
        return capacity if self._exact is None else min(capacity, self._exact)

    def _in_callers_memory(self, allocate: Allocate) -> NDArray[np.uint8]:
        buffer = allocated(allocate, self._name, self.size)[: self.size]
        if self._view is not None:
            buffer.data[:] = self._view[: self.size]
        else:
            _copy(self._parts, buffer.data)
        return buffer


def _copy(parts: list[bytes | bytearray], target: memoryview) -> None:
    at = 0
    for part in parts:
        target[at : at + len(part)] = part
        at += len(part)
