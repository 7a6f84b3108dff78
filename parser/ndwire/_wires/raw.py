"""The raw wire: a string that holds the base64 of an array's bytes, with dtype and shape known beforehand."""

from __future__ import annotations

import math

from ndwire._contract.dtypes import DTYPES
from ndwire._contract.errors import MalformedArray
from ndwire._contract.field import Field, check_dtype, check_ndim
from ndwire._contract.limits import Limits
from ndwire._wires.spec import Meta


def raw_size(field: Field) -> int | None:
    """Return the exact number of bytes that a raw value of ``field`` has; None where one dimension is open."""
    if field.raw_dtype is None or -1 in field.raw_shape:
        return None
    return math.prod(field.raw_shape) * DTYPES[field.raw_dtype].itemsize


def raw_meta(field: Field, n_bytes: int, limits: Limits, offset: int) -> Meta:
    """Return dtype and shape of a raw value of ``n_bytes`` bytes.

    Raises:
        MalformedArray: The bytes are not those of whole items or rows, or the field does not allow the dtype.
        LimitExceeded: More dimensions than allowed.
    """
    dtype = check_dtype(field, field.raw_dtype, offset)
    shape = tuple(field.raw_shape)
    check_ndim(field, len(shape), limits, offset)
    if -1 in shape:
        row = math.prod(dimension for dimension in shape if dimension != -1) * dtype.itemsize
        # Rows of no bytes: there may be any number of them, and none is what the bytes say.
        rows = n_bytes // row if row else 0
        shape = tuple(rows if dimension == -1 else dimension for dimension in shape)
    meta = Meta(dtype, shape, math.prod(shape) * dtype.itemsize, {})
    if meta.n_bytes != n_bytes:
        raise MalformedArray(
            f"{field.name!r} holds {n_bytes} bytes, which are not {field.raw_dtype} in the shape {field.raw_shape}",
            offset=offset,
        )
    return meta
