"""Streams of documents: server-sent events and NDJSON, sans-IO.

Both cut a stream into documents. Each has a parser of its own; one that goes on in the next chunk is fed what is there
before the chunk goes, so that its arrays are decoded while it arrives. Documents that were complete before a fault are
given out first, and the next call raises.

Source: the WHATWG HTML standard, section 9.2 (event streams): lines end with CR, LF or CRLF, a byte order mark is
skipped, several ``data`` lines are joined by LF, a blank line ends the event.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ndwire._errors import WireError, copied
from ndwire._octets import BytesLike
from ndwire._parser import Parser
from ndwire._strings import end_of_line

_LF: Final = ord("\n")
_FIELD_END: Final = re.compile(rb"[:\r\n]")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n"
_DONE: Final = b"[DONE]"
_HEAD_BYTES: Final = 16
# More of a field's name, or of a mark before it, need not be kept: no known one is as long.
_NAME_BYTES: Final = 16


class ServerSentEvent(NamedTuple):
    """One event of a stream.

    Attributes:
        data: Its document, with arrays where the registered names hold them.
        event: Its type; ``"message"`` where the stream does not say.
        id: The last event id that the stream has set.
    """

    data: Any
    event: str
    id: str


class _Document:
    """One document that comes in pieces."""

    __slots__ = ("_head", "_new_parser", "_parser", "_pieces")

    def __init__(self, new_parser: Callable[[], Parser]) -> None:
        self._new_parser = new_parser
        self._parser: Parser | None = None
        self._pieces: list[bytes] = []
        self._head = b""  # enough of it, behind white space, to know a blank or a closing one

    def add(self, piece: bytes) -> None:
        """Append a piece, which is kept until ``settle``."""
        if len(self._head) < _HEAD_BYTES:
            self._head += (piece if self._head else piece.lstrip(_BLANK))[:_HEAD_BYTES]
        self._pieces.append(piece)

    def settle(self) -> None:
        """The document goes on in the next chunk: decode what is there of it."""
        if self._pieces:
            if self._parser is None:
                self._parser = self._new_parser()
            for piece in self._pieces:
                self._parser.feed(piece)
            self._pieces.clear()

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space."""
        return not self._head

    @property
    def is_done(self) -> bool:
        """Whether it says that the stream has ended."""
        return self._head.rstrip(_BLANK) == _DONE

    def close(self) -> Any:
        """Return the document.

        Raises:
            WireError: It is broken or incomplete.
        """
        self.settle()
        return self._parser.close() if self._parser is not None else None


class Framing(abc.ABC):
    """Cuts a stream into documents.

    Args:
        new_parser: Makes the parser of one document.

    Attributes:
        done: Whether the stream has said that it is over; what follows is not read.
    """

    def __init__(self, new_parser: Callable[[], Parser]) -> None:
        self.done = False
        self._new_parser = new_parser
        self._document = _Document(new_parser)
        self._failure: WireError | None = None

    def feed(self, chunk: BytesLike) -> list[Any]:
        """Take the next bytes of the stream; return what they complete.

        Raises:
            WireError: A document is broken. Its offset counts the bytes of the document.
        """
        out: list[Any] = []

        def work() -> None:
            self._scan(bytes(chunk), out)
            self._document.settle()

        return self._guarded(work, out)

    def close(self) -> list[Any]:
        """Say that the stream has ended; return the document that it ended with, if that is complete.

        Raises:
            WireError: The last document is broken or cut.
        """
        out: list[Any] = []
        return self._guarded(lambda: self._finish(out), out)

    def _guarded(self, work: Callable[[], None], out: list[Any]) -> list[Any]:
        if self._failure is not None:
            raise copied(self._failure)
        if not self.done:
            try:
                work()
            except WireError as error:
                self._failure = copied(error)
                if not out:
                    raise
        return out

    def _next_document(self) -> _Document:
        """Return the document that has ended, and begin another."""
        document, self._document = self._document, _Document(self._new_parser)
        return document

    @abc.abstractmethod
    def _scan(self, data: bytes, out: list[Any]) -> None: ...

    @abc.abstractmethod
    def _finish(self, out: list[Any]) -> None: ...


