"""Which array a list is: the rules, number by number, with Python's exact integers and fractions."""

from __future__ import annotations

import fractions
import json
import math
import struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire import Field

_FORMATS: Final = {"float16": "<e", "float32": "<f", "float64": "<d"}
_OTHER_FLOATS: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_BY_DEFAULT: Final = ("int64", "uint64", "float64")


class Unfit(Exception):
    """No dtype of the field holds the numbers of a rectangle, or it has the wrong number of dimensions."""


def parse(text: bytes | str) -> Any:
    """Return what JSON text, with NaN and infinities, says; integers are exact.

    Raises:
        ValueError: The text is not JSON, or has a decimal beyond float64.
    """
    return json.loads(text, parse_float=_finite)


def array_of(value: Any, field: Field) -> NDArray[Any] | None:
    """Return the array that a list is read as; None where the list is ordinary JSON, or no JSON.

    Args:
        value: A list, as ``parse`` gives it.
        field: The field under whose name it stands.

    Raises:
        Unfit: The list is a rectangle, and the field's dtypes or number of dimensions do not allow it.
    """
    shape = _shape(value)
    if shape is None:
        return None
    items: list[Any] = [value]
    for _ in shape:
        items = [item for row in items for item in row]
    names = field.dtypes or _BY_DEFAULT
    if not items:
        shape += (0,) * ((field.ndim or 0) - len(shape))
        name: str | None = names[0] if field.dtypes else "float64"
    else:
        types = set(map(type, items))
        if types == {bool}:
            candidates = [name for name in names if name == "bool"]
        elif bool in types:
            return None
        else:
            words = any(item is None or not _is_finite(item) for item in items)
            if words and field.nulls is None:
                return None
            candidates = [name for name in names if _is_float(name) or (not words and "int" in name)]
            if words and not candidates:
                return None
        if types == {bool} and not candidates:
            return None
        name = _chosen(items, candidates)
    if field.ndim not in (None, len(shape)):
        raise Unfit
    if name is None:
        raise Unfit
    if not items:
        return np.zeros(shape, name)
    return np.array([_cast(item, name) for item in items], _dtype(name)).reshape(shape)


def _finite(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise ValueError(literal)
    return value


def _shape(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return () if value is None or type(value) in (int, float, bool) else None
    shapes = {_shape(item) for item in value}
    if not shapes:
        return (0,)
    shape = shapes.pop()
    return None if shapes or shape is None else (len(value), *shape)


def _chosen(items: list[Any], names: list[str]) -> str | None:
    decimal = any(type(item) is float and _is_finite(item) for item in items)
    keeps = _keeps_decimal if decimal else _keeps_exactly
    for name in names:
        if all(_is_in_range(item, name) and keeps(item, name) for item in items):
            return name
    for name in names:
        if _is_float(name) and all(_is_in_range(item, name) for item in items):
            return name
    return None


def _is_finite(item: Any) -> bool:
    return type(item) is not float or math.isfinite(item)


def _is_float(name: str) -> bool:
    return name in _FORMATS or name in _OTHER_FLOATS


def _is_in_range(item: Any, name: str) -> bool:
    if _is_float(name):
        if item is None or not _is_finite(item):
            return str(float(_cast(item, name))) == str(math.nan if item is None else item)
        return math.isfinite(float(_cast(item, name)))
    if name == "bool":
        return True
    return type(item) is int and _least(name) <= item <= _greatest(name)


def _keeps_exactly(item: Any, name: str) -> bool:
    if not _is_float(name) or item is None or not _is_finite(item):
        return True
    return fractions.Fraction(float(_cast(item, name))) == fractions.Fraction(item)


def _keeps_decimal(item: Any, name: str) -> bool:
    if not _is_float(name):
        return False
    return item is None or not _is_finite(item) or (float(_cast(item, name)) == 0) == (float(item) == 0)


def _least(name: str) -> int:
    return 0 if name.startswith("u") else -(1 << (int(name[3:]) - 1))


def _greatest(name: str) -> int:
    return (1 << int(name[4:])) - 1 if name.startswith("u") else (1 << (int(name[3:]) - 1)) - 1


def _cast(item: Any, name: str) -> Any:
    """Return an item in the dtype, rounded to a float first where that is a float."""
    if not _is_float(name):
        return item
    value = math.nan if item is None else float(item)
    if name in _FORMATS:
        try:
            return struct.unpack(_FORMATS[name], struct.pack(_FORMATS[name], value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    with np.errstate(all="ignore"):
        return np.array(value).astype(_dtype(name))[()]


def _dtype(name: str) -> Any:
    if name not in _OTHER_FLOATS:
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))
