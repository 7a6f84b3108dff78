"""Sources that are read to their end: the loops around the parser and the framings."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import Any, Final, Unpack

from ndwire._contract.field import Field
from ndwire._contract.limits import Limits
from ndwire._contract.types import BytesLike
from ndwire._http.events import Done, EventStream
from ndwire._http.framing import Framing, Phase
from ndwire._http.ndjson import NDJSON
from ndwire._http.sources import Source
from ndwire._reading.parser import Parser, ReadOptions

_DEFAULT_LIMITS: Final = Limits()
_DRAIN_SECONDS: Final = 1.0


def load(
    source: Any,
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    **options: Unpack[ReadOptions],
) -> Any:
    """Read a body that comes in chunks; the arrays are decoded while they arrive.

    Args:
        source: An iterable of chunks of any size; bytes; a file that was opened with ``"rb"``, or anything else with a
            ``read`` that gives bytes; or a response as for ``load_response``.
        fields: The registered fields.
        content_length: As for ``Parser``. Responses and bytes say it themselves.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken or ended early.
        TypeError: Nothing can be read from ``source``, or what it gives is not bytes-like.
        RuntimeError: A response whose body was read already, and is gone.
    """
    origin = Source(source)
    length = origin.content_length if content_length is None else content_length
    parser = Parser(fields, content_length=length, **options)
    with origin.explaining():
        for chunk in origin.chunks():
            parser.feed(chunk)
        return parser.close()


async def aload(
    source: Any,
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    **options: Unpack[ReadOptions],
) -> Any:
    """Read a body that comes in chunks, asynchronously. See ``load``.

    The source is an asynchronous iterable of chunks, a file with an asynchronous ``read`` (that of a synchronous one is
    called in the event loop), bytes, or an asynchronous response.
    """
    origin = Source(source)
    length = origin.content_length if content_length is None else content_length
    parser = Parser(fields, content_length=length, **options)
    with origin.explaining():
        async with origin.aopened() as chunks:
            async for chunk in chunks:
                parser.feed(chunk)
        return parser.close()


def load_response(response: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Any:
    """Read the body of a response while it arrives.

    The status is the caller's business and is not looked at: a gateway's error page is a retryable ``MalformedJSON``.

    Args:
        response: A response of httpx, httpx2, requests, niquests, urllib3, urllib or the OpenAI SDK (what its
            ``with_streaming_response`` and ``with_raw_response`` give), by duck type. Opened as a stream it is decoded
            while it arrives; one that was read already works too, where its client has kept the body. Compressed
            bodies are unpacked by the client.
        fields: The registered fields.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken or ended early. ``CompressedBody``: the client has not unpacked it.
        TypeError: A response of no client that is known here, or an asynchronous one.
        RuntimeError: The body was read already, and is gone.
    """
    Source(response).demand_response()
    return load(response, fields, **options)


async def aload_response(response: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Any:
    """Read the body of an asynchronous response while it arrives.

    It is one of httpx, httpx2, aiohttp, niquests or the OpenAI SDK. See ``load_response``.
    """
    Source(response).demand_response()
    return await aload(response, fields, **options)


def iter_sse(
    source: Any,
    fields: Iterable[Field],
    *,
    events: bool = False,
    done: Done = "optional",
    drain: bool = True,
    **options: Unpack[ReadOptions],
) -> Iterator[Any]:
    """Read a stream of server-sent events; arrays are decoded while their event arrives.

    Comments and events without data are skipped, and ``data: [DONE]`` ends the stream.

    Args:
        source: As for ``load``.
        fields: The registered fields.
        events: Whether to give ``ServerSentEvent(data, event, id)``, whose ``data`` is the document.
        done: ``"required"`` for servers that always send ``[DONE]``: a proxy that cuts a stream between two events
            leaves no other sign.
        drain: Whether the body is read on behind ``[DONE]``, once all documents were given: to its end, so that the
            connection can serve again, or to the first bytes that are no line ends. Asynchronously that
            takes a second at most, then the response is closed. Synchronous clients have only their own
            time-out: pass ``False``, which stops at once, for servers that leave the stream open behind ``[DONE]``.
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
    return _documents(_event_stream(fields, options, events=events, done=done), Source(source), drain=drain)


