"""Which dtype a list of numbers is read in, by the rule alone, with exact numbers.

* Integer literals go to the first dtype that holds every one exactly; if there is none, to the first float dtype whose
  range holds them, rounded.
* Lists with a point or an exponent go to the first float dtype in which none overflows and none that is not zero
  becomes zero; if there is none, to the first whose range holds them.
* Where the field says so, nulls and the literals of what is not finite are numbers of float dtypes.
* Decimals are rounded as Python rounds them to floats, then cast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fuzz.reference.tree import NONFINITE

_INTEGER: Final = re.compile(rb"-?[0-9]+")
_BY_DEFAULT: Final = ("int64", "uint64", "float64")


def array_of(spellings: Sequence[bytes], dtypes: Sequence[str] | None) -> NDArray[Any] | None:
    """Return numbers, as they are spelled, in the first of ``dtypes`` that the rule allows; None if there is none.

    Args:
        spellings: Numbers; null and what is not finite among them stand for themselves.
        dtypes: As of a field.
    """
    finite = [spelling for spelling in spellings if spelling != b"null" and spelling not in NONFINITE]
    names = dtypes or _BY_DEFAULT
    floats = [name for name in names if dtype_of(name).kind in "fV"]
    if all(_INTEGER.fullmatch(spelling) for spelling in finite):
        integers = [int(spelling) for spelling in finite]
        for name in names if len(finite) == len(spellings) else floats:
            array = _exact(integers, name) if name not in floats else _rounded(spellings, name)
            if array is not None and all(
                Fraction(item) == Fraction(integer)
                for item, integer in zip(_finite(spellings, array), integers, strict=True)
            ):
                return array
    else:
        for name in floats:
            array = _rounded(spellings, name)
            if array is not None and all(
                item != 0 or float(spelling) == 0
                for item, spelling in zip(_finite(spellings, array), finite, strict=True)
            ):
                return array
    for name in floats:
        array = _rounded(spellings, name)
        if array is not None:
            return array
    return None


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype that the wire calls ``name``."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


def _exact(integers: Sequence[int], name: str) -> NDArray[Any] | None:
    """Return integers in a dtype that is none of floats, if its range holds them."""
    dtype = dtype_of(name)
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    if not all(info.min <= integer <= info.max for integer in integers):
        return None
    return np.array(integers, dtype)


def _rounded(spellings: Sequence[bytes], name: str) -> NDArray[Any] | None:
    """Return numbers rounded to a float dtype, if none overflows and what is not finite stays what it is."""
    wide = np.array([_float(spelling) for spelling in spellings], np.float64)
    with np.errstate(all="ignore"):
        narrow = wide.astype(dtype_of(name))
        back = narrow.astype(np.float64)
    same_kind = (np.isnan(wide) == np.isnan(back)) & (np.isinf(wide) == np.isinf(back))
    return narrow if same_kind.all() else None


def _float(spelling: bytes) -> float:
    if spelling == b"null":
        return math.nan
    if spelling in NONFINITE:
        return NONFINITE[spelling]
    return float(int(spelling)) if _INTEGER.fullmatch(spelling) else float(spelling)


def _finite(spellings: Sequence[bytes], array: NDArray[Any]) -> list[Any]:
    """Return the items whose spelling is that of a finite number, as exact numbers."""
    items: list[Any] = array.tolist() if array.dtype.kind in "iu" else array.astype(np.float64).tolist()
    return [
        item
        for spelling, item in zip(spellings, items, strict=True)
        if spelling != b"null" and spelling not in NONFINITE
    ]
