"""Responses of HTTP clients, by duck type: where the body's chunks come from, and how many bytes there are.

Nothing is imported here, and only types are probed: looking at ``.content`` of an instance reads the whole body
(requests) or raises (httpx).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final

from ndwire._octets import BytesLike

PREFER: Final[tuple[str, str]] = ("Prefer", "ndarray=envelope")
"""The request header, name and value, that asks a server for envelopes (RFC 7240)."""

_CHUNK_BYTES: Final = 64 << 10


def is_response(source: object) -> bool:
    """Return whether ``source`` is a response that ``chunks`` knows, rather than an iterable of bytes."""
    kind = type(source)
    return any(hasattr(kind, name) for name in ("iter_bytes", "iter_content", "read1"))


def chunks(response: Any, *, prompt: bool = False) -> Iterable[BytesLike]:
    """Return the chunks of a response's body, decoded as its client decodes them.

    Args:
        response: Of httpx, httpx2, the OpenAI SDK, requests, niquests or urllib3; streaming or read already.
        prompt: Whether each chunk is to come as soon as the client has it, at the price of that client's own errors:
            requests holds back partial chunks, and urllib3's errors come through where they are read past it.

    Raises:
        TypeError: Nothing that is known here.
    """
    kind = type(response)
    if hasattr(kind, "iter_bytes"):
        return response.iter_bytes()  # type: ignore[no-any-return]  # httpx, httpx2, openai
    if hasattr(kind, "iter_content"):
        if _defined_in(kind, "niquests"):
            return response.iter_content(-1)  # type: ignore[no-any-return]  # niquests: as it comes
        raw = response.raw
        if prompt and hasattr(type(raw), "read1") and not getattr(response, "_content_consumed", False):
            return _read1(raw)
        return response.iter_content(_CHUNK_BYTES)  # type: ignore[no-any-return]  # requests
    if hasattr(kind, "read1"):
        return _read1(response)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not a response of an HTTP client that is known here")


def is_async_response(source: object) -> bool:
    """Return whether ``source`` is a response that ``achunks`` knows, rather than an async iterable of bytes."""
    kind = type(source)
    return any(hasattr(kind, name) for name in ("aiter_bytes", "iter_content")) or _is_aiohttp(kind)


def achunks(response: Any) -> AsyncIterable[BytesLike]:
    """Return the chunks of an asynchronous response's body: of httpx, httpx2, openai, aiohttp or niquests.

    Raises:
        TypeError: Nothing that is known here.
    """
    kind = type(response)
    if hasattr(kind, "aiter_bytes"):
        return response.aiter_bytes()  # type: ignore[no-any-return]  # httpx, httpx2, openai
    if _is_aiohttp(kind):
        return _aiohttp(response)
    if hasattr(kind, "iter_content") and inspect.iscoroutinefunction(kind.iter_content):
        return _niquests(response)
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not a response of an async client that is known here")


def body_length(response: Any) -> int | None:
    """Return the number of bytes of the body, where the headers say it and nothing is to be unpacked."""
    headers: Any = getattr(response, "headers", None)
    if headers is None or (headers.get("content-encoding") or "identity").strip().lower() != "identity":
        return None
    length = headers.get("content-length")
    return int(length) if isinstance(length, str) and length.isdecimal() else None


def _defined_in(kind: type, package: str) -> bool:
    return any(base.__module__.partition(".")[0] == package for base in kind.__mro__)


def _is_aiohttp(kind: type) -> bool:
    # Its content is a stream reader; others have a property of that name, which must not be touched.
    return hasattr(kind, "content") and inspect.iscoroutinefunction(getattr(kind, "read", None))


def _read1(response: Any) -> Iterator[bytes]:
    chunk: bytes = response.read1(_CHUNK_BYTES, decode_content=True)
    if not chunk:
        # Nothing left to read: what a preloaded response has read is here.
        yield response.data
    while chunk:
        yield chunk
        chunk = response.read1(_CHUNK_BYTES, decode_content=True)


async def _aiohttp(response: Any) -> AsyncIterator[bytes]:
    if response.content.at_eof():
        yield await response.read()
        return
    async for chunk in response.content.iter_any():
        yield chunk


async def _niquests(response: Any) -> AsyncIterator[bytes]:
    async for chunk in await response.iter_content(-1):
        yield chunk
