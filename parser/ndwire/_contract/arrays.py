"""What counts as an array on the way out: ndarrays, scalars, tensors, anything with ``__array__`` or DLPack.

No framework is imported. A torch tensor is recognised by its module and brought to the host first; torch's own DLPack
loses pending negations, and its ``numpy()`` refuses bfloat16 and tensors that need a gradient.

An envelope holds numbers and their shape. What says more than that, such as the names of columns, is recognised by what
its type has, and refused: it would be gone without a sign.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.dtypes import DTYPES, USER_DEFINED, dtype_name, known_dtype, little_endian

# Attribute of a type -> what an array of its values would lose. The types are those of NumPy's masked arrays, pandas,
# polars, pyarrow, xarray, astropy, pint, unyt, and of whatever imitates them.
_LOST: Final = (
    ("columns", "the names of its columns"),
    ("column_names", "the names of its columns"),
    ("iloc", "its index"),
    ("coords", "its coordinates"),
    ("sizes", "the names of its dimensions"),
    ("unit", "its unit"),
    ("units", "its unit"),
    # Behind the others: pandas has a method of that name.
    ("mask", "its mask"),
)
_SHOWN_CHARACTERS: Final = 80


def as_array(value: Any) -> NDArray[Any] | None:
    """Return ``value`` as an ndarray that shares its memory where it can, or None if it is no array.

    Raises:
        TypeError: It is an array, but of a kind or dtype that the wire does not have, one that would lose what is no
            number (a mask, labels, a unit, nulls), or one that fails to give its values.
    """
    kind = type(value)
    if kind is np.ndarray:
        array: NDArray[Any] = value
    elif not (hasattr(kind, "__array__") or hasattr(kind, "__dlpack__") or _is_torch(kind)):
        return None
    else:
        _refuse_loss(value)
        try:
            array = _values_of(value)
        except Exception as exc:
            raise TypeError(f"a {kind.__name__} that gives no array: {exc}") from exc
        # What __array__ returned may be masked in its turn.
        _refuse_loss(array)
        array = array.view(np.ndarray)
    if not array.dtype.isnative and array.dtype.isbuiltin == USER_DEFINED:
        # The one kind of swapped array that cannot be swapped back piece by piece.
        array = array.astype(array.dtype.newbyteorder("="))
    if dtype_name(array.dtype) is None:
        dtype = str(array.dtype)[:_SHOWN_CHARACTERS]
        raise TypeError(f"an array of dtype {dtype}; the wire has {', '.join(DTYPES)}")
    return array


def _refuse_loss(value: Any) -> None:
    kind = type(value)
    for attribute, lost in _LOST:
        if hasattr(kind, attribute):
            raise TypeError(f"a {kind.__name__} would lose {lost}: pass its values alone, or handle it in default")
    if _has_nulls(value):
        raise TypeError(f"a {kind.__name__} would lose its nulls: fill or drop them, or handle it in default")


def _has_nulls(value: Any) -> bool:
    """Return whether a column of a table lacks values; NumPy would make NaN of them, or other numbers of integers."""
    kind = type(value)
    if hasattr(kind, "null_count"):
        # Arrow's count is an attribute, that of polars a method.
        return bool(value.null_count() if callable(kind.null_count) else value.null_count)
    # The arrays of pandas say by their dtype that they can lack values.
    return hasattr(kind, "isna") and hasattr(value.dtype, "na_value") and bool(value.isna().any())


def _is_torch(kind: type) -> bool:
    """Return whether a type is torch's tensor, or one that inherits from it."""
    return hasattr(kind, "detach") and any(base.__module__.partition(".")[0] == "torch" for base in kind.__mro__)


def _values_of(value: Any) -> NDArray[Any]:
    kind = type(value)
    if _is_torch(kind):
        return _from_torch(value)
    if hasattr(kind, "__array__"):
        array: NDArray[Any] = np.asanyarray(value)
        return array
    return np.from_dlpack(value)


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
    if not _is_float(array.dtype) or not _is_float(dtype):
        return False
    # Every wider float holds all of the floats of one byte; ml_dtypes says so of float32 and float64 only.
    return np.can_cast(array.dtype, dtype, "safe") or array.dtype.itemsize == 1 < dtype.itemsize


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "fV"


def contiguous(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the array's bytes in C order and little-endian; a copy only where the layout asks for one."""
    dense = np.ascontiguousarray(array, dtype=little_endian(array.dtype))
    return dense.reshape(-1).view(np.uint8)
