"""Objects that hold arrays, written as JSON: envelopes for peers that asked for them, nested lists for the others.

orjson does the writing and calls a hook for each array, which leaves a fragment of one NUL byte behind: no JSON text
holds such a byte, since orjson escapes it in strings. So the output is split at the NULs, the n-th array belongs
between the n-th and the next piece of text, and nothing of an array is encoded before its piece is asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire._buffers.base64 import encode_pieces, encoded_length
from ndwire._contract.arrays import as_array
from ndwire._contract.dtypes import dtype_name
from ndwire._contract.field import Packed
from ndwire._contract.shown import shown
from ndwire._wires.envelope import OPENING, check_sidecar, ending

Arrays = Literal["envelope", "nested"]
Default = Callable[[Any], Any]

_HOLE: Final = b"\0"
_PIECE_BYTES: Final = 256 << 10
# How much of an object is searched for the place of a refusal.
_SEARCHED_NODES: Final = 1_000_000
_KEY_CHARACTERS: Final = 80


class _Item(NamedTuple):
    array: NDArray[Any]
    ending: bytes  # of its envelope: everything behind the base64


class Dump:
    """JSON text that is made while it is iterated over.

    Iterating yields ``bytes``; it may be done more than once. The arrays are read then, so they must not change before.

    Attributes:
        content_length: The exact number of bytes that all pieces have together, known beforehand; None for nested
            lists, whose length is known only once they are written.
    """

    __slots__ = ("_arrays", "_items", "_nested", "_piece_bytes", "_texts", "content_length")

    def __init__(
        self,
        texts: list[bytes],
        items: list[_Item],
        arrays: Arrays,
        piece_bytes: int,
        nested: Callable[[], Dump] | None = None,
    ) -> None:
        self._nested = nested
        self._texts = texts
        self._items = items
        self._arrays: Arrays = arrays
        self._piece_bytes = piece_bytes
        self.content_length: int | None = None
        if arrays == "envelope":
            text = sum(map(len, texts)) + sum(len(OPENING) + len(item.ending) for item in items)
            self.content_length = text + sum(encoded_length(item.array.nbytes) for item in items)

    def nested(self) -> Dump:
        """Return the same object with its arrays as nested lists.

        Raises:
            TypeError: One of the arrays is complex, and ``default`` does not know what to make of it.
        """
        if self._nested is not None:
            return self._nested()
        for item in self._items:
            _refuse_complex(item.array)
        return Dump(self._texts, self._items, "nested", self._piece_bytes)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the text in pieces of about ``piece_bytes``; the first before any array is encoded."""
        held: list[bytes] = [self._texts[0]]
        n_held = len(self._texts[0])
        if self._items and n_held:
            yield held.pop()
            n_held = 0
        for item, text in zip(self._items, self._texts[1:], strict=True):
            for piece in self._pieces(item):
                held.append(piece)
                n_held += len(piece)
                if n_held >= self._piece_bytes:
                    yield b"".join(held) if len(held) > 1 else held[0]
                    held = []
                    n_held = 0
            held.append(text)
            n_held += len(text)
        if n_held:
            yield b"".join(held)

    def _pieces(self, item: _Item) -> Iterator[bytes]:
        if self._arrays == "nested":
            yield from _nested_pieces(item.array, self._piece_bytes)
            return
        yield OPENING
        yield from encode_pieces(item.array, self._piece_bytes)
        yield item.ending


