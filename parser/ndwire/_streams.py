"""Bodies that come in chunks: the loops around the parser and the framings."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final, Unpack

from ndwire import _responses
from ndwire._events import Done, EventStream
from ndwire._field import Field
from ndwire._framing import Framing, Phase
from ndwire._limits import Limits
from ndwire._ndjson import NDJSON
from ndwire._octets import BytesLike
from ndwire._parser import Parser, ReadOptions

_DEFAULT_LIMITS: Final = Limits()


def load(
    chunks: Iterable[BytesLike],
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    **options: Unpack[ReadOptions],
) -> Any:
    """Read a body that comes in chunks; the arrays are decoded while they arrive.

    Args:
        chunks: Pieces of the body, of any size.
        fields: The registered fields.
        content_length: As for ``Parser``.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken or ended early.
    """
    parser = Parser(fields, content_length=content_length, **options)
    for chunk in chunks:
        parser.feed(chunk)
    return parser.close()


async def aload(
    chunks: AsyncIterable[BytesLike],
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    **options: Unpack[ReadOptions],
) -> Any:
    """Read a body that comes in chunks, asynchronously. See ``load``."""
    parser = Parser(fields, content_length=content_length, **options)
    async for chunk in chunks:
        parser.feed(chunk)
    return parser.close()


def load_response(response: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Any:
    """Read the body of a response while it arrives.

    The status is the caller's business and is not looked at: a gateway's error page is a retryable ``MalformedJSON``.

    Args:
        response: A response of httpx, httpx2, requests, niquests, urllib3 or the OpenAI SDK, by duck type. Opened as a
            stream it is decoded while it arrives; one that was read already works too. Compressed bodies are unpacked
            by the client.
        fields: The registered fields.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken or ended early.
        TypeError: A response of no client that is known here.
    """
    return load(_responses.chunks(response), fields, content_length=_responses.body_length(response), **options)


async def aload_response(response: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Any:
    """Read the body of an asynchronous response while it arrives.

    It is one of httpx, httpx2, aiohttp, niquests or the OpenAI SDK. See ``load_response``.
    """
    return await aload(_responses.achunks(response), fields, content_length=_responses.body_length(response), **options)


def iter_sse(
    source: Any,
    fields: Iterable[Field],
    *,
    events: bool = False,
    done: Done = "optional",
    **options: Unpack[ReadOptions],
) -> Iterator[Any]:
    """Read a stream of server-sent events; arrays are decoded while their event arrives.

    Comments and events without data are skipped, and ``data: [DONE]`` ends the stream.

    Args:
        source: A response as for ``load_response``, or an iterable of chunks.
        fields: The registered fields.
        events: Whether to give ``ServerSentEvent(data, event, id)``, whose ``data`` is the document.
        done: ``"required"`` for servers that always send ``[DONE]``: a proxy that cuts a stream between two events
            leaves no other sign.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``, for each event. An event's type and
            id are bounded by ``limits.remainder_bytes`` as well.

    Yields:
        The document of each event, as soon as it is complete.

    Raises:
        WireError: An event is broken, and the offset counts the bytes of its data; or the stream is, and the offset
            counts those of the stream: it ends within an event, or without the ``[DONE]`` that is required
            (``IncompleteBody``), or with lines that are no events, such as a gateway's page (``MalformedJSON``).

    Source: WHATWG HTML, section 9.2.
    """
    return _documents(_event_stream(fields, options, events=events, done=done), source)


def aiter_sse(
    source: Any,
    fields: Iterable[Field],
    *,
    events: bool = False,
    done: Done = "optional",
    **options: Unpack[ReadOptions],
) -> AsyncIterator[Any]:
    """Read a stream of server-sent events, asynchronously. See ``iter_sse``."""
    return _adocuments(_event_stream(fields, options, events=events, done=done), source)


def iter_ndjson(source: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Iterator[Any]:
    """Read a stream of one document per line; arrays are decoded while their line arrives. Blank lines are skipped.

    Args:
        source: A response as for ``load_response``, or an iterable of chunks.
        fields: The registered fields.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``, for each line.

    Yields:
        A document, as soon as its line is complete.

    Raises:
        WireError: A line is broken, or the stream ends within one. The offset counts the bytes of the line.
    """
    return _documents(_lines(fields, options), source)


def aiter_ndjson(source: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> AsyncIterator[Any]:
    """Read a stream of one document per line, asynchronously. See ``iter_ndjson``."""
    return _adocuments(_lines(fields, options), source)


def _event_stream(fields: Iterable[Field], options: ReadOptions, *, events: bool, done: Done) -> EventStream:
    return EventStream(_factory(fields, options), value_bytes=_remainder_bytes(options), events=events, done=done)


def _lines(fields: Iterable[Field], options: ReadOptions) -> NDJSON:
    return NDJSON(_factory(fields, options), line_bytes=_remainder_bytes(options))


def _factory(fields: Iterable[Field], options: ReadOptions) -> functools.partial[Parser]:
    return functools.partial(Parser, tuple(fields), **options)


def _remainder_bytes(options: ReadOptions) -> int:
    return options.get("limits", _DEFAULT_LIMITS).remainder_bytes


def _documents(framing: Framing, source: Any) -> Iterator[Any]:
    chunks = _responses.chunks(source, prompt=True) if _responses.is_response(source) else source
    for chunk in chunks:
        yield from framing.feed(chunk)
        framing.check()
        if framing.phase is not Phase.OPEN:
            break
    yield from framing.close()
    framing.check()


async def _adocuments(framing: Framing, source: Any) -> AsyncIterator[Any]:
    chunks = _responses.achunks(source) if _responses.is_async_response(source) else source
    async for chunk in chunks:
        for document in framing.feed(chunk):
            yield document
        framing.check()
        if framing.phase is not Phase.OPEN:
            break
    for document in framing.close():
        yield document
    framing.check()
