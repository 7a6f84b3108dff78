"""What the framings of streams have in common, sans-IO: documents that come in pieces, and how a stream ends.

A framing cuts a stream into documents. Each has a parser of its own, which is fed every piece when it comes, so that
arrays are decoded while they arrive. Documents that were complete before a fault are given out first; the next call
raises, and so does every later one.

A framing's phases: OPEN until the stream says that it is over; then ENDING as long as nothing but line ends follows,
and OVER once something else does; CLOSED behind ``close``. Documents come out in OPEN and out of ``close`` only.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable
from typing import Any, Final

from ndwire._contract.errors import WireError, copied
from ndwire._contract.json_text import BYTE_ORDER_MARK
from ndwire._contract.strings import skip_space
from ndwire._contract.types import BytesLike, as_octets
from ndwire._reading.parser import Parser

_DONE: Final = b"[DONE]"
_BLANK: Final = b" \t\r\n"
# A chunk of more bytes is worked through in windows, so that what is copied out of it stays small.
_WINDOW_BYTES: Final = 1 << 20


class Phase(enum.Enum):
    """How far a stream has come; see the module."""

    OPEN = enum.auto()
    ENDING = enum.auto()
    OVER = enum.auto()
    CLOSED = enum.auto()


class Document:
    """One document that comes in pieces.

    Args:
        new_parser: Makes its parser.
    """

    __slots__ = ("_parser", "_plain", "_word")

    def __init__(self, new_parser: Callable[[], Parser]) -> None:
        self._parser = new_parser()
        self._word = b""  # what the document begins with, behind white space: as much as "[DONE]" has
        self._plain = False  # something else than white space stands behind that

    def add(self, piece: bytes) -> None:
        """Append a piece.

        Raises:
            WireError: The document is broken.
        """
        if not self._plain:
            self._look_at(piece)
        self._parser.feed(piece)

    def _look_at(self, piece: bytes) -> None:
        if not self._word and piece.startswith(b"{"):
            self._plain = True
        else:
            start = 0 if self._word else skip_space(piece, 0)
            end = start + len(_DONE) - len(self._word)
            self._word += piece[start:end]
            self._plain = skip_space(piece, end) < len(piece)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing but white space and a byte order mark."""
        return not self._plain and self._word.rstrip(_BLANK) in (b"", BYTE_ORDER_MARK)

    @property
    def is_done(self) -> bool:
        """Whether it says that the stream has ended: ``[DONE]``, and nothing but white space around it."""
        return not self._plain and self._word == _DONE

    def close(self) -> Any:
        """Return the document.

        Raises:
            WireError: It is broken or incomplete.
        """
        return self._parser.close()


class Framing(abc.ABC):
    """Cuts a stream into documents.

    Args:
        new_parser: Makes the parser of one document.

    Attributes:
        phase: How far the stream has come.
    """

    def __init__(self, new_parser: Callable[[], Parser]) -> None:
        self.phase = Phase.OPEN
        self._new_parser = new_parser
        self._document: Document | None = None  # that has begun
        self._failure: WireError | RuntimeError | None = None

    def feed(self, chunk: BytesLike) -> list[Any]:
        """Take the next bytes of the stream; return the documents that they complete.

        Raises:
            WireError: The stream is broken. Where a document is, the offset counts the bytes of that document; where
                the stream itself is, those of the stream.
            RuntimeError: The framing is closed.
            TypeError: ``chunk`` is not bytes-like.
        """
        octets = as_octets(chunk)
        if self.phase is Phase.CLOSED and self._failure is None:
            raise RuntimeError("feed() after close()")
        return self._guarded(self._take, octets)

    def close(self) -> list[Any]:
        """Say that the stream has ended; return the document that it ended with, if that is complete.

        A document may come before an error: close until nothing comes.

        Raises:
            WireError: The last document is broken or cut, or the stream must not end so.
        """
        return self._guarded(self._end, b"")

    def check(self) -> None:
        """Raise the error that stands behind the documents that were given out, if there is one."""
        if isinstance(self._failure, WireError):
            raise copied(self._failure)
        if self._failure is not None:
            raise RuntimeError(str(self._failure))

    def _take(self, octets: BytesLike, out: list[Any]) -> None:
        for start in range(0, len(octets), _WINDOW_BYTES):
            self._scan(bytes(octets[start : start + _WINDOW_BYTES]), out)

    def _end(self, _: BytesLike, out: list[Any]) -> None:
        phase, self.phase = self.phase, Phase.CLOSED
        if phase is Phase.OPEN:
            self._finish(out)

    def _guarded(self, work: Callable[[BytesLike, list[Any]], None], octets: BytesLike) -> list[Any]:
        if self._failure is not None:
            self.check()
        out: list[Any] = []
        try:
            work(octets, out)
        except WireError as error:
            self._failure = copied(error)
            self._document = None
            if not out:
                raise
        except BaseException:
            # Something else than the stream failed, such as the caller's ``allocate``.
            self._failure = RuntimeError("the stream was stopped by an earlier exception")
            self._document = None
            raise
        return out

    @abc.abstractmethod
    def _scan(self, data: bytes, out: list[Any]) -> None: ...

    @abc.abstractmethod
    def _finish(self, out: list[Any]) -> None: ...
