"""The parser's sink: turns what the scanner finds into arrays and a small remaining document.

Each array is cut out of the text and replaced by a placeholder; what remains grows in one buffer and is parsed when
the body has ended. ``_cuts`` remembers what was replaced, so that an offset in the remainder can be mapped back to one
in the body.
"""

from __future__ import annotations

import bisect
import os
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndwire._buffers.array_buffer import ArrayBuffer, allocated
from ndwire._buffers.base64 import Base64Decoder, decode_as_bytearray
from ndwire._contract.budget import Budget
from ndwire._contract.dtypes import BIG_ENDIAN_HOST
from ndwire._contract.errors import ContractError, IncompleteBody, LayoutDrift, LimitExceeded, MalformedArray
from ndwire._contract.field import Field, Packed, run_check
from ndwire._contract.json_text import BYTE_ORDER_MARK, parsed
from ndwire._contract.limits import Limits
from ndwire._contract.types import Allocate, JSONLoads
from ndwire._reading.drift import drift, escaped_values, packed_objects
from ndwire._reading.restore import Restorer, hidden
from ndwire._scanning.registry import Entry, Registry
from ndwire._scanning.sink import BlobWire, Data
from ndwire._wires.envelope import parse_tail, read_tail
from ndwire._wires.nested import read_flat, read_list
from ndwire._wires.npy import NpyBuffer
from ndwire._wires.numbers.flat import FlatKind
from ndwire._wires.raw import raw_meta, raw_size
from ndwire._wires.spec import Meta, build, check_size

_MARK_BYTES: Final = 12
# What a value is, by its first byte; else it is a number.
_KINDS: Final = {
    ord("{"): "another object",
    ord("["): "another list",
    ord('"'): "a string",
    ord("t"): "a boolean",
    ord("f"): "a boolean",
}
# A sidecar of these is copied for each array that has the same tail; others are parsed anew.
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_CACHED_TAIL_BYTES: Final = 512


class ArrayReady(NamedTuple):
    """An array that is complete, while the body may still be arriving.

    Attributes:
        name: The field's name.
        ordinal: The array's position among all arrays of the document, from 0.
        array: Native byte order, C order, writable, owned by the caller.
        sidecar: The further keys of its envelope.
        offset: The first byte of the value in the body.
    """

    name: str
    ordinal: int
    array: NDArray[Any]
    sidecar: dict[str, Any]
    offset: int


class _Cut(NamedTuple):
    at: int  # in the remainder
    length: int  # of what stands there instead
    begin: int  # in the body
    end: int


