"""The nested wire: the text of a rectangular list of numbers, and the array that it is.

The shape is read off the text's skeleton, the numbers by parsers of JSON, and the dtype is the first that they fit.
Text that is no such list is left to whoever parses the rest of the document: a list that is ragged, or holds other
things, is ordinary JSON whatever its numbers are.

A long list is read in pieces: neither the other parser's memory nor 64-bit numbers pile up, no single call keeps the
interpreter for long, and ``pause`` is called between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.dtypes import DTYPES
from ndwire._contract.errors import MalformedArray
from ndwire._contract.field import Field, check_ndim
from ndwire._contract.limits import Limits
from ndwire._contract.types import Pause, no_pause
from ndwire._wires.numbers.filling import Filling
from ndwire._wires.numbers.fitting import Attempt, Kind, attempts, first_fitting, integers_of
from ndwire._wires.numbers.flat import FlatKind, flat_kind
from ndwire._wires.numbers.numerals import PIECE_BYTES, numbers_of, pieces_of, read_numbers, read_values, worth_simd
from ndwire._wires.numbers.rectangle import rectangle

Text = bytes | bytearray

SHORT: Final = 16 << 10
"""Flat lists of so many bytes are read in one step."""

_SPACE: Final = b" \t\n\r"
_BEFORE_FIRST: Final = b"[ \t\n\r"
_CLOSE: Final = ord("]")
_LETTERS: Final = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
# The letters that tell what is among the numbers: null and bools, JSON's other literals, bools alone; and decimals.
_OF_WORDS: Final = b"ul"
_OF_MORE_WORDS: Final = b"ulNI"
_OF_BOOLS: Final = b"rs"
_OF_DECIMALS: Final = b".eE"
# So much text is searched at a time.
_WINDOW: Final = 1 << 20


class _Form(NamedTuple):
    """What a list holds, if it is JSON.

    Attributes:
        kind: Of its items.
        words: Whether some of them are words.
    """

    kind: Kind
    words: bool = False


def read_list(
    field: Field,
    runs: Sequence[Text],
    skeleton: Sequence[Text] | None,
    limits: Limits,
    offset: int,
    pause: Pause = no_pause,
) -> NDArray[Any] | None:
    """Read the text of a list as an array.

    Args:
        field: What is allowed.
        runs: The list, from bracket to bracket, in pieces.
        skeleton: The text without the characters of numbers and white space, in pieces; None for a flat list.
        limits: Bounds the number of dimensions.
        offset: The list's first byte in the body.
        pause: Called between slices of work.

    Returns:
        The array (native byte order, C order, memory of its own), or None where the text is ordinary JSON or none.

    Raises:
        MalformedArray: A rectangle of numbers that the field's dtypes or number of dimensions do not allow.
        LimitExceeded: More dimensions than allowed.
    """
    n_bytes = sum(map(len, runs))
    if skeleton is None and n_bytes <= SHORT:
        text = b"".join(runs)
        flat = flat_kind(text, lines=False)
        if flat is not None:
            return read_flat(field, text, flat, limits, offset)
    form = _form_of(field, runs, pause)
    order = () if form is None else attempts(field.dtypes, form.kind, words=form.words)
    if form is None or (not order and (form.words or form.kind == "bools")):
        # Words or bools that are none of this field's values.
        return None
    if skeleton is not None and (form.words or form.kind == "bools"):
        skeleton = [run.translate(None, _LETTERS) for run in skeleton]
    shape = (-1,) if skeleton is None else rectangle(_joined(skeleton, pause), pause)
    if shape is None:
        return None
    if shape[-1] in (-1, 1) and _first(runs) == _CLOSE:
        # Without numbers, "[]" has the skeleton of "[1]".
        bare = sum(len(run.translate(None, _SPACE)) for run in runs)
        if bare != (2 if skeleton is None else sum(map(len, skeleton))):
            return None
        return _empty(field, (*shape[:-1], 0), limits, offset)
    try:
        if n_bytes <= PIECE_BYTES:
            n_items, array = _read_at_once(b"".join(runs), form.kind, order, words=form.words)
        else:
            n_items, array = _read_in_pieces(runs, n_bytes, len(shape), form, order, pause)
    except ValueError:
        return None
    if shape[-1] != -1 and n_items != math.prod(shape):
        # Some rows are empty.
        return None
    check_ndim(field, len(shape), limits, offset)
    if array is None:
        raise _nothing_fits(field, offset)
    return array.reshape(shape)


def read_flat(field: Field, text: bytes, kind: FlatKind, limits: Limits, offset: int) -> NDArray[Any] | None:
    """Read a short, flat list that stands there whole: the general way, in fewer steps.

    Args:
        field: What is allowed.
        text: The list, which is nothing but numbers and white space.
        kind: What kind of numbers.
        limits: Bounds the number of dimensions.
        offset: The list's first byte in the body.

    Returns:
        As ``read_list``.

    Raises:
        MalformedArray, LimitExceeded: As ``read_list``.
    """
    if text.lstrip(_BEFORE_FIRST)[0] == _CLOSE:
        return _empty(field, (0,), limits, offset)
    try:
        _, array = _read_at_once(text, kind, attempts(field.dtypes, kind))
    except ValueError:
        return None
    if field.ndim != 1 or not limits.ndim:
        check_ndim(field, 1, limits, offset)
    if array is None:
        raise _nothing_fits(field, offset)
    return array


def _nothing_fits(field: Field, offset: int) -> MalformedArray:
    names = ", ".join(field.dtypes or ())
    return MalformedArray(f"{field.name!r} has numbers that none of {names} holds", offset=offset)


def _form_of(field: Field, runs: Sequence[Text], pause: Pause) -> _Form | None:
    """Return what a list holds, seen by its letters; None where the field takes none of that."""
    if _has(_OF_WORDS if field.nulls is None else _OF_MORE_WORDS, runs, pause):
        if _has(_OF_BOOLS, runs, pause):
            return _Form("bools")
        if field.nulls is None:
            return None
        return _Form("decimals" if _has(_OF_DECIMALS, runs, pause) else "integers", words=True)
    return _Form("decimals" if _has(_OF_DECIMALS, runs, pause) else "integers")


def _has(characters: bytes, runs: Sequence[Text], pause: Pause) -> bool:
    """Return whether one of ``characters`` is in the text."""
    for run in runs:
        for start in range(0, len(run), _WINDOW):
            pause()
            for character in characters:
                if run.find(character, start, start + _WINDOW) >= 0:
                    return True
    return False


def _joined(runs: Sequence[Text], pause: Pause) -> Text:
    if len(runs) == 1:
        return runs[0]
    whole = bytearray()
    for run in runs:
        pause()
        whole += run
    return whole


def _first(runs: Sequence[Text]) -> int:
    """Return the first character behind the opening brackets."""
    return next(rest[0] for rest in (run.lstrip(_BEFORE_FIRST) for run in runs) if rest)


def _empty(field: Field, shape: tuple[int, ...], limits: Limits, offset: int) -> NDArray[Any]:
    if field.ndim is not None:
        shape += (0,) * (field.ndim - len(shape))
    check_ndim(field, len(shape), limits, offset)
    dtypes = field.dtypes or ("float64",)
    return np.zeros(shape, DTYPES[dtypes[0]])


def _read_at_once(
    text: bytes, kind: Kind, order: tuple[Attempt, ...], *, words: bool = False
) -> tuple[int, NDArray[Any] | None]:
    """Read a short list.

    Args:
        text: The list, of any depth, with at least one item.
        kind: What it holds.
        order: The dtypes to try.
        words: Whether words may stand among the numbers.

    Returns:
        The number of its items, and the items in the first dtype that they fit, in memory of their own; None if there
        is none.

    Raises:
        ValueError: It is not JSON, or something else is among its items.
    """
    if words or worth_simd(len(text), kind):
        numbers = read_numbers(text, kind, words=words)
        return len(numbers.values), first_fitting(numbers, order)
    values = read_values(text)
    if order and order[0].dtype.kind in "iu":
        # Most short lists go to the first dtype: Python's integers need not become int64 before.
        integers = integers_of(values, order[0].dtype)
        if integers is not None:
            return len(values), integers
    return len(values), first_fitting(numbers_of(values, text, kind), order)


def _read_in_pieces(
    runs: Sequence[Text], n_bytes: int, ndim: int, form: _Form, order: tuple[Attempt, ...], pause: Pause
) -> tuple[int, NDArray[Any] | None]:
    """Read a long list, as often as its dtypes need it: as ``_read_at_once``.

    Raises:
        ValueError: It is not JSON, or something else is among its items.
    """
    filling = Filling(order, n_bytes // 2 + 1)
    while not _fill(filling, runs, ndim, form, pause):
        # The next dtype needs all numbers anew.
        pass
    return filling.count, filling.array()


def _fill(filling: Filling, runs: Sequence[Text], ndim: int, form: _Form, pause: Pause) -> bool:
    """Read a list's pieces; False where the filling refuses to go on."""
    for piece in pieces_of(runs, ndim):
        pause()
        if not filling.add(read_numbers(piece, form.kind, words=form.words)):
            return False
    return True
