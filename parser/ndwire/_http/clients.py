"""How each HTTP client gives the body of a response: promptly, unpacked, and with its own errors.

No client is imported here. What is probed is the type: looking at ``.content`` of a response reads the whole body
(requests) or raises (httpx). A response whose body was read and not kept is a ``RuntimeError``, where that can be seen.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final

from ndwire._contract.errors import IncompleteBody
from ndwire._contract.types import BytesLike

_CHUNK_BYTES: Final = 64 << 10
# What requests makes of the errors of urllib3; subclasses count.
_REQUESTS_ERRORS: Final = (
    ("ProtocolError", "ChunkedEncodingError"),
    ("DecodeError", "ContentDecodingError"),
    ("ReadTimeoutError", "ConnectionError"),
    ("SSLError", "SSLError"),
)
# Responses to which there is no body (RFC 9110, section 6.4.1).
_BODILESS: Final = (204, 304)


def is_httpx(kind: type) -> bool:
    """Return whether it is a response of httpx or httpx2."""
    return hasattr(kind, "iter_bytes") and hasattr(kind, "aiter_bytes")


def is_aiohttp(kind: type) -> bool:
    """Return whether it is a response of aiohttp.

    Its content is a stream reader; others have a property of that name, which must not be touched.
    """
    return hasattr(kind, "content") and inspect.iscoroutinefunction(getattr(kind, "read", None))


def is_requests(kind: type) -> bool:
    """Return whether it is a response of requests."""
    return hasattr(kind, "iter_content") and _comes_from(kind, "requests")


def is_niquests(kind: type) -> bool:
    """Return whether it is a response of niquests."""
    return hasattr(kind, "iter_content") and _comes_from(kind, "niquests") and not is_async_niquests(kind)


def is_async_niquests(kind: type) -> bool:
    """Return whether it is an asynchronous response of niquests."""
    return _comes_from(kind, "niquests") and inspect.iscoroutinefunction(getattr(kind, "iter_content", None))


def is_urllib3(kind: type) -> bool:
    """Return whether it is a response of urllib3, or of the urllib3-future that may have taken its place."""
    return hasattr(kind, "read1") and hasattr(kind, "read_chunked")


def is_urllib(kind: type) -> bool:
    """Return whether it is a response of the standard library."""
    return hasattr(kind, "read1") and hasattr(kind, "getheader") and not is_urllib3(kind)


def _comes_from(kind: type, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in kind.__mro__)


def from_httpx(response: Any) -> Iterable[BytesLike]:
    """Return the chunks of httpx or httpx2, whose error for a body that is gone is a ``RuntimeError``."""
    return response.iter_bytes()  # type: ignore[no-any-return]  # their types are not known here


def afrom_httpx(response: Any) -> AsyncIterable[BytesLike]:
    """Return the chunks of httpx or httpx2, asynchronously."""
    return response.aiter_bytes()  # type: ignore[no-any-return]  # their types are not known here


def from_urllib3(response: Any) -> Iterator[bytes]:
    """Yield the chunks of urllib3 as they arrive; ``stream`` would wait for full ones."""
    if response.closed:
        # Preloaded, or read.
        body: bytes = response.data or b""
        if not body and response.tell():
            raise body_is_gone()
        yield body
        return
    n_read = -1
    while True:
        chunk: bytes = response.read1(_CHUNK_BYTES, decode_content=True)
        if chunk:
            yield chunk
            continue
        # urllib3-future gives nothing for bytes that unpack to nothing. They have moved its position.
        if response.closed or response.tell() == n_read:
            return
        n_read = response.tell()


def from_requests(response: Any) -> Iterable[BytesLike]:
    """Return the chunks of requests.

    Its own ``iter_content`` holds back partial chunks; so urllib3 is read past it, and its errors are renamed.
    """
    _see_that_it_is_kept(response)
    if getattr(response, "_content_consumed", False) or not is_urllib3(type(response.raw)):
        return response.iter_content(_CHUNK_BYTES)  # type: ignore[no-any-return]  # its types are not known here
    return _with_errors_of_requests(from_urllib3(response.raw))


def _with_errors_of_requests(chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        for low, high in _REQUESTS_ERRORS:
            if low in names:
                raise getattr(sys.modules["requests.exceptions"], high)(error) from error
        raise


def from_niquests(response: Any) -> Iterable[BytesLike]:
    """Return the chunks of niquests, as they arrive."""
    _see_that_it_is_kept(response)
    return response.iter_content(-1)  # type: ignore[no-any-return]  # its types are not known here


async def afrom_niquests(response: Any) -> AsyncIterator[bytes]:
    """Yield the chunks of an asynchronous response of niquests."""
    _see_that_it_is_kept(response)
    async with contextlib.aclosing(await response.iter_content(-1)) as chunks:
        async for chunk in chunks:
            yield chunk


def _see_that_it_is_kept(response: Any) -> None:
    # requests and niquests: a body that was streamed leaves a bool in the place of the content.
    if getattr(response, "_content_consumed", False) and isinstance(getattr(response, "_content", None), bool):
        raise body_is_gone()


async def afrom_aiohttp(response: Any) -> AsyncIterator[bytes]:
    """Yield the chunks of aiohttp; iterating over its content would give lines."""
    content = response.content
    if not content.at_eof():
        async for chunk in content.iter_any():
            yield chunk
        return
    body: bytes = await response.read()
    if not body and content.total_bytes:
        raise body_is_gone()
    yield body


def from_urllib(response: Any) -> Iterator[bytes]:
    """Yield the chunks of the standard library's client as they arrive."""
    empty = (
        response.status in _BODILESS
        or response.getheader("content-length") == "0"
        or getattr(response, "_method", None) == "HEAD"
    )
    if not empty and (response.isclosed() or response.length == 0):
        raise body_is_gone()
    n_bytes = 0
    while chunk := response.read1(_CHUNK_BYTES):
        n_bytes += len(chunk)
        yield chunk
    if response.length:
        # The one client that says nothing of it.
        raise IncompleteBody(f"the body ends early: {response.length} more bytes were announced", offset=n_bytes)


def body_is_gone() -> RuntimeError:
    """Return the error for a response that can give its body only once."""
    return RuntimeError("the body of this response was read already, and its client has not kept it")
