"""The npy wire: a string that holds the base64 of a whole ``.npy`` file.

The header is read with NumPy's own functions as soon as it is complete; from then on the number of bytes is exact.
Nothing is ever unpickled: an object array is refused by its dtype, before any of its data is looked at.

Source: numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import io
import math
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ndwire._buffers import Allocate, ArrayBuffer, allocated
from ndwire._dtypes import DType, dtype_name
from ndwire._errors import MalformedArray
from ndwire._field import Field, check_dtype, check_shape, run_check
from ndwire._limits import Limits

MAGIC_BASE64: Final = b"k05VTVBZ"
"""The base64 of the six bytes that every ``.npy`` file begins with."""

_MAGIC_BYTES: Final = 8  # with the two of the version
# What NumPy's own reader takes. The header is evaluated, and time and memory for that grow with its length.
_MAX_HEADER_BYTES: Final = 10_000


class NpyBuffer:
    """Takes the decoded bytes of one ``.npy`` file and makes the array.

    Args:
        field: What is allowed.
        offset: The string's first byte in the body, for errors.
        bound: No array that starts here can have more bytes than this; 0 where nothing is known.
        limit: The bytes that the caller's limits still allow.
        limits: Bounds the number of dimensions.
        allocate: The caller's source of memory, or None.
    """

    __slots__ = (
        "_allocate",
        "_bound",
        "_data",
        "_dtype",
        "_field",
        "_fortran",
        "_head",
        "_limit",
        "_limits",
        "_offset",
        "_shape",
        "size",
    )

    def __init__(
        self, field: Field, offset: int, *, bound: int, limit: int, limits: Limits, allocate: Allocate | None
    ) -> None:
        self.size = 0
        self._field = field
        self._offset = offset
        self._bound = bound
        self._limit = limit
        self._limits = limits
        self._allocate = allocate
        self._head = bytearray()
        self._data: ArrayBuffer | None = None
        self._dtype: DType = np.dtype(np.uint8)
        self._shape: tuple[int, ...] = ()
        self._fortran = False

    @property
    def n_bytes(self) -> int:
        """The bytes of the array itself, without the header."""
        return self._data.size if self._data is not None else 0

    def write(self, decoded: bytes | bytearray) -> None:
        """Append decoded bytes.

        Raises:
            MalformedArray: The header is broken or not allowed, or there are more bytes than it says.
            LimitExceeded: More bytes or dimensions than the limits allow.
        """
        self.size += len(decoded)
        if self._data is not None:
            self._data.write(decoded)
            return
        self._head += decoded
        end = self._header_end()
        if end is not None and len(self._head) >= end:
            self._data = self._read_header(bytes(self._head[:end]))
            self._data.write(bytes(self._head[end:]))
            self._head.clear()

    def finish(self) -> NDArray[Any]:
        """Return the array: native byte order, C order, writable.

        Raises:
            MalformedArray: Too few bytes, or the field's check failed.
        """
        data = self._data
        if data is None:
            raise self._malformed("ends within the header of its npy file")
        n_bytes = math.prod(self._shape) * self._dtype.itemsize
        if data.size != n_bytes:
            raise self._malformed(f"holds {data.size} bytes of its npy file's {n_bytes}")
        array: NDArray[Any] = np.ndarray(self._shape, self._dtype, data.finish(), order="F" if self._fortran else "C")
        if not self._dtype.isnative:
            array = array.byteswap(inplace=True).view(self._dtype.newbyteorder("="))
        if self._fortran:
            array = self._in_c_order(array)
        run_check(self._field, array, self._offset)
        return array

    def _in_c_order(self, array: NDArray[Any]) -> NDArray[Any]:
        if self._allocate is None:
            return array.copy(order="C")
        memory = allocated(self._allocate, self._field.name, array.nbytes)
        target: NDArray[Any] = np.ndarray(array.shape, array.dtype, memory[: array.nbytes])
        target[...] = array
        return target

    def _header_end(self) -> int | None:
        """Return where the header ends, as soon as that can be known."""
        head = self._head
        if len(head) < _MAGIC_BYTES:
            return None
        width = 2 if head[6] == 1 else 4
        if (head[6], head[7]) not in ((1, 0), (2, 0), (3, 0)):
            raise self._malformed(f"is an npy file of version {head[6]}.{head[7]}")
        if len(head) < _MAGIC_BYTES + width:
            return None
        length = int.from_bytes(head[_MAGIC_BYTES : _MAGIC_BYTES + width], "little")
        if length > _MAX_HEADER_BYTES:
            raise self._malformed(f"has an npy header of {length} bytes")
        return _MAGIC_BYTES + width + length

    def _read_header(self, head: bytes) -> ArrayBuffer:
        """Read the complete header and return where the data goes."""
        field, offset = self._field, self._offset
        dimensions, self._fortran, self._dtype = self._parse_header(head)
        name = dtype_name(self._dtype)
        check_dtype(field, name if name is not None else str(self._dtype), offset)
        self._shape = check_shape(field, dimensions, self._limits, offset)
        if math.prod(dimension for dimension in self._shape if dimension) * self._dtype.itemsize >= 1 << 63:
            raise self._malformed(f"has a shape that NumPy refuses: {self._shape}")
        self._fortran = self._fortran and len(self._shape) > 1
        return ArrayBuffer(
            field.name,
            offset,
            bound=self._bound,
            limit=self._limit,
            allocate=None if self._fortran else self._allocate,
            exact=math.prod(self._shape) * self._dtype.itemsize,
        )

    def _parse_header(self, head: bytes) -> tuple[tuple[int, ...], bool, DType]:
        # Version 3 only differs from 2 by UTF-8, and a plain dtype's header is ASCII.
        read = npy_format.read_array_header_1_0 if head[6] == 1 else npy_format.read_array_header_2_0
        try:
            return read(io.BytesIO(head[_MAGIC_BYTES:]), max_header_size=_MAX_HEADER_BYTES)
        except Exception as exc:
            # ValueError by contract; SyntaxError, MemoryError, RecursionError and others for text made to break it.
            raise self._malformed("has a broken npy header") from exc

    def _malformed(self, what: str) -> MalformedArray:
        return MalformedArray(f"{self._field.name!r} {what}", offset=self._offset)
