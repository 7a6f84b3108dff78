"""What the middleware costs: responses with nothing to rewrite, streams of small lists, the longest stall."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import anyio.lowlevel
import numpy as np
import orjson

from benchmarks.measure import Figure
from ndwire import Field
from ndwire_asgi import NDArrayMiddleware

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]

FIELDS = (Field("routed_experts", dtypes=("uint8", "int16", "int32")), Field("embedding", dtypes=("float32",)))
_REQUEST = [
    (b"host", b"localhost"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"user-agent", b"client/1.0"),
    (b"content-type", b"application/json"),
]
_ASKED = [*_REQUEST, (b"prefer", b"ndarray=envelope")]


def _scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": "/v1/x", "root_path": "", "headers": headers}


async def _receive() -> Any:
    return {"type": "http.request"}


async def _send(message: Any) -> None:
    pass


def _app(bodies: list[bytes], *, length: bool = False) -> ASGIApp:
    headers = [(b"content-type", b"application/json")]
    if length:
        headers.append((b"content-length", b"%d" % sum(map(len, bodies))))
    start = {"type": "http.response.start", "status": 200, "headers": headers}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start)
        for number, body in enumerate(bodies, 1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})

    return app


class Overhead(NamedTuple):
    """Microseconds that a response of 1 KiB without arrays costs more than from the bare app, medians.

    Attributes:
        unasked: Where the request does not ask.
        asked: Where it does.
        bare: What the app itself takes.
    """

    unasked: float
    asked: float
    bare: float


def overhead(rounds: int = 9, requests: int = 1000) -> Overhead:
    """Measure what the middleware adds to a small response, all three in turn."""
    document = {"id": "cmpl-1", "choices": [{"text": "word " * 180, "index": 0}], "usage": {"total_tokens": 3}}
    body = orjson.dumps(document)
    app = _app([body], length=True)
    middleware = NDArrayMiddleware(app, FIELDS)
    rivals: list[tuple[ASGIApp, Any]] = [(app, _REQUEST), (middleware, _REQUEST), (middleware, _ASKED)]
    seconds: list[list[float]] = [[], [], []]

    async def measure() -> None:
        for _ in range(rounds):
            for times, (rival, headers) in zip(seconds, rivals, strict=True):
                start = time.perf_counter()
                for _ in range(requests):
                    await rival(_scope(headers), _receive, _send)
                times.append((time.perf_counter() - start) / requests * 1e6)

    asyncio.run(measure())
    bare, unasked, asked = map(statistics.median, seconds)
    return Overhead(unasked - bare, asked - bare, bare)


def small_lists(numbers: int, n_bytes: int = 4_000_000) -> list[bytes]:
    """Return a body of lists of so many token ids each, in messages of 64 KiB."""
    chance = random.Random(numbers)
    row = {"index": 0, "routed_experts": [chance.randrange(30_000) for _ in range(numbers)], "text": "hello"}
    count = max(n_bytes // len(orjson.dumps(row)), 1)
    body = orjson.dumps([row] * count)
    return [body[k : k + 65536] for k in range(0, len(body), 65536)]


def throughput(bodies: list[bytes], rounds: int = 5) -> float:
    """Return how many megabytes a second of a body are rewritten, at best."""
    middleware = NDArrayMiddleware(_app(bodies), FIELDS)
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        asyncio.run(middleware(_scope(_ASKED), _receive, _send))
        least = min(least, time.perf_counter() - start)
    return sum(map(len, bodies)) / least / 1e6


class Stall(NamedTuple):
    """How a large body was rewritten.

    Attributes:
        n_bytes: Its length.
        seconds: How long it took.
        milliseconds: The longest time that the event loop did not go on.
    """

    n_bytes: int
    seconds: float
    milliseconds: float


def stall(tokens: int = 70_000, *, whole: bool = True) -> Stall:
    """Rewrite nested lists of (tokens, 48, 8) ids while another task looks at the clock every millisecond."""
    routes = np.random.default_rng(0).integers(0, 256, (tokens, 48, 8), dtype=np.uint8)
    text = b'{"routed_experts":%b}' % orjson.dumps(routes, option=orjson.OPT_SERIALIZE_NUMPY)
    step = len(text) if whole else 65536
    app = _app([text[k : k + step] for k in range(0, len(text), step)], length=whole)
    gaps: list[float] = []

    async def watch() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last - 0.001)
            last = now

    async def measure() -> float:
        await anyio.lowlevel.checkpoint()  # the first one imports
        watcher = asyncio.create_task(watch())
        await asyncio.sleep(0.02)
        start = time.perf_counter()
        await NDArrayMiddleware(app, FIELDS, max_hold_bytes=256 << 20)(_scope(_ASKED), _receive, _send)
        seconds = time.perf_counter() - start
        await asyncio.sleep(0.005)
        watcher.cancel()
        return seconds

    return Stall(len(text), asyncio.run(measure()), max(gaps) * 1e3)


def figures(scale: float = 1.0) -> Iterator[Figure]:
    """Measure everything."""
    cost = overhead()
    yield Figure("the middleware adds to 1 KiB where nobody asked", cost.unasked, "µs", 4.0)
    yield Figure("the middleware adds to 1 KiB without arrays where somebody asked", cost.asked, "µs", 15.0)
    yield Figure("the bare app", cost.bare, "µs")
    for numbers, bound in ((100, None), (300, 60.0), (1000, 60.0), (4000, 60.0)):
        speed = throughput(small_lists(numbers, int(4_000_000 * scale)))
        yield Figure(f"a stream of lists of {numbers} token ids, rewritten", speed, "MB/s", bound)
    for whole, how in ((True, "one message"), (False, "messages of 64 KiB")):
        result = stall(max(int(70_000 * scale), 1), whole=whole)
        what = f"{result.n_bytes / 1e6:.0f} MB of nested lists in {how}"
        yield Figure(f"{what}, longest stall", result.milliseconds, "ms", 30.0)
        yield Figure(f"{what}, rewritten", result.n_bytes / result.seconds / 1e6, "MB/s")