def iter_dumps(
    obj: Any,
    *,
    arrays: Arrays = "envelope",
    default: Default | None = None,
    option: int = 0,
    piece_bytes: int = _PIECE_BYTES,
) -> Dump:
    """Prepare ``obj`` as JSON that is made piece by piece.

    At no time is there a second copy of an array or of the body.

    Args:
        obj: What orjson writes, with arrays anywhere in it: ndarrays of any layout and byte order, tensors on any
            device, whatever has ``__array__`` or ``__dlpack__``, ``Packed(array, sidecar)``. NumPy scalars become
            plain numbers.
        arrays: ``"envelope"``, or ``"nested"`` for peers that did not ask: plain lists, as orjson writes NumPy's
            arrays (shortest decimals that read back to the same value, NaN and infinities as null).
        default: As for orjson, for what neither it nor this function can write. That is, besides other types: arrays
            and scalars of a dtype that the wire lacks (text, dates, objects, structured, in nested lists complex),
            and arrays that would lose what is no number, such as the mask of a masked array, the labels of a
            DataFrame, a Series or a DataArray, a unit, or nulls. What it returns is written in their place, arrays
            as arrays.
        option: orjson's options.
        piece_bytes: About how many bytes a piece has.

    Returns:
        An iterable of ``bytes`` with the exact ``content_length``.

    Raises:
        TypeError: Something cannot be written; the message says where it stands.
        ValueError: A sidecar named like a key of the envelope, or an option or ``arrays`` that cannot work.
    """
    if arrays not in ("envelope", "nested"):
        raise ValueError(f'arrays must be "envelope" or "nested", not {arrays!r}')
    if option & orjson.OPT_SERIALIZE_NUMPY:
        raise ValueError("OPT_SERIALIZE_NUMPY would bypass ndwire; it writes arrays itself")
    if piece_bytes < 1:
        raise ValueError(f"piece_bytes must be at least 1, not {piece_bytes}")
    hook = _Hook(default, arrays)
    try:
        text = orjson.dumps(obj, default=hook, option=option)
    except TypeError as exc:
        raise _refusal(obj, hook, exc) from exc
    texts = text.split(_HOLE)
    if len(texts) != len(hook.items) + 1:
        raise ValueError("a fragment in the object holds a NUL byte, which is not JSON")
    nested: Callable[[], Dump] | None = None
    if default is not None and any(item.array.dtype.kind == "c" for item in hook.items):
        # Without envelopes, these are for default.
        nested = functools.partial(
            iter_dumps, obj, arrays="nested", default=default, option=option, piece_bytes=piece_bytes
        )
    return Dump(texts, hook.items, arrays, piece_bytes, nested)


def dumps(obj: Any, *, arrays: Arrays = "envelope", default: Default | None = None, option: int = 0) -> bytes:
    """Write ``obj``, which may hold arrays anywhere, as JSON.

    Args:
        obj: As for ``iter_dumps``.
        arrays: As for ``iter_dumps``.
        default: As for ``iter_dumps``.
        option: As for ``iter_dumps``.

    Returns:
        The text. For large arrays ``iter_dumps`` needs no second copy of them.

    Raises:
        TypeError, ValueError: As ``iter_dumps``.
    """
    return b"".join(iter_dumps(obj, arrays=arrays, default=default, option=option))


class _Hook:
    """orjson's ``default``: called in the order of the output, once for each array."""

    __slots__ = ("_arrays", "_default", "failed", "failure", "items", "refusal")

    def __init__(self, default: Default | None, arrays: Arrays) -> None:
        self._default = default
        self._arrays = arrays
        self.items: list[_Item] = []
        self.failed: Any = None
        self.failure: Exception | None = None
        self.refusal: Exception | None = None  # why default was asked

    def __call__(self, value: Any) -> Any:
        try:
            return self._replace(value)
        except Exception as exc:
            # orjson raises an error of its own for whatever goes wrong in here.
            self.failed, self.failure = value, exc
            raise

    def _replace(self, value: Any) -> Any:
        self.refusal = None
        try:
            if isinstance(value, np.generic):
                return _scalar(value)
            array = self._array_in(value)
        except TypeError as exc:
            if self._default is None:
                raise
            self.refusal = exc
            return self._default(value)
        sidecar = check_sidecar(value.sidecar) if isinstance(value, Packed) else None
        self.items.append(_Item(array, ending(array, sidecar)))
        return orjson.Fragment(_HOLE)

    def _array_in(self, value: Any) -> NDArray[Any]:
        """Return the array that ``value`` is or packs.

        Raises:
            TypeError: There is none, or none that can be written.
        """
        array = as_array(value.array if isinstance(value, Packed) else value)
        if array is None:
            if isinstance(value, Packed):
                raise TypeError(f"Packed holds a {type(value.array).__name__}, which is not an array")
            raise TypeError(f"{type(value).__name__} is neither JSON nor an array")
        if self._arrays == "nested":
            _refuse_complex(array)
        return array


