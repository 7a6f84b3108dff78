"""The scanner: finds the values of registered names in JSON text that comes in pieces.

It does not parse JSON. It searches for ``"name"`` followed by a colon, looks at how the value begins, and pushes what
it sees into a sink: every byte goes out once and in order, as ordinary text or as part of a value that the sink wants.
Whether the ordinary text is JSON at all is the sink's business.

Why the search is sound: in JSON text an unescaped quote either opens or closes a string. If the first quote of
``"name"`` closed one, the bare letters of the name would follow it, which no JSON parser accepts; if it is escaped,
a backslash stands before it. So a match without a backslash before it and with a colon behind it is a key.

States and transitions::

    TEXT ──"name"──> AFTER_NAME ──:──> BEFORE_VALUE ──{──> OPENING ──"data":"──> BLOB ──"──> TAIL ──}──> TEXT
      ^                  │                  │                 │
      └── anything else ─┴──────────────────┴─────────────────┘

Invariants:

* What is passed to the sink depends on the bytes alone: a different cut only splits ``text`` and ``part`` differently.
* Held back are, in TEXT, a proper prefix of some ``"name"`` that the piece ends with (``_held``); in OPENING the bytes
  from the brace on; in TAIL the bytes behind the base64, unless the sink wants them as text. Nothing held is joined to
  a whole next piece, and nothing is searched twice but the few bytes of an opening that turns out to be none.
* White space between tokens may be of any length and is consumed where it stands.
* The scanner knows its sink; the sink does not know the scanner.
"""

from __future__ import annotations

import enum
import re
from typing import Final, Protocol

from ndwire._errors import LimitExceeded
from ndwire._registry import Entry, Registry

Data = bytes | bytearray

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_BACKSLASH: Final = ord("\\")
_BRACE: Final = ord("{")
_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_OPENING: Final = (b"{", b'"data"', b":", b'"')
_STRUCTURE: Final = re.compile(rb'["{}]')

# So much base64 is searched for its closing quote, and then decoded, while it is in the cache.
_WINDOW: Final = 256 << 10
# How far the fused path looks for the end of a tail.
_TAIL_WINDOW: Final = 1 << 10


