"""The text of lists, and the numbers that it says.

The numbers are read by pysimdjson where it is installed, without a Python object for each, and by orjson where it is
not or where simdjson refuses; there is no number parser here. Integers of more than 64 bits, which both make floats of,
are read by Python's own json: whether a float holds them exactly can be told from the digits only.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import orjson

from ndwire._contract.dtypes import DTYPES
from ndwire._wires.numbers.fitting import Kind, Numbers, integers_of
from ndwire._wires.numbers.words import take_out

try:
    import simdjson as _simdjson
except ImportError:
    _simdjson = None  # type: ignore[assignment]  # the module is optional

PIECE_BYTES: Final = 64 << 10
"""Longer lists are read in pieces of so many bytes: simdjson's memory for so much text stays in the cache."""

_SPACE: Final = b" \t\n\r"
_BEHIND_LAST: Final = b"] \t\n\r"
# Less text than this is read faster by orjson: of integers, and of decimals.
_WORTH_SIMD: Final = 1 << 10
_WORTH_SIMD_REAL: Final = 128
# simdjson's names of its kinds of numbers, and the dtypes of what it gives.
_SIMD_INTEGERS: Final = (("i", DTYPES["int64"]), ("u", DTYPES["uint64"]))
_SIMD_DECIMALS: Final = (("d", DTYPES["float64"]),)


def pieces_of(runs: Sequence[bytes | bytearray], ndim: int) -> Iterator[bytes]:
    """Cut a list at commas into lists of some numbers each, with brackets of their own.

    Such a cut is sound: each piece is parsed as a list of its own, and all of them, but for the brackets put around
    them and with commas between, are the text. What an added bracket could hide is refused: a comma with no number or
    list beside it.

    Args:
        runs: The text of a list, in pieces as they came.
        ndim: How deep it is.

    Raises:
        ValueError: The text is not JSON, or some rows of it are empty.
    """
    window = bytearray()
    depth = 0  # the brackets that are open where the next piece begins
    for run in runs:
        searched = len(window)
        window += run
        start = 0
        while len(window) - start > PIECE_BYTES:
            cut = window.rfind(b",", start, start + PIECE_BYTES)
            if cut < 0:
                cut = window.find(b",", max(start + PIECE_BYTES, searched))
                if cut < 0:
                    break
            piece, depth = _piece(window[start:cut], depth, ndim)
            yield piece
            start = cut + 1
        del window[:start]
    piece, depth = _piece(window, depth, ndim)
    if depth:
        raise ValueError("the brackets do not balance")
    yield piece


def _piece(body: bytearray, depth: int, ndim: int) -> tuple[bytes, int]:
    """Return a piece with brackets of its own, and the depth behind it."""
    first = body.lstrip(_SPACE)
    last = body.rstrip(_BEHIND_LAST)
    if not first or first[0] in b"]," or not last or last[-1] in b"[,":
        raise ValueError("nothing stands beside a comma or a bracket")
    behind = ndim - body.count(b"]", len(last))
    return b"".join((b"[" * depth, body, b"]" * behind)), behind


def read_numbers(text: bytes, kind: Kind, *, words: bool = False) -> Numbers:
    """Read a list, of any depth, that has at least one item.

    Args:
        text: The list, a rectangle by its brackets and commas.
        kind: What it holds.
        words: Whether words may stand among the numbers.

    Raises:
        ValueError: The text is not JSON, words aside, or holds something else.
    """
    taken = None
    if words:
        text, taken = take_out(text)
    simd = _SIMD_DECIMALS if kind == "decimals" else _SIMD_INTEGERS
    if worth_simd(len(text), kind):
        for name, dtype in simd:
            try:
                return Numbers(np.frombuffer(_parsers.simdjson().parse(text).as_buffer(of_type=name), dtype), taken)
            except (ValueError, TypeError, RuntimeError):
                # Not JSON, a number that this kind cannot hold, or one of more than 64 bits.
                continue
    return numbers_of(read_values(text), text, kind)._replace(words=taken)


def read_values(text: bytes) -> Any:
    """Return the items of a list as orjson reads them, without the list's structure.

    Raises:
        ValueError: The text is not JSON.
    """
    return _flattened(orjson.loads(text))


def numbers_of(values: Any, text: bytes, kind: Kind) -> Numbers:
    """Return a list's items, as ``read_values`` gives them for ``text``, as an array.

    Raises:
        ValueError: Items among bools that are none.
    """
    if kind == "decimals":
        return Numbers(np.array(values, np.float64))
    if kind == "bools":
        if set(map(type, values)) != {bool}:
            raise ValueError("something stands among bools")
        return Numbers(np.array(values, np.bool_))
    for _, dtype in _SIMD_INTEGERS:
        integers = integers_of(values, dtype)
        if integers is not None:
            return Numbers(integers)
    # orjson has read it, so no integer has more than 309 digits.
    return Numbers(np.array(_flattened(json.loads(text)), object))


def _flattened(values: Any) -> Any:
    """Return the items of nested lists, all of the same depth, as one list."""
    while type(values[0]) is list:
        values = list(itertools.chain.from_iterable(values))
    return values


def worth_simd(n_bytes: int, kind: Kind) -> bool:
    """Return whether ``read_numbers`` tries simdjson first on so many bytes."""
    if _simdjson is None or kind == "bools":
        return False
    return n_bytes >= (_WORTH_SIMD_REAL if kind == "decimals" else _WORTH_SIMD)


class _Parsers(threading.local):
    """simdjson's parsers: one for each thread, since each keeps its memory for the next text."""

    def __init__(self) -> None:
        self._parser: Any = None

    def simdjson(self) -> Any:
        """Return this thread's parser."""
        if self._parser is None:
            assert _simdjson is not None  # whoever asks for a parser knows
            self._parser = _simdjson.Parser()
        return self._parser


_parsers: Final = _Parsers()
