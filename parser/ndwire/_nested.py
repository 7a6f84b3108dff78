"""The nested wire: the text of a rectangular list of numbers, and the array that it is.

The shape is read off the text's skeleton (its brackets and commas): what the first rows say is compared with the
skeleton of a whole rectangle of that shape. The numbers are read by pysimdjson where it is installed, without a Python
object for each, and by orjson where it is not or where simdjson refuses; there is no number parser here. Text that
neither takes is not JSON, and is left to whoever parses the rest of the document.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire._dtypes import DTYPES, DType
from ndwire._errors import MalformedArray
from ndwire._field import Field, check_ndim
from ndwire._limits import MAX_NDIM, Limits

try:
    import simdjson as _simdjson
except ImportError:
    _simdjson = None  # type: ignore[assignment]  # the module is optional

Text = bytes | bytearray

_SPACE: Final = b" \t\n\r"
_EMPTY: Final = re.compile(rb"\[[ \t\n\r]*\]")
# Less text than this is read faster by orjson.
_WORTH_SIMD: Final = 2 << 10
# simdjson's memory for so much text stays in the cache.
_PIECE: Final = 64 << 10
_RANGES: Final = {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in DTYPES.items() if dtype.kind in "iu"
}
_LEAST_INT64: Final = -(1 << 63)
_BY_DEFAULT: Final = ("int64", "uint64", "float64")
# By simdjson's names of its kinds of numbers.
_DTYPE_OF: Final = {"i": "int64", "u": "uint64", "d": "float64"}
# Stands for numbers that no dtype of the field holds.
_NOTHING_FITS: Final[NDArray[Any]] = np.empty(0, np.bool_)


def read_list(field: Field, text: Text, skeleton: Text | None, limits: Limits, offset: int) -> NDArray[Any] | None:
    """Read the text of a list as an array.

    Args:
        field: What is allowed.
        text: The list, from bracket to bracket.
        skeleton: The text without the characters of numbers and white space; None for a flat list.
        limits: Bounds the number of dimensions.
        offset: The list's first byte in the body.

    Returns:
        The array (native byte order, C order, memory of its own), or None where the text is ordinary JSON or none.

    Raises:
        MalformedArray: A rectangle of numbers that the field's dtypes or number of dimensions do not allow.
        LimitExceeded: More dimensions than allowed.
    """
    shape = _flat_shape(text) if skeleton is None else _shape(text, skeleton)
    if shape is None:
        return None
    if shape[-1] == 0:
        return _empty(field, shape, limits, offset)
    # What stands between two of the outermost rows.
    separator = b"]" * (len(shape) - 1) + b"," + b"[" * (len(shape) - 1)
    if b"u" in text or b"l" in text:
        # true, false or null.
        return None
    real = b"." in text or b"e" in text or b"E" in text
    if len(text) < _WORTH_SIMD:
        array = _small(field, text, real=real)
    else:
        array = _with_simdjson(field, text, separator, real=real)
        if array is None:
            values = _with_orjson(text, real=real)
            array = values if values is None else _fitted(field, values)
    if array is None:
        return None
    check_ndim(field, len(shape), limits, offset)
    if array is _NOTHING_FITS:
        names = ", ".join(field.dtypes or ())
        raise MalformedArray(f"{field.name!r} has numbers that none of {names} holds", offset=offset)
    return array.reshape(shape)


def _flat_shape(text: Text) -> tuple[int, ...]:
    return (0,) if _EMPTY.fullmatch(text) else (-1,)


def _shape(text: Text, skeleton: Text) -> tuple[int, ...] | None:
    """Return the shape of a rectangle with this skeleton; the last dimension is 0 where there are no numbers."""
    ndim = len(skeleton) - len(skeleton.lstrip(b"["))
    if ndim > MAX_NDIM:
        return None
    shape: list[int] = []
    block = b""
    for level in range(1, ndim + 1):
        # The first block of this level ends with the first run of so many closing brackets.
        end = skeleton.find(b"]" * level)
        if end < 0:
            return None
        length = end + level - (ndim - level)
        count, rest = divmod(length - 1, len(block) + 1)
        if rest:
            return None
        shape.append(count)
        block = b"[" + (block + b",") * (count - 1) + block + b"]"
        if not skeleton.startswith(block, ndim - level):
            return None
    # The list ended where its brackets balanced first, so this beginning of it, which is balanced, is all of it.
    if shape[0] == 1 and _EMPTY.search(text):
        # Without numbers, "[]" has the skeleton of "[1]".
        if text.translate(None, _SPACE) != skeleton:
            return None
        shape[0] = 0
    return tuple(reversed(shape))


def _empty(field: Field, shape: tuple[int, ...], limits: Limits, offset: int) -> NDArray[Any]:
    if field.ndim is not None:
        shape += (0,) * (field.ndim - len(shape))
    check_ndim(field, len(shape), limits, offset)
    dtypes = field.dtypes or ("float64",)
    return np.zeros(shape, DTYPES[dtypes[0]])


def _small(field: Field, text: Text, *, real: bool) -> NDArray[Any] | None:
    """Read a short list straight into the first of the field's dtypes that holds it."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    for name in field.dtypes or _BY_DEFAULT:
        dtype = DTYPES[name]
        if dtype.kind in "iu" and not real:
            integers = _integers(values, dtype)
            if integers is not None:
                return integers
        elif dtype.kind in "fV":
            floats = _rounded(np.array(values, np.float64), dtype)
            if floats is not None:
                return floats
    return _NOTHING_FITS


