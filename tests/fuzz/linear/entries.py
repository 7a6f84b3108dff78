"""Every way into ndwire that a peer's bytes take, as a function of those bytes that does not mind refusals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ndwire import Field, Held, Parser, Rewriter, TextFraming, WireError, iter_ndjson, iter_sse, load, loads, rl

Read = Callable[[bytes], Any]

READING: Final = (
    Field("x"),
    Field("data"),
    Field("raw", raw_dtype="uint8"),
    Field("ids", dtypes=("uint8", "int32", "float32"), ndim=2),
    Field("ä/b", sidecar=True),
)
REWRITING: Final = (
    Field("x", dtypes=("uint8", "int32", "float64")),
    Field("data", dtypes=("int64", "float32")),
    Field("raw", wires=("npy",), raw_dtype="uint8"),
    Field("ids", dtypes=("uint8", "int32", "float32"), ndim=2),
    Field("ä/b", dtypes=("float32",)),
)

_WHOLE: Final = 1 << 30
_SALTS: Final = itertools.count()


def pieces(body: bytes, step: int) -> Iterator[bytes]:
    """Cut ``body`` into chunks of ``step`` bytes."""
    return (body[start : start + step] for start in range(0, len(body), step))


def _quietly(read: Read, body: bytes) -> None:
    with contextlib.suppress(WireError):
        read(body)


def _parse(body: bytes, step: int) -> None:
    parser = Parser(READING, content_length=len(body))
    for chunk in pieces(body, step):
        parser.feed(chunk)
    parser.close()


def _load_views(body: bytes, step: int) -> None:
    load((memoryview(chunk) for chunk in pieces(body, step)), READING)


def _stream(body: bytes, step: int, documents: Callable[..., Iterable[Any]]) -> None:
    for _ in documents(pieces(body, step), READING):
        pass


def _rewrite(body: bytes, step: int, framing: TextFraming, max_hold_bytes: int = 1 << 28) -> None:
    rewriter = Rewriter(REWRITING, framing=framing, max_hold_bytes=max_hold_bytes)
    for chunk in pieces(body, step):
        for item in rewriter.feed(chunk):
            if isinstance(item, Held):
                item.render()
    rewriter.close()


def _columns(body: bytes) -> None:
    # What is no list of tokens is a ValueError, or a TypeError.
    with contextlib.suppress(ValueError, TypeError):
        rl.logprob_columns(body)


def _prefer(value: bytes) -> None:
    from ndwire_asgi import prefers_envelope

    # Answers are remembered by the header's value.
    prefers_envelope({"type": "http", "headers": [(b"prefer", b"%b;salt=%d" % (value, next(_SALTS)))]})


def _respond(value: bytes, name: bytes) -> None:
    from ndwire_asgi import NDArrayMiddleware

    async def app(scope: Any, receive: Any, send: Any) -> None:
        salted = b"%b;salt=%d" % (value, next(_SALTS))
        headers = [(b"content-type", b"application/json"), (name, salted)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ignore(message: Any) -> None:
        pass

    class Faults(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                raise AssertionError(record.getMessage()) from record.exc_info[1]

    # A fault of the middleware's own passes the response as it came, with a warning.
    logger, handler = logging.getLogger("ndwire_asgi"), Faults(logging.WARNING)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"prefer", b"ndarray=envelope")]}
    middleware: Any = NDArrayMiddleware(app, fields=REWRITING)
    logger.addHandler(handler)
    try:
        asyncio.run(middleware(scope, ignore, ignore))
    finally:
        logger.removeHandler(handler)


def _in_chunks(name: str, read: Callable[..., Any], *steps: int, **options: Any) -> dict[str, Read]:
    """Return ``read`` for each size of chunks, by what it is called."""
    entries: dict[str, Read] = {}
    for step in steps:
        called = f"{name}, whole" if step == _WHOLE else f"{name}, in chunks of {step}"
        entries[called] = functools.partial(_quietly, functools.partial(read, step=step, **options))
    return entries


DOCUMENTS: Final[dict[str, Read]] = {
    "loads": functools.partial(_quietly, functools.partial(loads, fields=READING)),
    **_in_chunks("Parser", _parse, _WHOLE, 4096, 256, 7, 1),
    **_in_chunks("load of views", _load_views, 1000),
    **_in_chunks("Rewriter", _rewrite, _WHOLE, 4096, 256, 1, framing="document"),
    **_in_chunks("Rewriter that holds little", _rewrite, _WHOLE, 256, framing="document", max_hold_bytes=1000),
}
"""Entries that take one JSON document."""

LINES: Final[dict[str, Read]] = {
    **_in_chunks("iter_ndjson", _stream, _WHOLE, 256, 1, documents=iter_ndjson),
    **_in_chunks("Rewriter of lines", _rewrite, _WHOLE, 256, 1, framing="lines"),
}
"""Entries that take a document per line."""

EVENTS: Final[dict[str, Read]] = {
    **_in_chunks("iter_sse", _stream, _WHOLE, 256, 1, documents=iter_sse),
    **_in_chunks("Rewriter of events", _rewrite, _WHOLE, 256, 1, framing="events"),
}
"""Entries that take an event stream."""

HEADERS: Final[dict[str, Read]] = {
    "prefers_envelope": _prefer,
    **{
        f"a response's {name.decode()}": functools.partial(_respond, name=name)
        for name in (b"vary", b"content-type", b"preference-applied", b"etag", b"content-encoding", b"content-length")
    },
}
"""Entries that take the value of one header of a request or a response."""

TOKENS: Final[dict[str, Read]] = {"logprob_columns": _columns}
"""Entries that take the text of ``logprobs.content``."""
