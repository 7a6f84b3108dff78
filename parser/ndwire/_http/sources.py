"""What can be read from: bytes, chunks of bytes, files, and responses of HTTP clients.

Bytes and files are read in pieces of a size that stays in the cache. A file is what has ``read`` and is no response
of a known client; it is never iterated over, since that gives lines.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

from ndwire._contract.types import BytesLike, as_octets
from ndwire._http.responses import KNOWN_CLIENTS, Response, response_of, type_name

_PIECE_BYTES: Final = 256 << 10


class Source:
    """A source of bytes.

    Args:
        source: What the caller passed.

    Raises:
        TypeError: Nothing can be read from it.
    """

    __slots__ = ("_response", "_source")

    def __init__(self, source: Any) -> None:
        self._response: Response | None = response_of(source)
        self._source = source

    def chunks(self) -> Iterable[BytesLike]:
        """Return its chunks.

        Raises:
            TypeError: It is asynchronous, or nothing can be read from it.
            RuntimeError: It is a response whose body is gone.
        """
        source = self._source
        if self._response is not None:
            return self._response.chunks()
        if _is_octets(source):
            return _pieces(source)
        if hasattr(source, "read"):
            return _from_file(getattr(source, "read1", source.read))
        if hasattr(source, "__iter__"):
            return source  # type: ignore[no-any-return]  # each chunk is looked at when it is taken
        if hasattr(source, "__aiter__"):
            raise TypeError(f"{type_name(source)} is asynchronous: use aload, aiter_sse or aiter_ndjson")
        raise _unreadable(source)

    def achunks(self) -> AsyncIterable[BytesLike]:
        """Return its chunks, asynchronously.

        Raises:
            TypeError: It is synchronous, or nothing can be read from it.
            RuntimeError: It is a response whose body is gone.
        """
        source = self._source
        if self._response is not None:
            return self._response.achunks()
        if _is_octets(source):
            return _asynchronous(_pieces(source))
        if hasattr(source, "read"):
            return _afrom_file(source.read)
        if hasattr(source, "__aiter__"):
            return source  # type: ignore[no-any-return]  # each chunk is looked at when it is taken
        if hasattr(source, "__iter__"):
            raise TypeError(f"{type_name(source)} is synchronous: use load, iter_sse or iter_ndjson")
        raise _unreadable(source)

    @contextlib.asynccontextmanager
    async def aopened(self) -> AsyncGenerator[AsyncIterator[BytesLike]]:
        """Give its chunks, asynchronously; close what gives them, unless the caller passed just that."""
        chunks: Any = self.achunks()
        if chunks is self._source:
            yield aiter(chunks)
            return
        async with contextlib.aclosing(chunks):
            yield chunks

    @property
    def content_length(self) -> int | None:
        """The number of bytes, of bytes, and of a response whose headers say it."""
        if self._response is not None:
            return self._response.content_length
        return memoryview(self._source).nbytes if _is_octets(self._source) else None

    def demand_response(self) -> None:
        """Insist on a response, or on what is read like the one that ``urllib`` gives for a file.

        Raises:
            TypeError: It is something else.
        """
        if self._response is None and not hasattr(self._source, "read"):
            raise TypeError(
                f"{type_name(self._source)} is not a response of {KNOWN_CLIENTS}: of other clients, pass the chunks of "
                "the body to load, aload, iter_sse or iter_ndjson"
            )

    def explaining(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which errors say more, where a response tells more."""
        if self._response is None or self._response.coding is None:
            return contextlib.nullcontext()
        return self._response.explaining()

    async def aclose(self) -> None:
        """Close a response; other sources are the caller's."""
        if self._response is not None:
            await self._response.aclose()


def _is_octets(source: Any) -> bool:
    try:
        memoryview(source)
    except TypeError:
        if isinstance(source, str):
            as_octets(source, "the source")  # which says what to pass
        return False
    return True


def _pieces(source: BytesLike) -> Iterator[BytesLike]:
    view = memoryview(as_octets(source))
    for start in range(0, len(view), _PIECE_BYTES):
        yield bytes(view[start : start + _PIECE_BYTES])


async def _asynchronous(chunks: Iterator[BytesLike]) -> AsyncIterator[BytesLike]:
    for chunk in chunks:
        yield chunk


def _from_file(read: Callable[[int], Any]) -> Iterator[BytesLike]:
    while True:
        piece = read(_PIECE_BYTES)
        if inspect.isawaitable(piece):
            if inspect.iscoroutine(piece):
                piece.close()
            raise TypeError("the file is asynchronous: use aload, aiter_sse or aiter_ndjson")
        octets = _octets_of_file(piece)
        if not octets:
            return
        yield octets


async def _afrom_file(read: Callable[[int], Any]) -> AsyncIterator[BytesLike]:
    while True:
        piece = read(_PIECE_BYTES)
        octets = _octets_of_file(await piece if inspect.isawaitable(piece) else piece)
        if not octets:
            return
        yield octets


def _octets_of_file(piece: Any) -> BytesLike:
    if isinstance(piece, str):
        raise TypeError('the file gives text: open it with "rb"')
    return as_octets(piece, "what the file gives")


def _unreadable(source: object) -> TypeError:
    return TypeError(
        f"{type_name(source)} is nothing to read from: pass bytes, an iterable of bytes, a file that was opened with "
        f'"rb", or a response of {KNOWN_CLIENTS}; of other clients, the iterable of chunks that they have'
    )