def _with_simdjson(field: Field, text: Text, separator: bytes, *, real: bool) -> NDArray[Any] | None:
    """Read a long list, some rows at a time: neither the parser's memory nor 64-bit numbers pile up.

    A cut between two rows is sound: each piece is parsed as a list of its own, and all of them joined by commas are the
    text. A piece without numbers is refused, since an empty one would hide a comma too many.
    """
    if _simdjson is None:
        return None
    parser = _simdjson.Parser()
    for kind in ("d",) if real else ("i", "u", "d"):
        filling = Filling(field.dtypes or (_DTYPE_OF[kind],), len(text) // 2 + 1)
        try:
            while not filling.done:
                for piece in _pieces(text, separator):
                    numbers = np.frombuffer(_buffer(parser, piece, kind), _DTYPE_OF[kind])
                    if not len(numbers):
                        return None
                    filling.add(numbers)
                filling.end()
        except (ValueError, TypeError, RuntimeError):
            # Not JSON, a number that this kind cannot hold, or one of more than 64 bits, which orjson reads as a float.
            continue
        return filling.array()
    return None


def _pieces(text: Text, separator: bytes) -> Iterator[bytes]:
    """Cut a list between its outermost rows into lists of some rows each."""
    start = 1
    last = len(text) - 1
    while start <= last:
        cut = text.find(separator, start + _PIECE, last)
        end = last if cut < 0 else cut + len(separator) // 2
        yield b"[" + text[start:end] + b"]"
        start = end + 1


def _buffer(parser: Any, text: bytes, kind: str) -> Any:
    return parser.parse(text).as_buffer(of_type=kind)


def _with_orjson(text: Text, *, real: bool) -> NDArray[Any] | None:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    for name in () if real else _BY_DEFAULT[:2]:
        integers = _integers(values, DTYPES[name])
        if integers is not None:
            return integers
    return np.array(values, np.float64)


def _integers(values: Any, dtype: DType) -> NDArray[Any] | None:
    """Return nested lists of integers as an array of ``dtype``; None if one of them does not fit.

    An integer of more than 64 bits is a float here, as orjson reads it, and too large; but for one: the float that
    stands for -2**63 - 1 is -2**63.
    """
    try:
        array = np.array(values, dtype)
    except OverflowError:
        return None
    if dtype == np.int64 and int(array.min()) == _LEAST_INT64 and float in set(map(type, _flat(values))):
        return None
    return array


def _flat(values: Any) -> Any:
    while type(values[0]) is list:
        values = list(itertools.chain.from_iterable(values))
    return values


def _fitted(field: Field, values: NDArray[Any]) -> NDArray[Any]:
    """Return ``values`` in the first of the field's dtypes that holds every one of them, in memory of their own."""
    if field.dtypes is None:
        return values if values.base is None else values.copy()
    least, greatest = int(values.min()), int(values.max())
    for name in field.dtypes:
        dtype = DTYPES[name]
        if dtype.kind in "iu" and values.dtype.kind != "f":
            lower, upper = _RANGES[name]
            if lower <= least and greatest <= upper:
                return values.astype(dtype)
        elif dtype.kind in "fV":
            floats = _rounded(values, dtype)
            if floats is not None:
                return floats
    return _NOTHING_FITS


class Filling:
    """An array that fills piece by piece, in the first of some dtypes that holds every number so far.

    Integers that prove too large for it move on to the next dtype. Floats have lost digits then: they are added anew,
    from the first, in the dtype that is known to hold them.

    Args:
        names: The dtypes in order of preference.
        capacity: No more numbers than this will come.

    Attributes:
        done: Whether ``end`` has found every number in place.
    """

    def __init__(self, names: Sequence[str], capacity: int) -> None:
        self.done = False
        self._names = names
        self._capacity = capacity
        self._least: float | None = None
        self._greatest: float = 0
        self._values: NDArray[Any] | None = None
        self._filled = 0
        self._anew = False

    def add(self, numbers: NDArray[Any]) -> None:
        """Append numbers: int64, uint64 or float64, and of the same dtype each time."""
        least, greatest = numbers.min().item(), numbers.max().item()
        if self._least is None or least < self._least or greatest > self._greatest:
            self._least = least if self._least is None else min(least, self._least)
            self._greatest = max(greatest, self._greatest)
            self._choose(numbers.dtype.kind)
        if self._values is not None and not self._anew:
            end = self._filled + len(numbers)
            self._values[self._filled : end] = _exactly(numbers, self._values.dtype)
            self._filled = end

    def end(self) -> None:
        """All numbers have come. They are to come again if ``done`` is still false."""
        self.done = not self._anew
        if self._anew:
            self._anew = False
            self._filled = 0

    def array(self) -> NDArray[Any]:
        """Return the numbers in memory of their own; ``_NOTHING_FITS`` if no dtype holds all of them."""
        return _NOTHING_FITS if self._values is None else self._values[: self._filled].copy()

    def _choose(self, kind: str) -> None:
        name = next((name for name in self._names if self._holds(DTYPES[name], kind)), None)
        before = self._values
        if name is None:
            self._values = None
        elif before is None or before.dtype != DTYPES[name]:
            self._values = np.empty(self._capacity, DTYPES[name])
            if before is not None and before.dtype.kind not in "iu":
                self._anew = True
            elif before is not None:
                self._values[: self._filled] = _exactly(before[: self._filled], DTYPES[name])

    def _holds(self, dtype: DType, kind: str) -> bool:
        if dtype.kind in "iu" and kind != "f":
            lower, upper = _RANGES[dtype.name]
            return self._least is not None and lower <= self._least and self._greatest <= upper
        extremes = np.array([self._least, self._greatest], np.float64)
        return dtype.kind in "fV" and _rounded(extremes, dtype) is not None


def _exactly(numbers: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Return ``numbers`` as they are to be stored in ``dtype``: integers become floats as Python does it."""
    return numbers if dtype.kind in "iu" else numbers.astype(np.float64, copy=False)


def _rounded(values: NDArray[Any], dtype: DType) -> NDArray[Any] | None:
    """Return ``values`` as Python rounds them to floats, cast to ``dtype``; None if one is no longer finite."""
    with np.errstate(over="ignore"):
        floats = values.astype(np.float64, copy=False).astype(dtype)
    return floats if dtype.itemsize == 8 or bool(np.isfinite(floats).all()) else None
