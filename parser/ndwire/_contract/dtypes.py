"""The fixed table of dtypes that the wire knows.

A name from the wire is looked up here and never reaches ``np.dtype()``, which takes ``O``, ``V8`` or
``S1000000000`` as gladly as ``int16``. Object, string, void and structured arrays have no entry: the bytes of
an object array are pointers.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from ndwire._contract.shown import shown

try:
    import ml_dtypes as _ml_dtypes
except ImportError:
    _ml_dtypes = None  # type: ignore[assignment]  # the module is optional

DType = np.dtype[Any]

BIG_ENDIAN_HOST: Final = sys.byteorder == "big"

# Values of np.dtype.isbuiltin. Structured dtypes share the 0, and no name of the table matches them.
_BYTE_SWAPPED: Final = 0
USER_DEFINED: Final = 2

_STANDARD: Final = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_EXTENDED: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _table() -> dict[str, DType]:
    table: dict[str, DType] = {name: np.dtype(name) for name in _STANDARD}
    if _ml_dtypes is not None:
        table.update({name: np.dtype(getattr(_ml_dtypes, name)) for name in _EXTENDED})
    return table


DTYPES: Final[dict[str, DType]] = _table()
"""Wire name -> dtype in native byte order."""

_NAMES: Final[dict[DType, str]] = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype: DType) -> str | None:
    """Return the wire name of ``dtype``, whatever its byte order, or None where the table has none."""
    name = _NAMES.get(dtype)
    if name is None and dtype.isbuiltin == _BYTE_SWAPPED:
        name = _NAMES.get(dtype.newbyteorder("="))
    return name


def known_dtype(name: object, owner: str) -> str:
    """Return ``name`` if the table has it.

    Args:
        name: A name from a caller's configuration.
        owner: What the name was given for; opens the error's message.

    Raises:
        ValueError: The table has no such name.
    """
    if isinstance(name, str) and name in DTYPES:
        return name
    raise ValueError(f"{owner}: {shown(name)} is not a dtype of the wire{missing(name)}; it knows {', '.join(DTYPES)}")


def missing(name: object) -> str:
    """Return what a message about an unknown dtype adds where a package is all that is missing; else nothing."""
    return " (it needs the package ml_dtypes)" if isinstance(name, str) and name in _EXTENDED else ""


def little_endian(dtype: DType) -> DType:
    """Return ``dtype`` in the wire's byte order; those of ml_dtypes exist in the native order only."""
    return dtype if dtype.isbuiltin == USER_DEFINED else dtype.newbyteorder("<")
