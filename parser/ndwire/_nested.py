"""The nested wire: the text of a rectangular list of numbers, and the array that it is.

The shape is read off the text's skeleton (its brackets and commas): what the first rows say has to repeat itself to the
end. The numbers are read by pysimdjson where it is installed, without a Python object for each, and by orjson where it
is not or where simdjson refuses; there is no number parser here. Text that neither takes is not JSON, and is left to
whoever parses the rest of the document.

A long list is read in pieces: neither the other parser's memory nor 64-bit numbers pile up, no single call keeps the
interpreter for long, and ``pause`` is called between them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire._dtypes import DTYPES
from ndwire._errors import MalformedArray
from ndwire._field import Field, check_ndim
from ndwire._filling import NOTHING_FITS, Filling, flattened, in_range, integers_of, rounded
from ndwire._limits import MAX_NDIM, Limits
from ndwire._lists import FlatKind, flat_kind

try:
    import simdjson as _simdjson
except ImportError:
    _simdjson = None  # type: ignore[assignment]  # the module is optional

Text = bytes | bytearray
Pause = Callable[[], object]

_SPACE: Final = b" \t\n\r"
_BEFORE_FIRST: Final = b"[ \t\n\r"
_BEHIND_LAST: Final = b"] \t\n\r"
_CLOSE: Final = ord("]")

SHORT: Final = 16 << 10
"""Flat lists of so many bytes are read in one step."""

# Less text than this is read faster by orjson: of integers, and of decimals.
_WORTH_SIMD: Final = 1 << 10
_WORTH_SIMD_REAL: Final = 128
# simdjson's memory for so much text stays in the cache.
_PIECE: Final = 64 << 10
# So much of a skeleton is compared, and so much text is searched, at a time.
_WINDOW: Final = 1 << 20
# By simdjson's names of its kinds of numbers.
_DTYPE_OF: Final = {"i": "int64", "u": "uint64", "d": "float64"}
_BY_DEFAULT: Final = tuple(_DTYPE_OF.values())


def no_pause() -> None:
    """Go on at once."""


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
        pause: Called every now and then.

    Returns:
        The array (native byte order, C order, memory of its own), or None where the text is ordinary JSON or none.

    Raises:
        MalformedArray: A rectangle of numbers that the field's dtypes or number of dimensions do not allow.
        LimitExceeded: More dimensions than allowed.
    """
    n_bytes = sum(map(len, runs))
    if skeleton is None and n_bytes <= SHORT:
        text = b"".join(runs)
        kind = flat_kind(text, lines=False)
        return None if kind is None else read_flat(field, text, kind, limits, offset)
    shape = (-1,) if skeleton is None else _shape(_joined(skeleton, pause), pause)
    if shape is None:
        return None
    if shape[-1] in (-1, 1) and _first(runs) == _CLOSE:
        # Without numbers, "[]" has the skeleton of "[1]".
        bare = sum(len(run.translate(None, _SPACE)) for run in runs)
        if bare != (2 if skeleton is None else sum(map(len, skeleton))):
            return None
        return _empty(field, (*shape[:-1], 0), limits, offset)
    real = _has(b".eE", runs, pause)
    if _has(b"ul", runs, pause):
        # true, false or null.
        return None
    if n_bytes < (_WORTH_SIMD_REAL if real else _WORTH_SIMD):
        array = _small(field, b"".join(runs), real=real)
    else:
        array = _in_pieces(field, runs, n_bytes, len(shape), pause, real=real)
    if array is None or (shape[-1] != -1 and array.size not in (math.prod(shape), 0)):
        return None
    check_ndim(field, len(shape), limits, offset)
    if not array.size:
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
    real = kind == "decimals"
    array = _flat_with_simdjson(field, text, real=real) if _simdjson is not None else None
    if array is None:
        if text.lstrip(_BEFORE_FIRST)[0] == _CLOSE:
            return _empty(field, (0,), limits, offset)
        array = _small(field, text, real=real)
        if array is None:
            return None
    if field.ndim != 1 or not limits.ndim:
        check_ndim(field, 1, limits, offset)
    if not array.size:
        raise _nothing_fits(field, offset)
    return array


def _nothing_fits(field: Field, offset: int) -> MalformedArray:
    names = ", ".join(field.dtypes or ())
    return MalformedArray(f"{field.name!r} has numbers that none of {names} holds", offset=offset)


def _flat_with_simdjson(field: Field, text: bytes, *, real: bool) -> NDArray[Any] | None:
    """Read numbers straight into the first of the field's dtypes that takes them.

    None: it is not worth it, or needs a closer look.
    """
    if len(text) < (_WORTH_SIMD_REAL if real else _WORTH_SIMD) or field.dtypes is None:
        return None
    try:
        values = _read_with_simdjson(text, "d" if real else "i")
    except (ValueError, TypeError, RuntimeError):
        return None
    for name in field.dtypes if len(values) else ():
        dtype = DTYPES[name]
        if dtype.kind in "fV":
            floats = rounded(values, dtype)
            if floats is not None:
                return floats
        elif not real and in_range(int(values.min()), int(values.max()), name):
            return values.astype(dtype)
    return None


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


def _has(characters: bytes, runs: Sequence[Text], pause: Pause) -> bool:
    """Return whether one of ``characters`` is in the text."""
    for run in runs:
        for start in range(0, len(run), _WINDOW):
            pause()
            for character in characters:
                if run.find(character, start, start + _WINDOW) >= 0:
                    return True
    return False


