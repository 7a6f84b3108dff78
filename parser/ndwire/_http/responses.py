"""Responses of HTTP clients: which one it is, what its headers say, and whether its body is still packed.

A further client is one row of ``_CLIENTS``, and its function in ``clients``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any, Final

from ndwire._contract.errors import CompressedBody, IncompleteBody, MalformedJSON
from ndwire._contract.types import BytesLike
from ndwire._http import clients

PREFER: Final[tuple[str, str]] = ("Prefer", "ndarray=envelope")
"""The request header, name and value, that asks a server for envelopes (RFC 7240)."""

# As many bytes tell text from packed bytes.
_BEGINNING_BYTES: Final = 64
# RFC 8259, section 7: no text in JSON holds them; pages and event streams do not either.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclasses.dataclass(frozen=True, slots=True)
class _Client:
    """How responses of one client are known and read."""

    is_its: Callable[[type], bool]
    chunks: Callable[[Any], Iterable[BytesLike]] | None
    achunks: Callable[[Any], AsyncIterable[BytesLike]] | None


_CLIENTS: Final = (
    _Client(clients.is_httpx, clients.from_httpx, clients.afrom_httpx),
    _Client(clients.is_aiohttp, None, clients.afrom_aiohttp),
    _Client(clients.is_requests, clients.from_requests, None),
    _Client(clients.is_niquests, clients.from_niquests, None),
    _Client(clients.is_async_niquests, None, clients.afrom_niquests),
    _Client(clients.is_urllib3, clients.from_urllib3, None),
    _Client(clients.is_urllib, clients.from_urllib, None),
)
KNOWN_CLIENTS: Final = "httpx, httpx2, aiohttp, requests, niquests, urllib3, urllib or the OpenAI SDK"


class Response:
    """A response of a known client.

    Args:
        response: The response, or what an SDK has wrapped around it.
        client: Its client.
    """

    __slots__ = ("_beginning", "_client", "_response")

    def __init__(self, response: Any, client: _Client) -> None:
        self._response = response
        self._client = client
        self._beginning = b""

    def chunks(self) -> Iterable[BytesLike]:
        """Return the chunks of the body, unpacked as the client unpacks them.

        Raises:
            TypeError: It is an asynchronous response.
            RuntimeError: The body was read already, and is gone.
        """
        if self._client.chunks is None:
            raise TypeError(
                f"{type_name(self._response)} is asynchronous: use aload_response, aiter_sse or aiter_ndjson"
            )
        chunks = self._client.chunks(self._response)
        return chunks if self.coding is None else self._watched(chunks)

    def achunks(self) -> AsyncIterable[BytesLike]:
        """Return the chunks of the body, asynchronously.

        Raises:
            TypeError: It is a synchronous response.
            RuntimeError: The body was read already, and is gone.
        """
        if self._client.achunks is None:
            raise TypeError(f"{type_name(self._response)} is synchronous: use load_response, iter_sse or iter_ndjson")
        chunks = self._client.achunks(self._response)
        return chunks if self.coding is None else self._awatched(chunks)

    async def aclose(self) -> None:
        """Close it, and so its connection if that is within a body."""
        close = getattr(self._response, "aclose", None) or self._response.close
        closing = close()
        if closing is not None:
            await closing

    @property
    def coding(self) -> str | None:
        """The content coding that the headers name, but for the identity."""
        coding: object = self._header("content-encoding")
        if not isinstance(coding, str) or coding.strip().lower() in ("", "identity"):
            return None
        return coding.strip()

    @property
    def content_length(self) -> int | None:
        """The number of bytes of the body, where the headers say it and nothing is to be unpacked."""
        # RFC 9112, section 6.3: beside a transfer coding, the length means nothing.
        if self.coding is not None or self._header("transfer-encoding"):
            return None
        length: object = self._header("content-length")
        return int(length) if isinstance(length, str) and length.isdecimal() else None

    def _header(self, name: str) -> object:
        headers: Any = getattr(self._response, "headers", None)
        return None if headers is None else headers.get(name)

    @contextlib.contextmanager
    def explaining(self) -> Generator[None]:
        """Say of a body that is no JSON if the reason is that the client has not unpacked it."""
        try:
            yield
        except (MalformedJSON, IncompleteBody) as error:
            if _is_text(self._beginning):
                raise
            raise CompressedBody(
                f"the body is still packed as {self.coding}: the client has not unpacked it", offset=0
            ) from error

    def _watched(self, chunks: Iterable[BytesLike]) -> Iterator[BytesLike]:
        for chunk in chunks:
            self._watch(chunk)
            yield chunk

    async def _awatched(self, chunks: Any) -> AsyncIterator[BytesLike]:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                self._watch(chunk)
                yield chunk

    def _watch(self, chunk: BytesLike) -> None:
        self._beginning += bytes(chunk[: _BEGINNING_BYTES - len(self._beginning)])


def response_of(source: Any) -> Response | None:
    """Return ``source`` if it is a response of a known client, or None.

    Raises:
        TypeError: It is what the OpenAI SDK, or one made like it, has parsed.
    """
    # What with_streaming_response and with_raw_response give is a shell around httpx's response.
    response = getattr(source, "http_response", source)
    kind = type(response)
    for client in _CLIENTS:
        if client.is_its(kind):
            return Response(response, client)
    inner = getattr(source, "response", None)
    if hasattr(kind, "__stream__") and clients.is_httpx(type(inner)):
        raise TypeError(
            f"{type_name(source)} gives objects that the SDK has parsed: call the method of .with_streaming_response "
            "instead, and pass the response that it gives"
        )
    return None


def _is_text(beginning: bytes) -> bool:
    try:
        beginning.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the beginning cuts is none of the signs.
        if error.end < len(beginning) or "unexpected end" not in error.reason:
            return False
    return _CONTROL.search(beginning) is None


def type_name(value: object) -> str:
    """Return the name of a value's type, for messages."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