class NDJSON(Framing):
    """One document per line. Blank lines are skipped."""

    def _scan(self, data: bytes, out: list[Any]) -> None:
        start = 0
        end = data.find(b"\n")
        while end >= 0:
            self._document.add(data[start:end])
            self._finish(out)
            start = end + 1
            end = data.find(b"\n", start)
        if start < len(data):
            self._document.add(data[start:])

    def _finish(self, out: list[Any]) -> None:
        document = self._next_document()
        if not document.is_blank:
            out.append(document.close())


class EventStream(Framing):
    """Server-sent events. Comments and events without data are skipped; ``data: [DONE]`` ends the stream.

    The name, then the value of each line go through three states: the name until a colon or the line's end; behind the
    colon one space that may stand there; the value until the line's end.

    Args:
        new_parser: Makes the parser of one event's document.
        events: Whether to give ``ServerSentEvent`` instead of bare documents.
    """

    def __init__(self, new_parser: Callable[[], Parser], *, events: bool = False) -> None:
        super().__init__(new_parser)
        self._events = events
        self._name = b""  # of the field, as far as it is there
        self._value: bytes | None = None  # of a field other than data, as far as it is there
        self._in_value = False
        self._at_value_start = False
        self._colon = False
        self._in_data = False
        self._has_data = False
        self._skip_lf = False
        self._first_line = True
        self._event = ""
        self._id = ""

    def _scan(self, data: bytes, out: list[Any]) -> None:
        i = 0
        n = len(data)
        while i < n and not self.done:
            if self._skip_lf:
                self._skip_lf = False
                if data[i] == _LF:
                    i += 1
                    continue
            if not self._in_value:
                i = self._field_name(data, i, n, out)
                continue
            if self._at_value_start:
                self._at_value_start = False
                if data[i : i + 1] == b" ":
                    i += 1
                    continue
            end = end_of_line(data, i, n)
            if self._in_data:
                self._document.add(data[i:end])
            elif self._value is not None:
                self._value += data[i:end]
            i = end
            if i < n:
                i = self._end_line(data, i, out)

    def _field_name(self, data: bytes, i: int, n: int, out: list[Any]) -> int:
        match = _FIELD_END.search(data, i)
        end = match.start() if match else n
        self._name = (self._name + data[i : min(end, i + _NAME_BYTES)])[:_NAME_BYTES]
        if match is None:
            return n
        self._begin_value()
        if match[0] == b":":
            self._colon = self._at_value_start = True
            return end + 1
        return self._end_line(data, end, out)

    def _begin_value(self) -> None:
        if self._first_line:
            self._name = self._name.removeprefix(_BYTE_ORDER_MARK)
            self._first_line = False
        self._in_value = True
        self._in_data = self._name == b"data"
        self._value = b"" if self._name in (b"event", b"id") else None
        if self._in_data:
            if self._has_data:
                self._document.add(b"\n")
            self._has_data = True

    def _end_line(self, data: bytes, i: int, out: list[Any]) -> int:
        """A line ends at ``i``; return the index behind its CR or LF."""
        # The line is blank if it has neither a name nor a colon; a comment has no name, but a colon.
        blank = not self._name and not self._colon
        if self._value is not None:
            text = self._value.decode("utf-8", "replace")
            if self._name == b"event":
                self._event = text
            elif "\0" not in text:
                self._id = text
        self._name = b""
        self._value = None
        self._in_value = self._in_data = self._at_value_start = self._colon = False
        self._skip_lf = data[i] != _LF
        if blank:
            self._dispatch(out)
        return i + 1

    def _dispatch(self, out: list[Any]) -> None:
        document = self._next_document()
        event, self._event = self._event or "message", ""
        self._has_data = False
        if document.is_done:
            self.done = True
        elif not document.is_blank:
            data = document.close()
            out.append(ServerSentEvent(data, event, self._id) if self._events else data)

    def _finish(self, out: list[Any]) -> None:
        # The standard drops an event that no blank line ends. A complete document is worth keeping, and one that is
        # cut must not pass for the end of the stream.
        self._dispatch(out)