def _shape(skeleton: Text, pause: Pause) -> tuple[int, ...] | None:
    """Return the shape of a rectangle with this skeleton; the last dimension is 1 also where there are no numbers."""
    head = skeleton[: MAX_NDIM + 1]
    ndim = len(head) - len(head.lstrip(b"["))
    if ndim > MAX_NDIM:
        return None
    shape: list[int] = []
    inner = 0  # the length of the block of the level below, of which this level's block is a repetition
    for level in range(1, ndim + 1):
        # The first block of this level ends with the first run of so many closing brackets. The list ended where its
        # brackets balanced first, so the block of the last level is all of it.
        end = len(skeleton) - level if level == ndim else _find(skeleton, b"]" * level, pause)
        if end < 0:
            return None
        begin = ndim - level
        length = end + level - begin
        count, rest = divmod(length - 1, inner + 1)
        if rest or not _repeats(skeleton, begin + 1, begin + length - 1, inner, pause):
            return None
        shape.append(count)
        inner = length
    return tuple(reversed(shape))


def _find(skeleton: Text, closing: bytes, pause: Pause) -> int:
    """Return where ``closing`` stands first, or -1."""
    for start in range(0, len(skeleton), _WINDOW):
        at = skeleton.find(closing, start, start + _WINDOW + len(closing) - 1)
        if at >= 0:
            return at
        pause()
    return -1


def _repeats(skeleton: Text, begin: int, end: int, inner: int, pause: Pause) -> bool:
    """Return whether ``skeleton[begin:end]`` is its first ``inner`` characters over and over, with commas between."""
    period = inner + 1
    if skeleton[begin + inner : min(begin + period, end)] not in (b"", b","):
        return False
    for start in range(begin + period, end, _WINDOW):
        stop = min(start + _WINDOW, end)
        if skeleton[start:stop] != skeleton[start - period : stop - period]:
            return False
        pause()
    return True


def _empty(field: Field, shape: tuple[int, ...], limits: Limits, offset: int) -> NDArray[Any]:
    if field.ndim is not None:
        shape += (0,) * (field.ndim - len(shape))
    check_ndim(field, len(shape), limits, offset)
    dtypes = field.dtypes or ("float64",)
    return np.zeros(shape, DTYPES[dtypes[0]])


def _small(field: Field, text: Text, *, real: bool) -> NDArray[Any] | None:
    """Read a short list straight into the first of the field's dtypes that holds it; an empty array if none does."""
    try:
        values = flattened(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None
    for name in field.dtypes or _BY_DEFAULT:
        dtype = DTYPES[name]
        if dtype.kind in "iu" and not real:
            integers = integers_of(values, dtype)
            if integers is not None:
                return integers
        elif dtype.kind in "fV":
            floats = rounded(np.array(values, np.float64), dtype)
            if floats is not None:
                return floats
    return NOTHING_FITS


def _in_pieces(
    field: Field, runs: Sequence[Text], n_bytes: int, ndim: int, pause: Pause, *, real: bool
) -> NDArray[Any] | None:
    """Read a long list; an empty array if no dtype holds it, None if it is not JSON."""
    kinds = "d" if real else "iud"
    for read in (_read_with_simdjson, _read_with_orjson) if _simdjson is not None else (_read_with_orjson,):
        for kind in kinds:
            filling = Filling(field.dtypes or (_DTYPE_OF[kind],), n_bytes // 2 + 1)
            try:
                while not filling.done:
                    for piece in _pieces(runs, ndim):
                        pause()
                        filling.add(read(piece, kind))
                    filling.end()
            except (ValueError, TypeError, RuntimeError, OverflowError):
                # Not JSON, a number that this kind cannot hold, or one of more than 64 bits, which only orjson reads.
                continue
            return filling.array()
    return None


def _pieces(runs: Sequence[Text], ndim: int) -> Iterator[bytes]:
    """Cut a list at commas into lists of some numbers each, with brackets of their own.

    Such a cut is sound: each piece is parsed as a list of its own, and all of them, but for the brackets put around
    them and with commas between, are the text. What an added bracket could hide is refused: a comma with no number or
    list beside it.

    Raises:
        ValueError: The text is not JSON.
    """
    window = bytearray()
    depth = 0  # the brackets that are open where the next piece begins
    for run in runs:
        searched = len(window)
        window += run
        start = 0
        while len(window) - start > _PIECE:
            cut = window.rfind(b",", start, start + _PIECE)
            if cut < 0:
                cut = window.find(b",", max(start + _PIECE, searched))
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


def _piece(body: Text, depth: int, ndim: int) -> tuple[bytes, int]:
    """Return a piece with brackets of its own, and the depth behind it."""
    last = body.rstrip(_BEHIND_LAST)
    if body.lstrip(_SPACE)[:1] in (b"", b"]", b",") or last[-1:] in (b"", b"[", b","):
        raise ValueError("nothing stands beside a comma or a bracket")
    behind = ndim - body.count(b"]", len(last))
    return b"".join((b"[" * depth, body, b"]" * behind)), behind


def _read_with_simdjson(piece: Text, kind: str) -> NDArray[Any]:
    return np.frombuffer(_parsers.simdjson().parse(piece).as_buffer(of_type=kind), _DTYPE_OF[kind])


def _read_with_orjson(piece: bytes, kind: str) -> NDArray[Any]:
    values = flattened(orjson.loads(piece))
    if kind == "d":
        return np.array(values, np.float64)
    integers = integers_of(values, DTYPES[_DTYPE_OF[kind]])
    if integers is None:
        raise OverflowError
    return integers


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
