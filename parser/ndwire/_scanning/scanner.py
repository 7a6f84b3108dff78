"""The scanner: finds the values of registered names in JSON text that comes in pieces.

It does not parse JSON. It searches for ``"name"`` followed by a colon, looks at how the value begins, and pushes what
it sees into a sink: every byte goes out once and in order, as ordinary text or as part of a value that the sink wants.
Whether the ordinary text is JSON at all is the sink's business.

Why the search is sound: in JSON text an unescaped quote either opens or closes a string. If the first quote of
``"name"`` closed one, the bare letters of the name would follow it, which no JSON parser accepts; if it is escaped,
a backslash stands before it. So a match without a backslash before it and with a colon behind it is a key.

States and transitions::

    TEXT ──"name"──> AFTER_NAME ──:──> BEFORE_VALUE ──{──> OPENING ──"data":"──> BLOB ──"──> TAIL ──}──> TEXT
      ^                  │                  │  │  │           │                  ^  │
      │                  │                  │  │  └──"──> STRING ──a blob──────>─┘  └──" (of a string)──> TEXT
      │                  │                  │  └──[──> LIST ──brackets balance──> TEXT
      └── anything else ─┴──────────────────┴──────────── STRING, LIST, OPENING that turn out to be none

Invariants:

* What is passed to the sink depends on the bytes alone: a different cut only splits ``text`` and ``part`` differently.
* Held back are, in TEXT, a proper prefix of some ``"name"`` that the piece ends with (``_held``); in STRING the bytes
  from the value's first on; in OPENING the same, or only an incomplete token where the sink passes envelopes; in LIST
  its text; in TAIL the bytes behind the base64, unless the sink passes envelopes. Nothing held is joined to a whole
  next piece, and nothing is searched twice but the few bytes of an incomplete token.
* White space between tokens may be of any length and is consumed where it stands.
* In a registry of ``lines`` a CR or LF ends every value and every gap between tokens: none goes on in the next line.
* The scanner knows its sink; the sink does not know the scanner.
"""

from __future__ import annotations

import enum
from typing import Final

from ndwire._contract.errors import LimitExceeded
from ndwire._contract.strings import end_of_line
from ndwire._scanning.blob import WINDOW, Blob, BlobEnd
from ndwire._scanning.list_text import ListText, Verdict
from ndwire._scanning.opening import Opening
from ndwire._scanning.registry import Entry, Registry
from ndwire._scanning.sink import BlobWire, Data, Sink
from ndwire._scanning.tail import TAIL_WINDOW, Tail
from ndwire._wires.nested import SHORT
from ndwire._wires.npy import MAGIC_BASE64
from ndwire._wires.numbers.flat import flat_kind
from ndwire._wires.numbers.words import without_words

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_BACKSLASH: Final = ord("\\")
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_NPY_STRING: Final = b'"' + MAGIC_BASE64


class State(enum.Enum):
    """What the next byte belongs to."""

    TEXT = enum.auto()
    AFTER_NAME = enum.auto()
    BEFORE_VALUE = enum.auto()
    OPENING = enum.auto()
    STRING = enum.auto()
    LIST = enum.auto()
    BLOB = enum.auto()
    TAIL = enum.auto()


