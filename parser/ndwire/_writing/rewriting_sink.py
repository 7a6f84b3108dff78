"""The scanner's second sink: it passes text on, and makes envelopes of the values that it is given."""

from __future__ import annotations

from typing import Final

from ndwire._contract.errors import WireError
from ndwire._contract.field import Field
from ndwire._contract.json_text import BYTE_ORDER_MARK
from ndwire._scanning.list_text import append_run
from ndwire._scanning.registry import Entry
from ndwire._scanning.sink import BlobWire, Data
from ndwire._wires.numbers.flat import FlatKind
from ndwire._writing.held import Held, HeldWire, envelope, envelope_of_flat, read

# Shorter values are rewritten at once: that takes less than a millisecond.
_AT_ONCE: Final = 32 << 10
_DATA: Final = b"data:"
_LINE_HEAD: Final = len(BYTE_ORDER_MARK) + len(_DATA)


class RewritingSink:
    """Takes what the scanner finds, and says what goes out.

    Args:
        max_hold_bytes: A value of more bytes of text goes out as it came.
        min_bytes: So does one of fewer.
        rewritten: Counts the values that became envelopes, by the field's name.
        events: Whether the text is an event stream, of which only the lines of ``data`` are rewritten.

    Attributes:
        position: The bytes of the body that have gone out.
    """

    passes_envelopes = True

    __slots__ = (
        "_entry",
        "_events",
        "_line",
        "_max_hold_bytes",
        "_min_bytes",
        "_n_held",
        "_out",
        "_rewritten",
        "_runs",
        "_wire",
        "position",
    )

    def __init__(self, max_hold_bytes: int, min_bytes: int, rewritten: dict[str, int], *, events: bool) -> None:
        self.position = 0
        self._events = events
        self._line = b""  # in an event stream, what the line begins with
        self._max_hold_bytes = max_hold_bytes
        self._min_bytes = min_bytes
        self._rewritten = rewritten
        self._out: list[bytes | Held] = []
        self._entry: Entry | None = None  # of a string that is held; None while one goes out as it comes
        self._wire: HeldWire = "npy"
        self._runs: list[Data] = []
        self._n_held = 0

    def take(self) -> list[bytes | Held]:
        """Return what goes out since the last call."""
        out = self._out
        self._out = []
        return out

    def let_go(self) -> None:
        """Hold no more of a string: it goes out as it came."""
        self._entry = None
        runs, self._runs = self._runs, []
        for run in runs:
            self.text(run, 0, len(run))

    def see(self, data: Data, i: int, j: int) -> None:
        """Text goes out: remember what its last line begins with."""
        if self._events:
            end = max(data.rfind(b"\n", i, j), data.rfind(b"\r", i, j))
            if end >= 0:
                self._line = bytes(data[end + 1 : min(end + 1 + _LINE_HEAD, j)])
            elif len(self._line) < _LINE_HEAD:
                self._line += data[i : min(i + _LINE_HEAD - len(self._line), j)]

    @property
    def holds_string(self) -> bool:
        """Whether a string is held, from its first byte on."""
        return self._entry is not None

    def is_elsewhere(self) -> bool:
        """Return whether the line is none of ``data``, in an event stream."""
        return self._events and not self._line.removeprefix(BYTE_ORDER_MARK).startswith(_DATA)

    # What the scanner calls.

    def text(self, data: Data, i: int, j: int) -> None:
        if i < j:
            self.see(data, i, j)
            self._out.append(bytes(data[i:j]))
            self.position += j - i

    def suspect(self) -> None:
        pass

    def ordinary(self, entry: Entry, first: int, offset: int) -> None:
        pass

    def open(self, wire: BlobWire, entry: Entry, head: bytes, offset: int) -> None:
        if wire == "envelope" or self.is_elsewhere():
            self._entry = None
            self.text(head, 0, len(head))
            return
        self._entry = entry
        self._wire = wire
        self._runs = []
        self._n_held = 0
        self._hold(head)

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        if self._entry is None:
            self.text(data, i, j)
            if last:
                self.text(b'"', 0, 1)
            return
        self._hold(bytes(data[i:j]))
        if last:
            self._hold(b'"')

    def bulk(self, data: Data, i: int, j: int) -> bool:
        return False

    def end(self, tail: bytes, tail_offset: int) -> None:
        entry, self._entry = self._entry, None
        if entry is None:
            return
        if not self._rewrite(entry.field, self._wire, self._runs, None, self._n_held):
            self.let_go()
        self._runs = []

    def whole(self, entry: Entry, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        return False

    def numbers(self, entry: Entry, runs: list[Data], skeletons: list[Data] | None, offset: int) -> bool:
        return not self.is_elsewhere() and self._rewrite(entry.field, "nested", runs, skeletons, sum(map(len, runs)))

    def flat(self, entry: Entry, text: bytes, kind: FlatKind, offset: int) -> bool:
        field = entry.field
        if self.is_elsewhere():
            return False
        if field.check is None and self._min_bytes <= len(text) <= self._max_hold_bytes:
            short = envelope_of_flat(field, text, kind)
            if short is not None:
                self._put(field.name, [short], len(text))
                return True
        return self._rewrite(field, kind, [text], None, len(text))

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        self.let_go()

    def _hold(self, text: bytes) -> None:
        append_run(self._runs, text)
        self._n_held += len(text)

    def _rewrite(
        self, field: Field, wire: HeldWire, runs: list[Data], skeletons: list[Data] | None, n_bytes: int
    ) -> bool:
        """Let the value's envelope go out, now or later; False if it is to go out as it came."""
        if not self._min_bytes <= n_bytes <= self._max_hold_bytes:
            return False
        if n_bytes > _AT_ONCE or field.check is not None:
            self._out.append(Held(field, wire, runs, skeletons, n_bytes))
            self.position += n_bytes
            return True
        try:
            pieces = envelope(read(field, wire, runs, skeletons))
        except WireError:
            return False
        self._put(field.name, pieces, n_bytes)
        return True

    def _put(self, name: str, pieces: list[bytes], n_bytes: int) -> None:
        """An envelope goes out in the place of ``n_bytes`` bytes."""
        self._out += pieces
        self.position += n_bytes
        self._rewritten[name] = self._rewritten.get(name, 0) + 1
