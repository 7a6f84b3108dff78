"""What counts as an array on the way out: ndarrays, scalars, tensors, anything with ``__array__`` or DLPack.

No framework is imported. A torch tensor is recognised by its module and brought to the host first; torch's own DLPack
loses pending negations, and its ``numpy()`` refuses bfloat16 and tensors that need a gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndwire._dtypes import DTYPES, USER_DEFINED, dtype_name, known_dtype, little_endian


def as_array(value: Any) -> NDArray[Any] | None:
    """Return ``value`` as an ndarray that shares its memory where it can, or None if it is no array.

    Raises:
        TypeError: It is an array, but of a kind or dtype that the wire does not have.
    """
    kind = type(value)
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError("a masked array would lose its mask; fill or compress it first")
        array: NDArray[Any] = value.view(np.ndarray)
    elif kind.__module__.partition(".")[0] == "torch" and hasattr(kind, "detach"):
        array = _from_torch(value)
    elif isinstance(value, np.generic) or hasattr(kind, "__array__"):
        array = np.asarray(value)
    elif hasattr(kind, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        return None
    if not array.dtype.isnative and array.dtype.isbuiltin == USER_DEFINED:
        # The one kind of swapped array that cannot be swapped back piece by piece.
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype_name(array.dtype) is None:
        raise TypeError(f"an array of dtype {array.dtype}; the wire has {', '.join(DTYPES)}")
    return array


def _from_torch(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array: NDArray[Any] = tensor.numpy()
        return array
    if name not in DTYPES:
        raise TypeError(f"tensors of dtype {name} need the package ml_dtypes")
    torch = sys.modules["torch"]
    integers: NDArray[Any] = tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy()
    return integers.view(DTYPES[name])


def narrow(array: NDArray[Any], dtypes: Sequence[str]) -> NDArray[Any]:
    """Return ``array`` in the first of ``dtypes`` that keeps all of its values.

    Integers go to the first integer dtype that holds them, floats to the first float dtype that is at least as wide,
    bool and complex stay what they are.

    Raises:
        ValueError: None of them does, or one is no dtype of the wire.
    """
    name = dtype_name(array.dtype)
    for candidate in dtypes:
        dtype = DTYPES[known_dtype(candidate, "dtypes")]
        if candidate == name or _keeps(array, dtype):
            return array if candidate == name else array.astype(dtype)
    raise ValueError(f"none of {', '.join(dtypes)} holds this array of {name}")


def _keeps(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        return array.size == 0 or (int(array.min()) >= info.min and int(array.max()) <= info.max)
    return _is_float(array.dtype) and _is_float(dtype) and np.can_cast(array.dtype, dtype, "safe")


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fV"


def contiguous(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the array's bytes in C order and little-endian; a copy only where the layout asks for one."""
    dense = np.ascontiguousarray(array, dtype=little_endian(array.dtype))
    return dense.reshape(-1).view(np.uint8)