def _scalar(value: np.generic[Any]) -> Any:
    if dtype_name(value.dtype) is None or value.dtype.kind == "c":
        raise TypeError(f"a scalar of dtype {str(value.dtype)[:_KEY_CHARACTERS]} is not JSON")
    if value.dtype.isbuiltin != 1:
        return float(value)  # the dtypes of ml_dtypes are floats
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def _refuse_complex(array: NDArray[Any]) -> None:
    if array.dtype.kind == "c":
        raise TypeError(f"arrays of dtype {dtype_name(array.dtype)} cannot be nested lists of JSON numbers")


def _nested_pieces(array: NDArray[Any], piece_bytes: int) -> Iterator[bytes]:
    """Yield the text of nested lists, some rows at a time."""
    if array.ndim == 0:
        yield orjson.dumps(_jsonable(array.reshape(1)), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        return
    row_items = math.prod(array.shape[1:])
    # A number takes 2 to 20 characters with its comma.
    rows = max(piece_bytes // 8 // max(row_items, 1), 1)
    if (len(array) <= rows and row_items * 8 <= piece_bytes) or not array.size:
        yield orjson.dumps(_jsonable(array), option=orjson.OPT_SERIALIZE_NUMPY)
        return
    opening = b"["
    for start in range(0, len(array), rows):
        if rows == 1 and array.ndim > 1:
            yield opening
            yield from _nested_pieces(array[start], piece_bytes)
        else:
            block = orjson.dumps(_jsonable(array[start : start + rows]), option=orjson.OPT_SERIALIZE_NUMPY)
            yield opening + block[1:-1]
        opening = b","
    yield b"]"


def _jsonable(array: NDArray[Any]) -> NDArray[Any]:
    """Return ``array`` as orjson takes it: C order, native, of a dtype that it knows."""
    if array.dtype.isbuiltin == 1:
        return np.ascontiguousarray(array)
    native = array.dtype.newbyteorder("=") if array.dtype.isbuiltin == 0 else np.dtype(np.float32)
    return np.ascontiguousarray(array, native)


def _refusal(obj: Any, hook: _Hook, exc: TypeError) -> Exception:
    """Return the error to raise for an object that orjson refused with ``exc``."""
    failure = hook.failure
    if failure is None:
        # What orjson itself refuses: keys that are no strings, integers beyond 64 bits, too deep nesting.
        return TypeError(str(exc))
    where = _path_to(obj, hook.failed)
    place = "in what default returned" if where is None else f"at {where}"
    kind = ValueError if isinstance(failure, ValueError) else TypeError
    said = str(failure) or type(failure).__name__
    return kind(f"{place}: {said}" if hook.refusal is None else f"{place}: {said} ({hook.refusal})")


def _path_to(obj: Any, target: Any) -> str | None:
    """Return where ``target`` stands in ``obj``, as in ``$.choices[3].routed_experts``; None if it is not found."""
    stack: list[tuple[str, Any]] = [("$", obj)]
    # An object that default knows may refer to itself, or to half of the program.
    seen: set[int] = set()
    while stack and len(seen) < _SEARCHED_NODES:
        path, node = stack.pop()
        if node is target:
            return path
        if id(node) not in seen:
            seen.add(id(node))
            stack += reversed([(path + step, child) for step, child in _children(node)])
    return None


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds, each with the step of the path to it."""
    if isinstance(node, dict):
        yield from ((_step(key), child) for key, child in node.items())
    elif isinstance(node, (list, tuple)):
        yield from ((f"[{index}]", child) for index, child in enumerate(node))
    elif isinstance(node, (type, types.ModuleType)):
        return
    elif dataclasses.is_dataclass(node):
        yield from ((f".{item.name}", getattr(node, item.name, None)) for item in dataclasses.fields(node))
    elif hasattr(node, "__dict__"):
        yield from ((_step(key), child) for key, child in vars(node).items())


def _step(key: Any) -> str:
    return f".{key}" if isinstance(key, str) and len(key) <= _KEY_CHARACTERS else f"[{shown(key)}]"
