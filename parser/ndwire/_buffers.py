"""Where the decoded bytes of one array go.

A blob has to prove large before it gets a reservation: its first ``_SMALL`` bytes are kept as they came, and most
arrays end there and are joined into a buffer of exactly their size. After that the bytes go into one buffer of the
size that the content length bounds, or into one that grows geometrically; what was reserved too much is given back at
the end. Nothing that a peer *claims* reserves memory: only bytes that arrived, or a content length under the limits.

The final memory is a ``bytearray`` or a uint8 array that owns its data, of the exact size, or the beginning of the
caller's own buffer where there is an ``allocate``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._errors import LimitExceeded

Allocate = Callable[[str, int], NDArray[np.uint8]]
Memory = bytearray | NDArray[np.uint8]

_SMALL: Final = 1 << 20
_FIRST_CAPACITY: Final = 4 << 20


def allocated(allocate: Allocate, name: str, n_bytes: int) -> NDArray[np.uint8]:
    """Return what the caller's ``allocate`` gives for ``n_bytes`` bytes, or refuse it.

    Raises:
        TypeError: It is no uint8 array, or one that is too small, strided or read-only.
    """
    buffer: Any = allocate(name, n_bytes)
    if not isinstance(buffer, np.ndarray) or buffer.dtype != np.uint8:
        raise TypeError(f"allocate({name!r}, {n_bytes}) must return a uint8 array, not {type(buffer).__name__}")
    if not (buffer.flags.c_contiguous and buffer.flags.writeable) or buffer.size < n_bytes:
        raise TypeError(
            f"allocate({name!r}, {n_bytes}) must return a writable, C-contiguous array of at least {n_bytes} bytes"
        )
    return buffer.reshape(-1)


class ArrayBuffer:
    """Collects the bytes of one array.

    Args:
        name: The field's name, for ``allocate``.
        offset: The array's first byte in the body, for errors.
        bound: No array that starts here can have more bytes than this; 0 where nothing is known.
        limit: The bytes that the caller's limits still allow.
        allocate: The caller's source of memory, or None.
    """

    __slots__ = (
        "_allocate",
        "_bound",
        "_callers",
        "_capacity",
        "_limit",
        "_name",
        "_offset",
        "_parts",
        "_store",
        "_view",
        "size",
    )

    def __init__(self, name: str, offset: int, *, bound: int, limit: int, allocate: Allocate | None) -> None:
        self.size = 0
        self._name = name
        self._offset = offset
        self._bound = min(bound, limit)
        self._limit = limit
        self._allocate = allocate
        self._parts: list[bytes | bytearray] = []
        self._store: NDArray[np.uint8] | None = None
        self._view: memoryview | None = None
        self._capacity = 0
        self._callers = False  # the store came from allocate()

    def write(self, decoded: bytes | bytearray) -> None:
        """Append ``decoded``, which becomes the buffer's own.

        Raises:
            LimitExceeded: More than the limits allow.
        """
        start = self.size
        size = start + len(decoded)
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
        if self._view is not None:
            self._view.release()
            self._view = None
        if self._allocate is not None:
            return self._in_callers_memory(self._allocate)
        if self._store is not None:
            # Nothing else refers to the array, and the view is gone.
            self._store.resize(self.size, refcheck=False)
            return self._store
        if len(self._parts) == 1 and isinstance(self._parts[0], bytearray):
            return self._parts[0]
        return bytearray().join(self._parts)

    def _reserve(self, size: int) -> None:
        """Move what is there into a buffer of at least ``size`` bytes."""
        bounded = self._bound >= size
        capacity = self._bound if bounded else max(2 * size, _FIRST_CAPACITY)
        self._callers = bounded and self._allocate is not None
        if bounded and self._allocate is not None:
            store = allocated(self._allocate, self._name, capacity)
        else:
            store = np.empty(capacity, np.uint8)
        view = store.data
        self._copy(view)
        if self._view is not None:
            self._view.release()
        self._parts = []
        self._store, self._view, self._capacity = store, view, capacity

    def _in_callers_memory(self, allocate: Allocate) -> NDArray[np.uint8]:
        if self._callers and self._store is not None:
            return self._store[: self.size]
        buffer = allocated(allocate, self._name, self.size)[: self.size]
        self._copy(buffer.data)
        return buffer

    def _copy(self, target: memoryview) -> None:
        if self._store is not None:
            target[: self.size] = self._store.data[: self.size]
            return
        at = 0
        for part in self._parts:
            target[at : at + len(part)] = part
            at += len(part)