class Assembler:
    """Collects arrays and the remainder of one body.

    Args:
        registry: The fields.
        limits: What the body may hold.
        content_length: The body's length where it is known.
        allocate: The caller's source of memory, or None.
    """

    passes_envelopes = False

    __slots__ = (
        "_allocate",
        "_budget",
        "_buffer",
        "_content_length",
        "_cuts",
        "_decoder",
        "_entry",
        "_limits",
        "_mark",
        "_offset",
        "_placeholder",
        "_position",
        "_ready",
        "_registry",
        "_remainder",
        "_suspicious",
        "_values",
    )

    def __init__(
        self, registry: Registry, limits: Limits, content_length: int | None, allocate: Allocate | None
    ) -> None:
        self._registry = registry
        self._limits = limits
        self._budget = Budget(limits)
        self._content_length = content_length
        self._allocate = allocate
        self._remainder = bytearray()
        self._position = 0  # the body's offset behind all that came
        self._cuts: list[_Cut] = []
        self._suspicious = False  # whether an object under a name opened as no envelope
        self._values: list[Any] = []
        self._ready: list[ArrayReady] = []
        self._mark = "ndwire-" + os.urandom(_MARK_BYTES).hex() + "-"
        self._placeholder = b'"' + self._mark.encode() + b'%d"'
        self._entry: Entry | None = None
        self._offset = 0
        self._decoder: Base64Decoder | None = None
        self._buffer: ArrayBuffer | NpyBuffer | None = None

    def take(self) -> list[ArrayReady]:
        """Return the arrays that are complete since the last call."""
        ready = self._ready
        if ready:
            self._ready = []
        return ready

    # What the scanner calls.

    def text(self, data: Data, i: int, j: int) -> None:
        if i < j:
            self._budget.add_text(j - i, self._position)
            self._remainder += data if j - i == len(data) else memoryview(data)[i:j]
            self._position += j - i

    def suspect(self) -> None:
        self._suspicious = True

    def ordinary(self, entry: Entry, first: int, offset: int) -> None:
        kind = _KINDS.get(first, "a number")
        raise MalformedArray(f"{entry.field.name!r} is to hold an array or null, and holds {kind}", offset=offset)

    def open(self, wire: BlobWire, entry: Entry, head: bytes, offset: int) -> None:
        self._budget.admit_array(offset)
        self._entry = entry
        self._offset = offset
        first = offset + len(head)
        self._position = first
        left = 0 if self._content_length is None else max(self._content_length - first, 0)
        bound = left // 4 * 3
        limit, allocate = self._budget.array_bytes_left, self._allocate
        field = entry.field
        if wire == "npy":
            self._buffer = NpyBuffer(field, offset, bound=bound, limit=limit, limits=self._limits, allocate=allocate)
        else:
            exact = raw_size(field) if wire == "raw" else None
            self._buffer = ArrayBuffer(field.name, offset, bound=bound, limit=limit, allocate=allocate, exact=exact)
        self._decoder = Base64Decoder(self._buffer, offset, first, name=field.name, wire=wire)

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        self._position += j - i
        assert self._decoder is not None  # the scanner has called open
        if last:
            self._decoder.finish(data, i, j)
        else:
            self._decoder.feed(data, i, j)

    def bulk(self, data: Data, i: int, j: int) -> bool:
        assert self._decoder is not None  # the scanner has called open
        if not self._decoder.feed_plain(data, i, j):
            return False
        self._position += j - i
        return True

    def end(self, tail: bytes, tail_offset: int) -> None:
        entry, buffer = self._entry, self._buffer
        assert entry is not None  # the scanner has called open
        assert buffer is not None  # the scanner has called open
        field, offset = entry.field, self._offset
        self._buffer = self._decoder = None
        self._position = tail_offset + len(tail)
        if isinstance(buffer, NpyBuffer):
            array = buffer.finish()
            self._budget.add_array(buffer.n_bytes)
            self._add(field, array, {}, offset)
            return
        if not tail:
            raw = raw_meta(field, buffer.size, self._limits, offset)
            array = build(field, raw, buffer.finish(), offset)
            self._budget.add_array(buffer.size)
            self._add(field, array, {}, offset)
            return
        self._budget.add_tail(len(tail), offset)
        known: Meta | None = entry.tails.get(tail)
        meta = known
        if meta is None or len(meta.shape) > self._limits.ndim:
            meta = read_tail(field, tail, tail_offset, offset, self._limits)
        check_size(field, meta, buffer.size, offset)
        array = build(field, meta, buffer.finish(), offset)
        if known is None and len(tail) <= _CACHED_TAIL_BYTES and _SCALARS.issuperset(map(type, meta.sidecar.values())):
            entry.remember(tail, meta)
        self._budget.add_array(buffer.size)
        self._add(field, array, meta.sidecar.copy(), offset)

    def whole(self, entry: Entry, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        # The general way, in one step, for what is known to go well; whatever is not goes the general way.
        tail = bytes(data[quote + 1 : end])
        meta = entry.tails.get(tail)
        if meta is None or self._allocate is not None or BIG_ENDIAN_HOST or entry.field.check is not None:
            return False
        try:
            memory = decode_as_bytearray(data[first:quote])
        except Base64Error:
            return False
        n_bytes = len(memory)
        if n_bytes != meta.n_bytes or not self._budget.add_if_it_fits(n_bytes, len(tail), len(meta.shape)):
            return False
        offset = self._position
        self._position = offset + end - opening
        array: NDArray[Any] = np.ndarray(meta.shape, meta.dtype, memory)
        self._add(entry.field, array, meta.sidecar.copy(), offset)
        return True

    def numbers(self, entry: Entry, runs: list[Data], skeletons: list[Data] | None, offset: int) -> bool:
        array = read_list(entry.field, runs, skeletons, self._limits, offset)
        return self._take_list(entry.field, array, sum(map(len, runs)), offset)

    def flat(self, entry: Entry, text: bytes, kind: FlatKind, offset: int) -> bool:
        array = read_flat(entry.field, text, kind, self._limits, offset)
        return self._take_list(entry.field, array, len(text), offset)

    def _take_list(self, field: Field, array: NDArray[Any] | None, n_bytes: int, offset: int) -> bool:
        """Take the array that a list of ``n_bytes`` bytes is; False if it is none."""
        if array is None:
            return False
        self._budget.admit_array(offset)
        limit = self._budget.array_bytes_left
        if array.nbytes > limit:
            raise LimitExceeded(f"the array {field.name!r} has more than {limit} bytes", offset=offset)
        if self._allocate is not None:
            memory = allocated(self._allocate, field.name, array.nbytes)[: array.nbytes]
            target: NDArray[Any] = np.ndarray(array.shape, array.dtype, memory)
            target[...] = array
            array = target
        run_check(field, array, offset)
        self._position += n_bytes
        self._budget.add_array(array.nbytes)
        self._add(field, array, {}, offset)
        return True

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        if tail is None:
            assert self._decoder is not None  # the scanner has called open
            self._decoder.cut()
        else:
            parse_tail(tail, tail_offset, tail_offset + len(tail))
        raise IncompleteBody("the body ends within an array", offset=self._position)

    def _add(self, field: Field, array: NDArray[Any], sidecar: dict[str, Any], offset: int) -> None:
        ordinal = len(self._values)
        self._values.append(Packed(array, sidecar) if field.sidecar else array)
        self._ready.append(ArrayReady(field.name, ordinal, array, sidecar, offset))
        placeholder = self._placeholder % ordinal
        self._cuts.append(_Cut(len(self._remainder), len(placeholder), offset, self._position))
        self._remainder += placeholder

    # What the parser calls when the body has ended.

    def document(self, json_loads: JSONLoads) -> Any:
        """Parse the remainder and put the arrays back.

        Raises:
            MalformedJSON, IncompleteBody: The remainder is not JSON, or ends early.
            LayoutDrift: An array could not be cut out.
            MalformedArray: A required field, its name spelled with escapes, holds none.
            ContractError: An array is hidden by a later member of the same name.
        """
        text = self._remainder
        self._remainder = bytearray()
        skipped = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
        del text[:skipped]

        def locate(position: int) -> int:
            return self._locate(position + skipped)

        document = parsed(text, json_loads, locate=locate, body_length=self._position)
        registry = self._registry
        restorer = Restorer(registry.names, registry.packed, self._mark, self._values)
        escaped = registry.has_escapes(text)
        restorer.walk(document, whole=bool(registry.packed) and (self._suspicious or escaped))
        faults: list[ContractError] = []
        if restorer.drifted:
            faults += self._drifts(text, json_loads, locate)
        if escaped:
            faults += escaped_values(text, registry, self._limits, self._mark, locate)
        number = restorer.hidden()
        if number is not None:
            faults.append(hidden(self._cuts[number].begin))
        if faults:
            raise min(faults, key=_offset)
        return document

    def _drifts(self, text: bytearray, json_loads: JSONLoads, locate: Callable[[int], int]) -> Iterator[LayoutDrift]:
        """Parse the document once more, with a marker in each object that an array could be, to know their places."""
        marked, positions = packed_objects(text, self._registry, self._mark)
        restorer = Restorer(self._registry.names, self._registry.packed, self._mark, self._values)
        restorer.walk(parsed(marked, json_loads, locate=locate, body_length=self._position), whole=True)
        for name, number, members in restorer.drifted:
            yield drift(name, members, locate(positions[number]))

    def _locate(self, position: int) -> int:
        """Map an offset in the remainder to one in the body."""
        number = bisect.bisect_right(self._cuts, position, key=lambda cut: cut.at) - 1
        if number < 0:
            return position
        cut = self._cuts[number]
        behind = position - cut.at - cut.length
        return cut.begin if behind < 0 else cut.end + behind


def _offset(fault: ContractError) -> int:
    assert fault.offset is not None  # faults of a document have one
    return fault.offset
