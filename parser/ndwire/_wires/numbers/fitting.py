"""The rule by which the numbers of a list find their dtype, in one place.

* Integers go to the first dtype that holds every one of them exactly; if none does, to the first float dtype whose
  range holds them, rounded.
* Decimals (a point or an exponent in one of the list's literals makes all of them decimals) go to the first float dtype
  in which none overflows and none that is not zero becomes zero; if there is none, to the first whose range holds them.
* Words (``null``, ``NaN``, ``Infinity``) go where the numbers beside them go, among the float dtypes that have such
  values.
* Bools go to ``bool``, and nothing else does.

So a list makes *attempts*, one dtype after the other: all of them strictly, then the float dtypes once more, leniently.
A float is what Python makes of the literal, then cast: what float64 itself cannot tell from zero is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.dtypes import DTYPES, DType
from ndwire._wires.numbers.words import Words

Kind = Literal["integers", "decimals", "bools"]
"""What the items of a list are."""

_BY_DEFAULT: Final = ("int64", "uint64", "float64")
_LEAST_INT64: Final = -(1 << 63)
# Every integer up to two to this power is a float of that dtype.
_SIGNIFICANDS: Final = (
    ("float16", 11),
    ("float32", 24),
    ("float64", 53),
    ("bfloat16", 8),
    ("float8_e4m3fn", 4),
    ("float8_e5m2", 3),
)
# A dtype holds every integer between these.
_SPANS: Final = {name: (-(1 << bits), 1 << bits) for name, bits in _SIGNIFICANDS} | {
    name: (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for name, dtype in DTYPES.items() if dtype.kind in "iu"
}


class Attempt(NamedTuple):
    """A dtype that the items of a list may go to.

    Attributes:
        name: Its name.
        dtype: The dtype.
        strict: Whether integers have to stay exact, and decimals that are not zero different from zero.
    """

    name: str
    dtype: DType
    strict: bool


class Numbers(NamedTuple):
    """The items of a list, or of a piece of one.

    Attributes:
        values: int64, uint64 or objects (Python's integers) for integers, float64 for decimals, or bool; (items,).
        words: What stands in some of their places, where the values are 0; None for nothing.
    """

    values: NDArray[Any]
    words: Words | None = None


@functools.lru_cache(maxsize=256)
def attempts(names: Sequence[str] | None, kind: Kind, *, words: bool = False) -> tuple[Attempt, ...]:
    """Return the dtypes that a list may go to, in the order in which they are tried.

    Args:
        names: The allowed dtypes in order of preference, a tuple; None allows int64, uint64 and float64.
        kind: What the list holds.
        words: Whether some of its items are words.
    """
    floats: list[Attempt] = []
    strict: list[Attempt] = []
    for name in dict.fromkeys(names or _BY_DEFAULT):
        dtype = DTYPES[name]
        if dtype.kind in "fV" and kind != "bools":
            floats.append(Attempt(name, dtype, strict=False))
            strict.append(Attempt(name, dtype, strict=True))
        elif (dtype.kind in "iu" and kind == "integers" and not words) or (dtype.kind == "b" and kind == "bools"):
            strict.append(Attempt(name, dtype, strict=True))
    if floats and strict[-1].name == floats[0].name:
        # Where it is refused strictly, it is tried leniently at once.
        strict.pop()
    return (*strict, *floats)


def spans(name: str, least: int, greatest: int) -> bool:
    """Return whether the dtype of that name holds every integer from ``least`` to ``greatest``."""
    lower, upper = _SPANS[name]
    return lower <= least and greatest <= upper


def store(numbers: Numbers, target: NDArray[Any], attempt: Attempt) -> bool:
    """Write numbers to ``target``.

    Args:
        numbers: The numbers, at least one, of the kind that the attempt is for.
        target: As many items of the attempt's dtype. What it holds afterwards means something only if the numbers fit.
        attempt: How they are to fit.

    Returns:
        Whether they fit.
    """
    values, words = numbers
    kind = values.dtype.kind
    if kind == "b":
        target[...] = values
        return True
    fits = _store_decimals if kind == "f" else _store_integers
    return fits(values, target, attempt) and (words is None or _store_words(words, target))


def first_fitting(numbers: Numbers, order: tuple[Attempt, ...]) -> NDArray[Any] | None:
    """Return a list's numbers in the first dtype that they fit, in memory of their own; None if there is none."""
    for attempt in order:
        target = np.empty(len(numbers.values), attempt.dtype)
        if store(numbers, target, attempt):
            return target
    return None


def integers_of(values: Any, dtype: DType) -> NDArray[Any] | None:
    """Return Python's integers as an array of an integer dtype; None if one of them does not fit.

    An integer of more than 64 bits is a float here, as orjson reads it, and too large; but for one: the float that
    stands for -2**63 - 1 is -2**63.
    """
    if dtype == np.uint8:
        # The one case that Python itself has a fast way for.
        try:
            return np.frombuffer(bytearray(values), np.uint8)
        except (ValueError, TypeError):
            return None
    try:
        array = np.array(values, dtype)
    except OverflowError:
        return None
    if dtype == np.int64 and int(array.min()) == _LEAST_INT64 and float in set(map(type, values)):
        return None
    return array


def _store_integers(values: NDArray[Any], target: NDArray[Any], attempt: Attempt) -> bool:
    if spans(attempt.name, int(values.min()), int(values.max())):
        target[...] = values
        return True
    if target.dtype.kind in "iu" or not _cast(values.astype(np.float64), target):
        return False
    return not attempt.strict or _equal(target.astype(np.float64), values)


def _store_decimals(values: NDArray[Any], target: NDArray[Any], attempt: Attempt) -> bool:
    if not _cast(values, target):
        return False
    if not attempt.strict or target.dtype.itemsize == values.dtype.itemsize:
        return True
    not_zero = int(np.count_nonzero(target))
    return not_zero == len(target) or not_zero == int(np.count_nonzero(values))


def _store_words(words: Words, target: NDArray[Any]) -> bool:
    with np.errstate(all="ignore"):
        values = words.values.astype(target.dtype)
    target[words.places] = values
    # float8_e4m3fn has no infinity and makes it NaN.
    return np.array_equal(values.astype(np.float64), words.values, equal_nan=True)


def _cast(floats: NDArray[Any], target: NDArray[Any]) -> bool:
    """Write float64 numbers to a float dtype; return whether all of them are finite there."""
    if target.dtype.itemsize == floats.dtype.itemsize:
        target[...] = floats
        return True
    with np.errstate(all="ignore"):
        target[...] = floats
    # Faster than all().
    return int(np.count_nonzero(np.isfinite(target))) == len(target)


def _equal(floats: NDArray[Any], integers: NDArray[Any]) -> bool:
    """Compare float64 numbers with the integers that they come from, exactly."""
    if integers.dtype.kind == "O":
        # Python compares integers with floats exactly; NumPy makes floats of both.
        equal: bool = floats.tolist() == integers.tolist()
        return equal
    # The greatest integer of 64 bits is no float: as a float it is the first that has more.
    beyond = float(np.iinfo(integers.dtype).max)
    return bool((floats < beyond).all()) and bool((floats.astype(integers.dtype) == integers).all())