class Scanner:
    """Finds registered values in the text that ``feed`` is given and pushes all of it into ``sink``.

    Args:
        registry: The names.
        sink: The consumer.
        tail_bytes: The most bytes that an envelope may have before its base64, and behind it.
        list_bytes: The most bytes that the text of a list may have.
    """

    __slots__ = (
        "_base",
        "_blob",
        "_entry",
        "_head",
        "_held",
        "_lines",
        "_list",
        "_list_bytes",
        "_offset",
        "_opening",
        "_previous",
        "_registry",
        "_sink",
        "_skip_space",
        "_state",
        "_tail",
        "_tail_bytes",
        "_tail_offset",
        "_wire",
    )

    def __init__(self, registry: Registry, sink: Sink, *, tail_bytes: int, list_bytes: int) -> None:
        self._registry = registry
        self._lines = registry.lines
        self._skip_space = registry.skip_space
        self._sink = sink
        self._tail_bytes = tail_bytes
        self._list_bytes = list_bytes
        self._state = State.TEXT
        self._base = 0  # the body's offset of the piece's first byte
        self._previous = 0  # the byte before the piece
        self._held = b""
        self._head = bytearray()  # in STRING: what is there of the magic
        self._opening: Opening | None = None
        self._list: ListText | None = None
        self._wire: BlobWire = "envelope"
        self._entry: Entry | None = None
        self._offset = 0  # of the value that is being read
        self._blob = Blob(sink, lines=registry.lines)
        self._tail: Tail | None = None
        self._tail_offset = 0

    @property
    def n_bytes(self) -> int:
        """The number of bytes fed."""
        return self._base

    @property
    def holds_value(self) -> bool:
        """Whether a list or the opening of a string is held here, from its first byte on."""
        return self._list is not None or self._state is State.STRING

    def feed(self, data: Data, searched: int = 0) -> None:
        """Scan the next piece of the body. The sink's errors pass through.

        Args:
            data: The piece.
            searched: In the first piece, where the first ``"name"`` begins, if that is known.
        """
        if data:
            if searched:
                self._sink.text(data, 0, searched)
            self._scan(data, searched)
            self._previous = data[-1]
            self._base += len(data)

    def finish(self) -> None:
        """The body has ended: push out what is held."""
        if self._state is State.BLOB:
            self._sink.cut(None, 0)
        elif self._tail is not None:
            self._sink.cut(bytes(self._tail.text), self._tail_offset)
        elif self._list is not None:
            text = self._list
            if self._entry is not None and self._entry.field.nulls is not None:
                # JSON as it would be without the words: what is wrong about the list is that it ends.
                text.runs = [without_words(b"".join(text.runs))]
            self._let_go(text)
        else:
            held = self._head if self._state is State.STRING else self._held
            if self._opening is not None:
                held = self._opening.head
            self._sink.text(held, 0, len(held))

    def let_go(self) -> None:
        """Hold no more of a list: it goes out as ordinary text, and is not looked at again."""
        text = self._list
        if text is not None:
            self._list = None
            self._state = State.TEXT
            self._let_go(text)

    def _scan(self, data: Data, i: int = 0) -> None:
        n = len(data)
        while i < n:
            match self._state:
                case State.TEXT:
                    i = self._resume(data, i, n) if self._held else self._text(data, i, n)
                case State.BLOB:
                    i = self._read_blob(data, i, n)
                case State.TAIL:
                    i = self._read_tail(data, i, n)
                case State.AFTER_NAME:
                    i = self._after_name(data, i, n)
                case State.BEFORE_VALUE:
                    i = self._before_value(data, i, n)
                case State.LIST:
                    i = self._read_list(data, i, n)
                case State.STRING:
                    i = self._string(data, i, n)
                case _:
                    i = self._read_opening(data, i, n)

    def _text(self, data: Data, i: int, n: int) -> int:
        """Search plain text; take envelopes that stand there whole in one go."""
        sink = self._sink
        entries = self._registry.entries
        search = self._registry.key.search
        passed = i  # all before it went out
        more = self._registry.may_occur(data, i, n)
        while more:
            match = search(data, i)
            if match is None:
                break
            start, opening = match.start(), match.start(3)
            if (data[start - 1] if start else self._previous) == _BACKSLASH:
                i = start + 1
                continue
            entry = entries[match[1]]
            i = match.end()
            if opening >= 0 and entry.reads_envelopes:
                sink.text(data, passed, opening)
                self._check_opening(i - opening, self._base + opening)
                quote = data.find(b'"', i, i + WINDOW)
                end = data.find(b"}", quote, quote + TAIL_WINDOW) + 1 if quote >= 0 else 0
                if end and sink.whole(entry, data, opening, i, quote, end):
                    passed = i = end
                    continue
                self._open("envelope", entry, bytes(data[opening:i]), self._base + opening)
                return i
            colon = match.end(2) >= 0
            if colon and opening < 0 and entry.reads_lists and data.startswith(b"[", i):
                # A short, flat list that stands there whole.
                end = data.find(b"]", i, min(i + SHORT, i + self._list_bytes)) + 1
                kind = flat_kind(data[i:end], lines=self._lines) if end else None
                if kind is not None:
                    sink.text(data, passed, i)
                    passed = end
                    if not sink.flat(entry, bytes(data[i:end]), kind, self._base + i):
                        passed = i
                        self._is_ordinary(entry, _BRACKET, self._base + i)
                    i = end
                    continue
            self._entry = entry
            if not colon:
                self._state = State.AFTER_NAME
                i = match.end(1) + 1
            elif opening >= 0:
                # An envelope's opening, for a field that reads none: text, and what is behind the brace is searched.
                self._is_ordinary(entry, _BRACE, self._base + opening)
                i = opening + 1
                continue
            elif i < n and data[i] not in entry.openers:
                # An ordinary value.
                continue
            else:
                self._state = State.BEFORE_VALUE
            sink.text(data, passed, i)
            return i
        held = self._registry.prefix_at_end(data, i, n)
        if held < n and (data[held - 1] if held else self._previous) == _BACKSLASH:
            held = n
        sink.text(data, passed, held)
        self._held = bytes(data[held:n])
        return n

    def _resume(self, data: Data, i: int, n: int) -> int:
        """Decide about the prefix of a name that was held."""
        registry = self._registry
        held = self._held
        window = held + bytes(data[i : i + registry.longest - len(held)])
        match = registry.token.match(window)
        if match is None and window in registry.prefixes:
            self._held = window
            return n
        self._held = b""
        self._sink.text(held, 0, len(held))
        if match is None:
            # The quote that was held is not looked at again, and what follows it holds none.
            return i
        end = i + match.end() - len(held)
        self._sink.text(data, i, end)
        self._entry = registry.entries[match[1]]
        self._state = State.AFTER_NAME
        return end

    def _after_name(self, data: Data, i: int, n: int) -> int:
        j = self._skip_space(data, i)
        self._state = State.AFTER_NAME if j == n else State.TEXT
        if j < n and data[j] == _COLON:
            self._state = State.BEFORE_VALUE
            j += 1
        self._sink.text(data, i, j)
        return j

    def _before_value(self, data: Data, i: int, n: int) -> int:
        j = self._skip_space(data, i)
        self._sink.text(data, i, j)
        entry = self._entry
        if j == n or entry is None:
            return j
        self._state = State.TEXT
        first = data[j]
        if first in entry.openers:
            self._offset = self._base + j
            self._head.clear()
            if first == _BRACE and entry.reads_envelopes:
                self._state = State.OPENING
                self._opening = Opening(self._skip_space)
            elif first == _QUOTE and (entry.reads_npy or entry.reads_raw):
                self._state = State.STRING
            elif first == _BRACKET and entry.reads_lists:
                self._state = State.LIST
                self._list = ListText(lines=self._lines)
            else:
                self._is_ordinary(entry, first, self._offset)
        return j

    def _string(self, data: Data, i: int, n: int) -> int:
        """Compare a string's beginning with that of an npy file."""
        head = self._head
        entry = self._entry
        assert entry is not None  # a value always stands under a name
        if entry.reads_npy:
            want = _NPY_STRING[len(head) : len(head) + n - i]
            if data[i : i + len(want)] == want:
                head += want
                if len(head) == len(_NPY_STRING):
                    self._open("npy", entry, b'"', self._offset)
                    self._sink.part(_NPY_STRING, 1, len(_NPY_STRING), last=False)
                return i + len(want)
        if not entry.reads_raw:
            self._is_ordinary(entry, _QUOTE, self._offset)
            self._search(bytes(head), self._offset)
            return i
        # Every string but an npy one is raw.
        self._open("raw", entry, b'"', self._offset)
        if head:
            self._sink.part(head, 1, len(head), last=False)
            return i
        return i + 1

    def _read_list(self, data: Data, i: int, n: int) -> int:
        """Collect a list until its brackets balance, or something in it is no number."""
        text, entry = self._list, self._entry
        assert text is not None  # made when the list began
        assert entry is not None
        i, verdict = text.take(data, i, n)
        if text.n_bytes > self._list_bytes:
            raise LimitExceeded(f"a list has more than {self._list_bytes} bytes of text", offset=self._offset)
        if verdict is Verdict.OPEN:
            return i
        self._list = None
        self._state = State.TEXT
        if verdict is Verdict.ORDINARY or not self._sink.numbers(
            entry, text.runs, None if text.flat else text.skeletons, self._offset
        ):
            self._is_ordinary(entry, _BRACKET, self._offset)
            self._let_go(text)
        return i

    def _let_go(self, text: ListText) -> None:
        """A list is ordinary text. It holds no quote, hence no name, and is not searched."""
        runs = text.runs
        text.skeletons.clear()
        runs.reverse()
        while runs:
            # Each is free to go before the next comes.
            run = runs.pop()
            self._sink.text(run, 0, len(run))

    def _read_opening(self, data: Data, i: int, n: int) -> int:
        """Find out whether an object opens as an envelope."""
        opening = self._opening
        assert opening is not None  # made when the object began
        i, verdict = opening.take(data, i, n)
        self._check_opening(len(opening.head), self._offset)
        if verdict is Verdict.COMPLETE:
            self._opening = None
            self._open("envelope", self._entry, bytes(opening.head), self._offset)
        elif verdict is Verdict.ORDINARY:
            self._opening = None
            self._no_envelope(opening, data, i)
        elif self._sink.passes_envelopes:
            # Whatever the object proves to be, these bytes go out as they came.
            self._release(opening)
        return i

    def _release(self, opening: Opening) -> None:
        released = opening.release()
        self._sink.text(released, 0, len(released))

    def _check_opening(self, n_bytes: int, offset: int) -> None:
        if n_bytes > self._tail_bytes:
            raise LimitExceeded(f"an envelope opens with more than {self._tail_bytes} bytes", offset=offset)

    def _no_envelope(self, opening: Opening, data: Data, i: int) -> None:
        """The object opens otherwise: it is text, in which the key ``data`` may be a registered name itself."""
        entry = self._entry
        assert entry is not None  # a value always stands under a name
        self._is_ordinary(entry, _BRACE, self._offset)
        self._release(opening)
        if opening.has_key or opening.head or data[i : i + 1] == b'"':
            self._sink.suspect()
        self._state = State.TEXT
        self._entry = self._registry.entries.get(b"data")
        if opening.has_key and self._entry is not None:
            self._state = State.BEFORE_VALUE if opening.has_colon else State.AFTER_NAME
        elif opening.head:
            self._search(bytes(opening.head), self._base + i - len(opening.head))

    def _is_ordinary(self, entry: Entry, first: int, offset: int) -> None:
        """The value that begins with ``first`` at ``offset`` is no array."""
        if entry.required:
            self._sink.ordinary(entry, first, offset)

    def _search(self, held: bytes, offset: int) -> None:
        """What was held from ``offset`` on is plain text, and is searched as such."""
        self._head.clear()
        self._state = State.TEXT
        base, previous = self._base, self._previous
        self._base, self._previous = offset, 0
        self._scan(held)
        self._base, self._previous = base, previous

    def _open(self, wire: BlobWire, entry: Entry | None, head: bytes, offset: int) -> None:
        assert entry is not None  # a value always stands under a name
        self._wire = wire
        self._entry = entry
        self._offset = offset
        self._blob.begin()
        self._state = State.BLOB
        self._sink.open(wire, entry, head, offset)

    def _read_blob(self, data: Data, i: int, n: int) -> int:
        """Pass base64 on up to the quote that ends it."""
        i, end = self._blob.take(data, i, n)
        if end is BlobEnd.LINE:
            self._state = State.TEXT
            self._sink.cut(None, 0)
        elif end is BlobEnd.CLOSED and self._wire == "envelope":
            self._state = State.TAIL
            self._tail = Tail()
            self._tail_offset = self._base + i
        elif end is BlobEnd.CLOSED:
            self._state = State.TEXT
            self._sink.end(b"", self._base + i)
        return i

    def _read_tail(self, data: Data, i: int, n: int) -> int:
        """Collect what follows the base64 up to the brace that closes the envelope."""
        tail = self._tail
        assert tail is not None  # made when the base64 ended
        known = self._entry.tails if self._entry is not None else {}
        # Followed within its line only: what is followed further would be followed again by the next line's.
        stop = end_of_line(data, i, n) if self._lines else n
        j, done = tail.end(data, i, stop, known)
        if not done and stop < n:
            self._state = State.TEXT
            self._tail = None
            self._sink.text(data, i, stop)
            self._sink.cut(b"", 0)
            return stop
        if done:
            self._state = State.TEXT
            self._tail = None
        if self._sink.passes_envelopes:
            self._sink.text(data, i, j)
        else:
            tail.text += data[i:j]
            if len(tail.text) > self._tail_bytes:
                raise LimitExceeded(f"an envelope has more than {self._tail_bytes} bytes of JSON", offset=self._offset)
        if done:
            self._sink.end(bytes(tail.text), self._tail_offset)
        return j