def aiter_sse(
    source: Any,
    fields: Iterable[Field],
    *,
    events: bool = False,
    done: Done = "optional",
    drain: bool = True,
    **options: Unpack[ReadOptions],
) -> AsyncIterator[Any]:
    """Read a stream of server-sent events, asynchronously. See ``iter_sse``."""
    return _adocuments(_event_stream(fields, options, events=events, done=done), Source(source), drain=drain)


def iter_ndjson(source: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> Iterator[Any]:
    """Read a stream of one document per line; arrays are decoded while their line arrives. Blank lines are skipped.

    Args:
        source: As for ``load``.
        fields: The registered fields.
        **options: ``allocate``, ``limits`` and ``json_loads``, as for ``Parser``, for each line.

    Yields:
        A document, as soon as its line is complete.

    Raises:
        WireError: A line is broken, or the stream ends within one. The offset counts the bytes of the line.
    """
    return _documents(_lines(fields, options), Source(source))


def aiter_ndjson(source: Any, fields: Iterable[Field], **options: Unpack[ReadOptions]) -> AsyncIterator[Any]:
    """Read a stream of one document per line, asynchronously. See ``iter_ndjson``."""
    return _adocuments(_lines(fields, options), Source(source))


def _event_stream(fields: Iterable[Field], options: ReadOptions, *, events: bool, done: Done) -> EventStream:
    return EventStream(_factory(fields, options), value_bytes=_remainder_bytes(options), events=events, done=done)


def _lines(fields: Iterable[Field], options: ReadOptions) -> NDJSON:
    return NDJSON(_factory(fields, options), line_bytes=_remainder_bytes(options))


def _factory(fields: Iterable[Field], options: ReadOptions) -> functools.partial[Parser]:
    new_parser = functools.partial(Parser, tuple(fields), **options)
    # Refuses what cannot work now, and not with the first document.
    new_parser()
    return new_parser


def _remainder_bytes(options: ReadOptions) -> int:
    return options.get("limits", _DEFAULT_LIMITS).remainder_bytes


def _documents(framing: Framing, source: Source, *, drain: bool = False) -> Iterator[Any]:
    with source.explaining():
        chunks = iter(source.chunks())
        for chunk in chunks:
            yield from framing.feed(chunk)
            framing.check()
            if framing.phase is not Phase.OPEN:
                break
        else:
            yield from framing.close()
            framing.check()
    if drain:
        # The documents are complete: what goes wrong behind them is no fault.
        with contextlib.suppress(Exception):
            _read_on(framing, chunks)


def _read_on(framing: Framing, chunks: Iterator[BytesLike]) -> None:
    """Read to the end of the body, so that its connection can serve again; but no further than line ends go."""
    while framing.phase is Phase.ENDING:
        chunk = next(chunks, None)
        if chunk is None:
            return
        framing.feed(chunk)


async def _adocuments(framing: Framing, source: Source, *, drain: bool = False) -> AsyncIterator[Any]:
    async with source.aopened() as chunks:
        with source.explaining():
            async for chunk in chunks:
                for document in framing.feed(chunk):
                    yield document
                framing.check()
                if framing.phase is not Phase.OPEN:
                    break
            else:
                for document in framing.close():
                    yield document
                framing.check()
        if drain and framing.phase is Phase.ENDING:
            try:
                async with _at_most(_DRAIN_SECONDS):
                    await _aread_on(framing, chunks)
            except Exception:
                # As above. A connection that is within a body cannot serve again.
                with contextlib.suppress(Exception):
                    await source.aclose()


async def _aread_on(framing: Framing, chunks: AsyncIterator[BytesLike]) -> None:
    while framing.phase is Phase.ENDING:
        chunk = await anext(chunks, None)
        if chunk is None:
            return
        framing.feed(chunk)


@contextlib.asynccontextmanager
async def _at_most(seconds: float) -> AsyncGenerator[None]:
    """Cancel what takes longer, and raise an error, under asyncio as under trio."""
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        with trio.fail_after(seconds):
            yield
    else:
        async with asyncio.timeout(seconds):
            yield
