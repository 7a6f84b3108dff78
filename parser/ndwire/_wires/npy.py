"""The npy wire: a string that holds the base64 of a whole ``.npy`` file.

The header is read as soon as it is complete; from then on the number of bytes is exact. Nothing is ever evaluated or
unpickled: an object array is refused by its dtype, before any of its data is looked at.

Source: numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._buffers.array_buffer import ArrayBuffer, allocated
from ndwire._contract.dtypes import DType, dtype_name
from ndwire._contract.errors import MalformedArray
from ndwire._contract.field import Field, check_dtype, check_shape, run_check
from ndwire._contract.limits import Limits
from ndwire._contract.shown import shown
from ndwire._contract.types import Allocate
from ndwire._wires.npy_header import Header, dtype_of, opaque_dtype, parse_header

MAGIC_BASE64: Final = b"k05VTVBZ"
"""The base64 of the six bytes that every ``.npy`` file begins with."""

_MAGIC_BYTES: Final = 8  # with the two of the version
# What NumPy's own reader takes.
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
        opaque: The dtype that bytes of unknown kind are taken for. By default that of ml_dtypes which the field allows
            alone, since NumPy saves ``bfloat16`` as two bytes of anything.
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
        "_opaque",
        "_shape",
        "size",
    )

    def __init__(
        self,
        field: Field,
        offset: int,
        *,
        bound: int,
        limit: int,
        limits: Limits,
        allocate: Allocate | None,
        opaque: DType | None = None,
    ) -> None:
        self.size = 0
        self._field = field
        self._offset = offset
        self._bound = bound
        self._limit = limit
        self._limits = limits
        self._allocate = allocate
        self._opaque = opaque if opaque is not None else opaque_dtype(field.dtypes)
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
        text = head[_MAGIC_BYTES + (2 if head[6] == 1 else 4) :]
        header = parse_header(text)
        if header is None:
            raise self._malformed(f"has an npy header that is not one of a plain array: {shown(text)}")
        self._dtype = self._allowed(header)
        self._shape = check_shape(field, header.shape, self._limits, offset)
        if math.prod(dimension for dimension in self._shape if dimension) * self._dtype.itemsize >= 1 << 63:
            raise self._malformed(f"has a shape that NumPy refuses: {shown(self._shape)}")
        self._fortran = header.fortran_order and len(self._shape) > 1
        return ArrayBuffer(
            field.name,
            offset,
            bound=self._bound,
            limit=self._limit,
            allocate=None if self._fortran else self._allocate,
            exact=math.prod(self._shape) * self._dtype.itemsize,
        )

    def _allowed(self, header: Header) -> DType:
        """Return the header's dtype, in its byte order, if the field allows it."""
        dtype = dtype_of(header.descr, self._opaque)
        if dtype is None:
            raise self._malformed(f"is an npy file of dtype {shown(header.descr)}, which the wire does not know")
        check_dtype(self._field, dtype_name(dtype), self._offset)
        return dtype

    def _malformed(self, what: str) -> MalformedArray:
        return MalformedArray(f"{self._field.name!r} {what}", offset=self._offset)
