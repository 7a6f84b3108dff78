"""Server-sent events, sans-IO.

A line goes through these states. LINE: at its beginning; LF behind a CR still belongs to the line before. NAME: within
a field's name, which a colon or the line's end ends. SPACE: behind the colon, where one space may stand. Then the
value, until the line's end: DATA goes to the document of the event, VALUE is kept (``event``, ``id``), REST is passed
over (``retry``, unknown fields). COMMENT: within a comment, or between comments and blank lines when no event is under
way; runs of them are skipped by one search.

A blank line ends the event. Lines of fields that the standard does not know are ignored there. Here, a stream that
ends with such lines behind its last document is refused: a gateway's page, or an error that is sent as it is, would
otherwise look like a stream without events.

Source: the WHATWG HTML standard, section 9.2: lines end with CR, LF or CRLF, a byte order mark is skipped, several
``data`` lines are joined by LF. An event that the end of the stream cuts is dropped there. Here its document counts if
it is complete, and is an error if not.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from ndwire._contract.errors import IncompleteBody, LimitExceeded, MalformedJSON
from ndwire._contract.json_text import BYTE_ORDER_MARK
from ndwire._contract.strings import end_of_line
from ndwire._http.framing import Document, Framing, Phase
from ndwire._reading.parser import Parser

_CR: Final = ord("\r")
_LF: Final = ord("\n")
_COLON: Final = ord(":")
_SPACE: Final = ord(" ")
_NAME_END: Final = re.compile(rb"[:\r\n]")
_NO_LINE_END: Final = re.compile(rb"[^\r\n]")
# The end of a run of comments within an event: the line end behind which neither another one nor its own LF stands.
_COMMENTS_END: Final = re.compile(rb"\r(?![\n:])|\n(?!:)")
# The same where no event is under way, so that blank lines mean nothing.
_QUIET_END: Final = re.compile(rb"[\r\n](?![\r\n:])")
_KNOWN: Final = (b"data", b"event", b"id", b"retry")
# What is kept of a field's name, and of lines that are no fields: enough to say what they are.
_STRAY_BYTES: Final = 120

Done = Literal["optional", "required"]
"""Whether a stream has to end with ``data: [DONE]``."""


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


class _State(enum.Enum):
    LINE = enum.auto()
    NAME = enum.auto()
    SPACE = enum.auto()
    DATA = enum.auto()
    VALUE = enum.auto()
    REST = enum.auto()
    COMMENT = enum.auto()


class Chunk:
    """Bytes of the stream.

    Args:
        data: The bytes.
        offset: The first of them in the stream.
    """

    __slots__ = ("data", "end", "offset")

    def __init__(self, data: bytes, offset: int) -> None:
        self.data = data
        self.end = len(data)
        self.offset = offset


class _Stray:
    """The beginning of lines that are no fields of an event stream.

    Args:
        offset: Where in the stream they begin.
        beginning: Their first bytes.
    """

    __slots__ = ("beginning", "offset")

    def __init__(self, offset: int, beginning: bytes) -> None:
        self.offset = offset
        self.beginning = beginning

    def add(self, data: bytes, i: int) -> None:
        """Take what follows, as far as it is worth keeping."""
        self.beginning += data[i : i + _STRAY_BYTES - len(self.beginning)]


class EventStream(Framing):
    """Cuts a stream of server-sent events into documents.

    Comments and events without data are skipped; ``data: [DONE]`` ends the stream.

    Args:
        new_parser: Makes the parser of one event's document.
        value_bytes: What an event's type or id may have.
        events: Whether to give ``ServerSentEvent`` instead of bare documents.
        done: Whether a stream that ends without ``[DONE]`` is an ``IncompleteBody``.

    Raises:
        ValueError: ``done`` is neither of its values.
    """

    def __init__(
        self, new_parser: Callable[[], Parser], *, value_bytes: int, events: bool = False, done: Done = "optional"
    ) -> None:
        if done not in ("optional", "required"):
            raise ValueError(f'done must be "optional" or "required", not {done!r}')
        super().__init__(new_parser)
        self._value_bytes = value_bytes
        self._events = events
        self._done_required = done == "required"
        self._n_bytes = 0  # of the stream, before the chunk at hand
        self._state = _State.LINE
        self._after_cr = False
        self._line_offset = 0
        self._name = b""
        self._value_state = _State.REST  # behind SPACE
        self._value = bytearray()
        self._value_offset = 0
        self._under_way = False  # an event: a field of it has begun
        self._event = ""
        self._id = ""
        self._stray: _Stray | None = None  # behind the last document
        self._says_something = False  # there was a field or a comment

    def _scan(self, data: bytes, out: list[Any]) -> None:
        chunk = Chunk(data, self._n_bytes)
        if self._stray is not None:
            self._stray.add(data, 0)
        i = 0
        while i < chunk.end and self.phase is Phase.OPEN:
            i = self._step(chunk, i, out)
        if self.phase is Phase.ENDING and _NO_LINE_END.search(data, i):
            self.phase = Phase.OVER
        self._n_bytes += chunk.end

    def _step(self, chunk: Chunk, i: int, out: list[Any]) -> int:
        """Go on at ``i``; return where the next state goes on. A state whose successor can go on at once calls it."""
        match self._state:
            case _State.LINE:
                return self._line(chunk, i, out)
            case _State.NAME:
                return self._field_name(chunk, i)
            case _State.SPACE:
                return self._space(chunk, i)
            case _State.COMMENT:
                return self._comment(chunk, i)
            case _:
                return self._field_value(chunk, i)

    def _line(self, chunk: Chunk, i: int, out: list[Any]) -> int:
        byte = chunk.data[i]
        after_cr, self._after_cr = self._after_cr, False
        if after_cr and byte == _LF:
            return i + 1
        blank = byte in (_CR, _LF)
        if blank and self._under_way:
            self._dispatch(out)
            return self._end_line(chunk, i)
        if blank or byte == _COLON:
            self._state = _State.COMMENT
            return i
        self._state = _State.NAME
        self._name = b""
        self._line_offset = chunk.offset + i
        return self._field_name(chunk, i)

    def _comment(self, chunk: Chunk, i: int) -> int:
        match = (_COMMENTS_END if self._under_way else _QUIET_END).search(chunk.data, i)
        end = chunk.end if match is None else match.start()
        self._says_something = self._says_something or chunk.data.find(b":", i, end) >= 0
        return chunk.end if match is None else self._end_line(chunk, end)

    def _field_name(self, chunk: Chunk, i: int) -> int:
        match = _NAME_END.search(chunk.data, i)
        end = chunk.end if match is None else match.start()
        self._name += chunk.data[i : min(end, i + _STRAY_BYTES - len(self._name))]
        if match is None:
            return end
        name = self._bare_name()
        colon = chunk.data[end] == _COLON
        if not name:
            # The byte order mark stood alone, or before a comment.
            self._state = _State.COMMENT if colon else _State.LINE
            return end
        self._says_something = True
        if name not in _KNOWN and self._stray is None:
            self._stray = _Stray(self._line_offset, self._name)
            self._stray.add(chunk.data, end)
        self._value_state = self._begin_value(name)
        self._value_offset = chunk.offset + end + 1
        if not colon:
            self._state = self._value_state
            return end
        self._state = _State.SPACE
        return self._space(chunk, end + 1) if end + 1 < chunk.end else chunk.end

    def _space(self, chunk: Chunk, i: int) -> int:
        self._state = self._value_state
        if chunk.data[i] == _SPACE:
            i += 1
        return self._field_value(chunk, i) if i < chunk.end else i

    def _bare_name(self) -> bytes:
        return self._name.removeprefix(BYTE_ORDER_MARK) if self._line_offset == 0 else self._name

    def _begin_value(self, name: bytes) -> _State:
        """Return the state that the value of a field is read in."""
        if name == b"data":
            self._under_way = True
            if self._document is None:
                self._document = Document(self._new_parser)
            else:
                self._document.add(b"\n")
            return _State.DATA
        if name in (b"event", b"id"):
            self._under_way = True
            self._value.clear()
            return _State.VALUE
        return _State.REST

    def _field_value(self, chunk: Chunk, i: int) -> int:
        end = end_of_line(chunk.data, i, chunk.end)
        if self._state is _State.DATA:
            assert self._document is not None  # made where the state was entered
            if i < end:
                self._document.add(chunk.data[i:end])
        elif self._state is _State.VALUE:
            if len(self._value) + end - i > self._value_bytes:
                raise LimitExceeded(
                    f"an event's type or id has more than {self._value_bytes} bytes", offset=self._value_offset
                )
            self._value += chunk.data[i:end]
        if end == chunk.end:
            return end
        if self._state is _State.VALUE:
            self._set_value()
        return self._end_line(chunk, end)

    def _set_value(self) -> None:
        text = self._value.decode("utf-8", "replace")
        if self._bare_name() == b"event":
            self._event = text
        elif "\0" not in text:
            self._id = text

    def _end_line(self, chunk: Chunk, i: int) -> int:
        """A line ends at ``i``."""
        self._state = _State.LINE
        self._after_cr = chunk.data[i] == _CR
        return i + 1

    def _dispatch(self, out: list[Any]) -> None:
        document, self._document = self._document, None
        event, self._event = self._event or "message", ""
        self._under_way = False
        if document is None or document.is_blank:
            return
        if document.is_done:
            self._refuse_stray()
            self.phase = Phase.ENDING
            return
        self._stray = None
        data = document.close()
        out.append(ServerSentEvent(data, event, self._id) if self._events else data)

    def _finish(self, out: list[Any]) -> None:
        cut = self._under_way and (self._document is None or self._document.is_blank)
        if self._state is _State.NAME and (name := self._bare_name()):
            if any(known.startswith(name) for known in _KNOWN):
                cut = True
            elif self._stray is None:
                self._stray = _Stray(self._line_offset, self._name)
        self._dispatch(out)
        if self.phase is Phase.ENDING:
            self.phase = Phase.CLOSED
            return
        self._refuse_stray()
        if self._n_bytes and not self._says_something and not cut:
            raise MalformedJSON("not an event stream: there is nothing but line ends", offset=0)
        if cut:
            raise IncompleteBody("the stream ends within an event", offset=self._n_bytes)
        if self._done_required:
            raise IncompleteBody("the stream ends without data: [DONE]", offset=self._n_bytes)

    def _refuse_stray(self) -> None:
        if self._stray is not None:
            text = self._stray.beginning.decode("utf-8", "replace")
            raise MalformedJSON(f"not an event stream: no event follows {text!r}", offset=self._stray.offset)