class Sink(Protocol):
    """What the scanner pushes into."""

    wants_tails: bool
    """Whether the members behind an envelope's base64 go to ``end``; else they are passed as text."""

    def text(self, data: Data, i: int, j: int) -> None:
        """``data[i:j]`` is ordinary JSON text."""
        ...

    def suspect(self) -> None:
        """The object whose brace has just gone out as text stands under a name, but opens as no envelope."""
        ...

    def open(self, entry: Entry, head: bytes, offset: int) -> None:
        """An envelope begins. ``head`` goes up to the quote before the base64; ``offset`` is the brace's."""
        ...

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        """``data[i:j]`` is text of the base64; ``last`` says that the closing quote follows."""
        ...

    def end(self, tail: bytes, tail_offset: int) -> None:
        """The envelope ends. ``tail`` is everything behind the closing quote, including the brace."""
        ...

    def whole(self, entry: Entry, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        """A short envelope stands complete in ``data[opening:end]``, its base64 in ``data[first:quote]``.

        False: take it the general way. Where the end was guessed wrong, the sink says so as well.
        """
        ...

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        """The body ended within the base64 (``tail`` is None) or within the tail."""
        ...


class State(enum.Enum):
    """What the next byte belongs to."""

    TEXT = enum.auto()
    AFTER_NAME = enum.auto()
    BEFORE_VALUE = enum.auto()
    OPENING = enum.auto()
    BLOB = enum.auto()
    TAIL = enum.auto()


class Scanner:
    """Finds registered values in the text that ``feed`` is given and pushes all of it into ``sink``.

    Args:
        registry: The names.
        sink: The consumer.
        tail_bytes: The most bytes that a tail may have.
    """

    __slots__ = (
        "_base",
        "_depth",
        "_entry",
        "_head",
        "_held",
        "_in_string",
        "_matched",
        "_offset",
        "_previous",
        "_registry",
        "_sink",
        "_slashes",
        "_stage",
        "_state",
        "_tail",
        "_tail_bytes",
        "_tail_offset",
    )

    def __init__(self, registry: Registry, sink: Sink, *, tail_bytes: int) -> None:
        self._registry = registry
        self._sink = sink
        self._tail_bytes = tail_bytes
        self._state = State.TEXT
        self._base = 0  # the body's offset of the piece's first byte
        self._previous = 0  # the byte before the piece
        self._held = b""
        self._head = bytearray()  # in OPENING: what is there of the envelope's opening
        self._entry: Entry | None = None
        self._offset = 0  # of the value that is being read
        self._stage = 0  # in OPENING: the token that is expected, and how much of it is there
        self._matched = 0
        self._slashes = 0  # backslashes that the last piece of a string ended with
        self._tail = bytearray()
        self._tail_offset = 0
        self._depth = 0
        self._in_string = 0

    @property
    def offset(self) -> int:
        """The number of bytes fed."""
        return self._base

    def feed(self, data: Data) -> None:
        """Scan the next piece of the body. The sink's errors pass through."""
        if data:
            self._scan(data)
            self._previous = data[-1]
            self._base += len(data)

    def finish(self) -> None:
        """The body has ended: push out what is held."""
        if self._state is State.BLOB:
            self._sink.cut(None, 0)
        elif self._state is State.TAIL:
            self._sink.cut(bytes(self._tail), self._tail_offset)
        else:
            held = bytes(self._head) if self._state is State.OPENING else self._held
            self._sink.text(held, 0, len(held))

    def _scan(self, data: Data) -> None:
        i = 0
        n = len(data)
        while i < n:
            match self._state:
                case State.TEXT:
                    i = self._resume(data, i, n) if self._held else self._text(data, i, n)
                case State.BLOB:
                    i = self._blob(data, i, n)
                case State.TAIL:
                    i = self._read_tail(data, i, n)
                case State.AFTER_NAME:
                    i = self._after_name(data, i, n)
                case State.BEFORE_VALUE:
                    i = self._before_value(data, i, n)
                case _:
                    i = self._opening(data, i, n)

    def _text(self, data: Data, i: int, n: int) -> int:
        """Search plain text; take envelopes that stand there whole in one go."""
        sink = self._sink
        entries = self._registry.entries
        search = self._registry.key.search
        passed = i  # all before it went out
        while True:
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
                quote = data.find(b'"', i, i + _WINDOW)
                end = data.find(b"}", quote, quote + _TAIL_WINDOW) + 1 if quote >= 0 else 0
                if end and sink.whole(entry, data, opening, i, quote, end):
                    passed = i = end
                    continue
                self._open(entry, bytes(data[opening:i]), self._base + opening)
                return i
            self._entry = entry
            if match.end(2) < 0:
                self._state = State.AFTER_NAME
                i = match.end(1) + 1
            elif i < n and (opening >= 0 or data[i] != _BRACE or not entry.reads_envelopes):
                # An ordinary value. (An opening was matched for a field that reads none: it is text.)
                i = opening + 1 if opening >= 0 else i
                continue
            else:
                self._state = State.BEFORE_VALUE
            sink.text(data, passed, i)
            return i
        held = self._prefix_at_end(data, i, n)
        sink.text(data, passed, held)
        self._held = bytes(data[held:n])
        return n

    def _prefix_at_end(self, data: Data, i: int, n: int) -> int:
        """Return where a proper prefix of some ``"name"`` begins that the text ends with; ``n`` if there is none."""
        quote = data.rfind(b'"', max(i, n - self._registry.longest + 1), n)
        if quote >= 0 and bytes(data[quote:n]) in self._registry.prefixes:
            before = data[quote - 1] if quote else self._previous
            return n if before == _BACKSLASH else quote
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
        j = _skip_space(data, i)
        self._state = State.AFTER_NAME if j == n else State.TEXT
        if j < n and data[j] == _COLON:
            self._state = State.BEFORE_VALUE
            j += 1
        self._sink.text(data, i, j)
        return j

    def _before_value(self, data: Data, i: int, n: int) -> int:
        j = _skip_space(data, i)
        self._sink.text(data, i, j)
        if j < n:
            self._state = State.TEXT
            if data[j] == _BRACE and self._entry is not None and self._entry.reads_envelopes:
                self._state = State.OPENING
                self._offset = self._base + j
                self._stage = self._matched = 0
                self._head.clear()
        return j

    def _opening(self, data: Data, i: int, n: int) -> int:
        """Compare what follows the name with the opening of an envelope, token by token."""
        head = self._head
        while i < n:
            if self._stage and not self._matched:
                j = _skip_space(data, i)
                head += data[i:j]
                i = j
                if i == n:
                    break
            token = _OPENING[self._stage]
            want = token[self._matched : self._matched + n - i]
            if data[i : i + len(want)] != want:
                self._no_envelope(data, i)
                return i
            head += want
            i += len(want)
            self._matched += len(want)
            if self._matched == len(token):
                self._matched = 0
                self._stage += 1
                if self._stage == len(_OPENING):
                    self._open(self._entry, bytes(head), self._offset)
                    return i
        return i

    def _no_envelope(self, data: Data, i: int) -> None:
        """The object opens otherwise: its brace goes out as text, and what was held behind it is searched."""
        rest = bytes(self._head[1:])
        self._head.clear()
        self._state = State.TEXT
        self._sink.text(b"{", 0, 1)
        if (rest.lstrip(b" \t\n\r") or data[i : i + 1])[:1] == b'"':
            self._sink.suspect()
        base, previous = self._base, self._previous
        self._base, self._previous = self._offset + 1, _BRACE
        self._scan(rest)
        self._base, self._previous = base, previous

    def _open(self, entry: Entry | None, head: bytes, offset: int) -> None:
        assert entry is not None  # a value always stands under a name
        self._entry = entry
        self._offset = offset
        self._slashes = 0
        self._state = State.BLOB
        self._sink.open(entry, head, offset)

    def _blob(self, data: Data, i: int, n: int) -> int:
        """Pass base64 on, a window at a time, up to the quote that ends it."""
        part = self._sink.part
        while i < n:
            stop = min(i + _WINDOW, n)
            quote = data.find(b'"', i, stop)
            if quote < 0:
                self._slashes = _odd_backslashes(data, i, stop, self._slashes)
                part(data, i, stop, last=False)
                i = stop
            elif _odd_backslashes(data, i, quote, self._slashes):
                self._slashes = 0
                part(data, i, quote + 1, last=False)
                i = quote + 1
            else:
                part(data, i, quote, last=True)
                self._state = State.TAIL
                self._tail.clear()
                self._tail_offset = self._base + quote + 1
                self._depth = self._slashes = 0
                self._in_string = 0
                return quote + 1
        return i

    def _read_tail(self, data: Data, i: int, n: int) -> int:
        """Collect what follows the base64 up to the brace that closes the envelope."""
        j = self._end_of_tail(data, i, n)
        done = j <= n
        j = min(j, n)
        if done:
            self._state = State.TEXT
        if not self._sink.wants_tails:
            self._sink.text(data, i, j)
        else:
            self._tail += data[i:j]
            if len(self._tail) > self._tail_bytes:
                raise LimitExceeded(f"an envelope has more than {self._tail_bytes} bytes of JSON", offset=self._offset)
        if done:
            self._sink.end(bytes(self._tail), self._tail_offset)
        return j

    def _end_of_tail(self, data: Data, i: int, n: int) -> int:
        """Return the index behind the envelope's closing brace; ``n + 1`` if it is still to come."""
        if not self._tail and self._entry is not None:
            end = data.find(b"}", i, i + _TAIL_WINDOW) + 1
            if end and bytes(data[i:end]) in self._entry.tails:
                return end
        while True:
            if self._in_string:
                quote = data.find(b'"', i, n)
                if quote < 0:
                    self._slashes = _odd_backslashes(data, i, n, self._slashes)
                    return n + 1
                self._in_string = _odd_backslashes(data, i, quote, self._slashes)
                self._slashes = 0
                i = quote + 1
                continue
            match = _STRUCTURE.search(data, i, n)
            if match is None:
                return n + 1
            i = match.end()
            mark = data[i - 1]
            if mark == _QUOTE:
                self._in_string = 1
            elif mark == _BRACE:
                self._depth += 1
            elif self._depth:
                self._depth -= 1
            else:
                return i


def _skip_space(data: Data, i: int) -> int:
    match = _SPACE.match(data, i)
    return match.end() if match else i


def _odd_backslashes(data: Data, i: int, j: int, carried: int) -> int:
    """Return 1 if an odd number of backslashes ends at ``j``, else 0.

    Args:
        data: The piece.
        i: Where the string, or what is left of it in this piece, begins.
        j: Where the backslashes end.
        carried: The same of what stands before ``i``.
    """
    if i < j and data[j - 1] != _BACKSLASH:
        return 0
    run = j - i - len(bytes(data[i:j]).rstrip(b"\\"))
    return (run + (carried if run == j - i else 0)) % 2
