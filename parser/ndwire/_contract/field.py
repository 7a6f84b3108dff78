"""Field: what the value of a registered name may hold. The same class serves both sides of the wire."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.dtypes import DTYPES, DType, known_dtype, missing
from ndwire._contract.errors import LimitExceeded, MalformedArray
from ndwire._contract.limits import MAX_NDIM, Limits
from ndwire._contract.shown import shown

Wire = Literal["envelope", "npy", "nested"]
Nulls = Literal["nan"]
WIRES: Final[tuple[Wire, ...]] = ("envelope", "npy", "nested")

# What NumPy's shapes can hold.
_MAX_DIMENSION: Final = (1 << 63) - 1

_UNSEARCHABLE: Final = re.compile(r'\s*(?:[,:\]}]|\Z)|.*["\\\x00-\x1f]', re.DOTALL)


class Packed(NamedTuple):
    """An array together with the JSON that belongs to it.

    Attributes:
        array: The array.
        sidecar: The further keys of its envelope, such as ``{"start": 128}``; empty where there are none.
    """

    array: NDArray[Any]
    sidecar: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    r"""A JSON key whose values are arrays, wherever in the document it stands.

    A list of numbers becomes the first of ``dtypes`` that holds them:

    * Integers go to the first dtype that holds every one of them exactly, be it an integer or a float dtype. If none
      does, they go to the first float dtype whose range holds them, rounded as Python's ``float`` rounds them, and then
      to the dtype.
    * A point or an exponent in one of its literals makes a list one of decimals, which no integer dtype takes. They go
      to the first float dtype in which none overflows and none that is not zero becomes zero; if there is none, to the
      first whose range holds them. They are rounded as Python's ``float`` rounds them, and then to the dtype.
    * ``true`` and ``false`` go to ``bool``, where ``dtypes`` name it. Bools among numbers are ordinary JSON.
    * If no dtype holds the numbers, the array is malformed. With ``dtypes=None`` they become int64, else uint64, else
      float64. An empty list takes the first dtype (float64 for None).

    Args:
        name: The key. Refused are names that cannot be told from JSON's own text: blank ones, ones that begin (after
            white space) with ``,`` ``:`` ``]`` or ``}``, and ones with ``"``, ``\`` or control characters.
        dtypes: The allowed dtype names in order of preference; None allows every dtype of the wire.
        ndim: The required number of dimensions; None allows any.
        wires: The representations that are read as arrays: ``"envelope"``, ``"npy"`` (a string with the base64 of
            a ``.npy`` file), ``"nested"`` (a rectangular nested list of numbers).
        raw_dtype: Reads strings as base64 of this dtype's little-endian bytes, in C order.
        raw_shape: The shape of those; one dimension may be -1 and follows from the number of bytes.
        sidecar: Whether the document holds ``Packed(array, sidecar)`` in the array's place.
        nulls: ``"nan"``: among the items of a list, null counts as NaN, and the literals ``NaN``, ``Infinity`` and
            ``-Infinity``, which JSON lacks, as what they say. Such a list takes float dtypes only; where ``dtypes``
            name none, it stays what it was. None: a list with null is ordinary JSON, and the literals are no JSON.
        required: Whether everything under the name but an array or null is a ``MalformedArray``. Otherwise what is no
            array, such as a word or a ragged list, stays the JSON that it is. Rewriting passes it as it came.
        check: The caller's own rule. It gets the array; a ``ValueError`` that it raises makes the array malformed.

    Raises:
        ValueError: A name, dtype, wire, shape, number of dimensions or reading of nulls that cannot work.
        TypeError: ``check`` cannot be called.
    """

    name: str
    _: dataclasses.KW_ONLY
    dtypes: Sequence[str] | None = None
    ndim: int | None = None
    wires: Sequence[Wire] = WIRES
    raw_dtype: str | None = None
    raw_shape: Sequence[int] = (-1,)
    sidecar: bool = False
    nulls: Nulls | None = None
    required: bool = False
    check: Callable[[NDArray[Any]], object] | None = None
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        # Registries are looked up by their fields for every body, tiny ones included.
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew from its arguments: the hash of a text differs between processes, and so may the known dtypes.
        arguments = {item.name: getattr(self, item.name) for item in dataclasses.fields(self) if item.init}
        return functools.partial(type(self), **arguments), ()

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or _UNSEARCHABLE.match(name):
            raise ValueError(f"a field cannot be named {shown(name)}: JSON text could not be told from it")
        try:
            name.encode()
        except UnicodeEncodeError as exc:
            raise ValueError(f"a field cannot be named {name!r}: it has no UTF-8 form") from exc
        owner = f"field {name!r}"
        # A list is as good as a tuple in a configuration, and a tuple is hashable.
        if self.dtypes is not None:
            dtypes = _names(self.dtypes, owner, "dtypes")
            object.__setattr__(self, "dtypes", tuple(known_dtype(item, owner) for item in dtypes))
        if self.raw_dtype is not None:
            known_dtype(self.raw_dtype, owner)
        object.__setattr__(self, "wires", _names(self.wires, owner, "wires"))
        for wire in self.wires:
            if wire not in WIRES:
                raise ValueError(f"{owner}: {shown(wire)} is not a wire; there are {', '.join(WIRES)}")
        object.__setattr__(self, "raw_shape", self._checked_raw_shape(owner))
        ndim: object = self.ndim
        if ndim is not None and (type(ndim) is not int or not 0 <= ndim <= MAX_NDIM):
            raise ValueError(f"{owner}: ndim must be an integer from 0 to {MAX_NDIM}, not {shown(ndim)}")
        if self.raw_dtype is not None and ndim is not None and len(self.raw_shape) != ndim:
            raise ValueError(f"{owner}: raw_shape {self.raw_shape} has not {ndim} dimensions")
        nulls: object = self.nulls
        if nulls not in (None, "nan"):
            raise ValueError(f'{owner}: nulls must be "nan" or None, not {shown(nulls)}')
        if self.check is not None and not callable(self.check):
            raise TypeError(f"{owner}: check must be callable, not {type(self.check).__name__}")
        # Equal fields have equal names. The other arguments, such as a check, need not have hashes.
        object.__setattr__(self, "_hash", hash(self.name))

    def _checked_raw_shape(self, owner: str) -> tuple[int, ...]:
        try:
            shape = tuple(operator.index(item) for item in self.raw_shape)
        except TypeError as exc:
            what = shown(self.raw_shape)
            raise ValueError(f"{owner}: raw_shape must be a sequence of integers, not {what}") from exc
        if len(shape) > MAX_NDIM or shape.count(-1) > 1 or any(item < -1 for item in shape):
            raise ValueError(f"{owner}: raw_shape may hold one -1 and else no negative dimension, not {shape}")
        return shape


def _names(value: Iterable[str], owner: str, option: str) -> tuple[str, ...]:
    if isinstance(value, str):
        raise ValueError(f"{owner}: {option} must be a sequence of names, not the string {shown(value)}")
    return tuple(value)


def check_dtype(field: Field, name: object, offset: int | None) -> DType:
    """Return the dtype that the wire calls ``name``, if ``field`` allows it.

    Raises:
        MalformedArray: The table has no such name, or the field does not allow it.
    """
    dtype = DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise MalformedArray(
            f"{field.name!r} has the dtype {shown(name)}, which the wire does not know{missing(name)}", offset=offset
        )
    if field.dtypes is not None and name not in field.dtypes:
        allowed = ", ".join(field.dtypes)
        raise MalformedArray(f"{field.name!r} has the dtype {name!r}, but is to be one of {allowed}", offset=offset)
    return dtype


def check_shape(field: Field, dimensions: Sequence[object], limits: Limits, offset: int | None) -> tuple[int, ...]:
    """Return ``dimensions`` as a shape that ``field`` and NumPy allow.

    NumPy's integers count as integers; bools do not.

    Raises:
        MalformedArray: A dimension is no integer from 0 to 2**63 - 1, or the number of dimensions is wrong.
        LimitExceeded: More dimensions than ``limits`` allow.
    """
    # Their number first: a peer may send any.
    check_ndim(field, len(dimensions), limits, offset)
    for item in dimensions:
        if not isinstance(item, (int, np.integer)) or isinstance(item, bool) or not 0 <= item <= _MAX_DIMENSION:
            raise MalformedArray(f"{field.name!r} has the dimension {shown(item)} in its shape", offset=offset)
    return tuple(map(operator.index, cast("Sequence[int]", dimensions)))


def check_ndim(field: Field, ndim: int, limits: Limits, offset: int | None) -> None:
    """Refuse a number of dimensions that NumPy, ``field`` or ``limits`` do not allow."""
    if ndim > MAX_NDIM:
        raise MalformedArray(f"{field.name!r} has {ndim} dimensions; NumPy's arrays have {MAX_NDIM}", offset=offset)
    if ndim > limits.ndim:
        raise LimitExceeded(f"{field.name!r} has {ndim} dimensions; {limits.ndim} are allowed", offset=offset)
    if field.ndim is not None and ndim != field.ndim:
        raise MalformedArray(f"{field.name!r} has {ndim} dimensions, but is to have {field.ndim}", offset=offset)


def run_check(field: Field, array: NDArray[Any], offset: int | None) -> None:
    """Apply the caller's own rule, if there is one.

    Raises:
        MalformedArray: It raised a ``ValueError``.
    """
    if field.check is None:
        return
    try:
        field.check(array)
    except ValueError as exc:
        raise MalformedArray(f"{field.name!r} failed its check: {exc}", offset=offset) from exc
