"""Dtype and shape of one array, and the array that its bytes make."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndwire._buffers.array_buffer import Memory
from ndwire._contract.dtypes import BIG_ENDIAN_HOST, DType, dtype_name
from ndwire._contract.errors import MalformedArray
from ndwire._contract.field import Field, run_check


class Meta:
    """What the tail of an envelope says: immutable but for the sidecar, which is copied for each array."""

    __slots__ = ("dtype", "n_bytes", "shape", "sidecar")

    def __init__(self, dtype: DType, shape: tuple[int, ...], n_bytes: int, sidecar: dict[str, object]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.n_bytes = n_bytes
        self.sidecar = sidecar


def check_size(field: Field, meta: Meta, n_bytes: int, offset: int | None) -> None:
    """Refuse an envelope whose bytes are not exactly those of its shape and dtype.

    Raises:
        MalformedArray: Too few or too many.
    """
    if n_bytes != meta.n_bytes:
        shape = "x".join(map(str, meta.shape)) or "a scalar"
        raise MalformedArray(
            f"{field.name!r} holds {n_bytes} bytes, but {shape} of {dtype_name(meta.dtype)} takes {meta.n_bytes}",
            offset=offset,
        )


def build(field: Field, meta: Meta, memory: Memory, offset: int | None) -> NDArray[Any]:
    """Make the array of ``meta`` out of its little-endian bytes.

    Returns:
        An array in native byte order and C order, writable; its memory is ``memory``.

    Raises:
        MalformedArray: NumPy cannot have such a shape, or the field's check failed.
    """
    try:
        array: NDArray[Any] = np.ndarray(meta.shape, meta.dtype, memory)
    except ValueError as exc:
        raise MalformedArray(f"{field.name!r} has a shape that NumPy refuses: {exc}", offset=offset) from exc
    if BIG_ENDIAN_HOST:
        array.byteswap(inplace=True)
    run_check(field, array, offset)
    return array
