"""Fetch the same arrays four ways from a real server on loopback, and compare.

A Starlette app under uvicorn answers like an inference server: ``choices`` with token ids, log-probabilities, and two
array fields. Each way runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import hashlib
import multiprocessing
import re
import socket
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from multiprocessing.connection import Connection
from typing import Any, Self

import aiohttp
import httpx
import numpy as np
import orjson
import psutil
import pybase64
import uvicorn
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

import ndwire
from ndwire_asgi import NDArrayResponse

FULL = 122_880  # tokens; (122880, 48, 8) int16 are 90 MiB
NESTED_PART = 16  # nested lists are fetched for one token in so many, and their time and memory scaled
FIELDS = (
    ndwire.Field("routed_experts", dtypes=("int16",), ndim=3),
    ndwire.Field("rollout_sample_support", dtypes=("int32",), ndim=2),
)
Arrays = dict[str, NDArray[Any]]


def sample(tokens: int) -> dict[str, Any]:
    """Return what the server answers for a sample of ``tokens`` tokens; the same every time."""
    chance = np.random.default_rng(tokens)
    return {
        "id": "cmpl-1",
        "choices": [
            {
                "index": 0,
                "token_ids": chance.integers(0, 150_000, tokens).tolist(),
                "logprobs": [round(float(value), 5) for value in -chance.exponential(size=tokens)],
                "routed_experts": chance.integers(0, 128, (tokens, 48, 8), dtype=np.int16),
                "rollout_sample_support": chance.integers(0, 150_000, (tokens, 4), dtype=np.int32),
                "finish_reason": "stop",
            }
        ],
    }


# ------------------------------------------------------------------------------------------------- the server


def app(sizes: list[int]) -> Starlette:
    """Return an app that answers ``/{tokens}`` for the given numbers of tokens."""
    responses = {size: NDArrayResponse(sample(size)) for size in sizes}

    async def answer(request: Request) -> NDArrayResponse:
        return responses[request.path_params["tokens"]]

    return Starlette(routes=[Route("/{tokens:int}", answer)])


def serve(listener: socket.socket, sizes: list[int], ready: Connection) -> None:
    """Run the app until the process is ended."""
    config = uvicorn.Config(app(sizes), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)

    def announce() -> None:
        while not server.started:
            time.sleep(0.01)
        ready.send(True)

    threading.Thread(target=announce, daemon=True).start()
    server.run([listener])


# ------------------------------------------------------------------------------------------------ the four ways

Chunks = AsyncIterator[bytes]


Body = tuple[Chunks, int | None]  # and its length, where the server said it
Open = Callable[[str, dict[str, str]], contextlib.AbstractAsyncContextManager[Body]]


@contextlib.asynccontextmanager
async def connected(client: str) -> AsyncGenerator[Open, None]:
    """Make a client; give a function that opens a URL and gives its chunks and the body's length."""
    if client == "aiohttp":
        async with aiohttp.ClientSession() as session:

            @contextlib.asynccontextmanager
            async def with_aiohttp(url: str, headers: dict[str, str]) -> AsyncGenerator[Body, None]:
                async with session.get(url, headers=headers) as response:
                    yield response.content.iter_any(), response.content_length

            yield with_aiohttp
    else:
        async with httpx.AsyncClient(timeout=60) as async_client:

            @contextlib.asynccontextmanager
            async def with_httpx(url: str, headers: dict[str, str]) -> AsyncGenerator[Body, None]:
                async with async_client.stream("GET", url, headers=headers) as response:
                    length = response.headers.get("content-length")
                    yield response.aiter_bytes(), int(length) if length else None

            yield with_httpx


async def whole(chunks: Chunks) -> bytes:
    """Read a body to its end."""
    return b"".join([chunk async for chunk in chunks])


def as_array(envelope: dict[str, Any]) -> NDArray[Any]:
    """Decode one envelope that has been parsed."""
    data = pybase64.b64decode(envelope["data"], validate=True)
    return np.frombuffer(data, envelope["dtype"]).reshape(envelope["shape"])


async def nested(chunks: Chunks, length: int | None) -> Arrays:
    """``response.json()`` on nested lists, and ``np.array`` on those."""
    choice = orjson.loads(await whole(chunks))["choices"][0]
    return {field.name: np.array(choice[field.name], (field.dtypes or ("",))[0]) for field in FIELDS}


async def parse_then_decode(chunks: Chunks, length: int | None) -> Arrays:
    """Read everything, parse everything, decode the strings."""
    choice = orjson.loads(await whole(chunks))["choices"][0]
    return {field.name: as_array(choice[field.name]) for field in FIELDS}


async def cut_then_decode(chunks: Chunks, length: int | None) -> Arrays:
    """Read everything, cut the blobs out of the text, decode them, parse the rest."""
    body = await whole(chunks)
    arrays: Arrays = {}
    pieces: list[bytes] = []
    end = 0
    names = b"|".join(field.name.encode() for field in FIELDS)
    for match in re.finditer(rb'"(' + names + rb')":(\{"data":")', body):
        quote = body.index(b'"', match.end())
        pieces += (body[end : match.start(2)], b"null")
        end = body.index(b"}", quote) + 1
        meta = orjson.loads(b'{"data":"' + body[quote:end])
        arrays[match[1].decode()] = as_array({**meta, "data": memoryview(body)[match.end() : quote]})
    orjson.loads(b"".join([*pieces, body[end:]]))
    return arrays


async def streaming(chunks: Chunks, length: int | None) -> Arrays:
    """ndwire: the arrays are decoded while they arrive."""
    choice = (await ndwire.aload(chunks, FIELDS, content_length=length))["choices"][0]
    return {field.name: choice[field.name] for field in FIELDS}


WAYS: dict[str, Callable[[Chunks, int | None], Any]] = {
    "nested lists": nested,
    "read whole, parse": parse_then_decode,
    "read whole, cut out": cut_then_decode,
    "ndwire, streaming": streaming,
}


# --------------------------------------------------------------------------------------------------- measuring


@dataclasses.dataclass
class Result:
    """What one way cost, and a digest of the arrays that it gave."""

    seconds: float
    stall: float
    peak_bytes: int
    n_bytes: int
    digest: str


def digest(arrays: Arrays) -> str:
    """Return a digest of the arrays' dtypes, shapes and bytes."""
    sha = hashlib.blake2b()
    for name in sorted(arrays):
        array = arrays[name]
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


class Meter:
    """Measures, while it is entered, the longest stall of the running loop and the memory of the process.

    Args:
        memory: Whether to sample the memory; the thread that does so takes some of the time.

    Attributes:
        seconds: How long it was entered.
        stall: The longest time in seconds that the loop did not go on.
        samples: Seconds since it was entered, and the bytes of resident memory then.
    """

    def __init__(self, *, memory: bool = True) -> None:
        self.seconds = self.stall = 0.0
        self.samples: list[tuple[float, int]] = []
        self._memory = memory
        self._process = psutil.Process()
        self._done = threading.Event()

    @property
    def peak_bytes(self) -> int:
        """The memory that was added at the most."""
        return max(n_bytes for _, n_bytes in self.samples) - self.samples[0][1]

    async def __aenter__(self) -> Self:
        self._watcher = asyncio.create_task(self._watch())
        await asyncio.sleep(0.02)
        self.stall = 0.0
        self._start = time.perf_counter()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        if self._memory:
            self._sampler.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        await asyncio.sleep(0.005)
        self._watcher.cancel()
        self._done.set()
        if self._memory:
            self._sampler.join()

    async def _watch(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.stall = max(self.stall, time.perf_counter() - before - 0.001)

    def _sample(self) -> None:
        going_on = True
        while going_on:
            self.samples.append((time.perf_counter() - self._start, self._process.memory_info().rss))
            going_on = not self._done.wait(0.002)
        self.samples.append((time.perf_counter() - self._start, self._process.memory_info().rss))


def fetch(way: str, client: str, url: str, progress: Connection) -> None:
    """Fetch ``url`` one way, in a process of its own; send progress (ints), then the Result."""
    n_bytes = 0

    async def counted(chunks: Chunks) -> AsyncIterator[bytes]:
        nonlocal n_bytes
        told = 0
        async for chunk in chunks:
            n_bytes += len(chunk)
            if n_bytes - told > 4 << 20:
                told = n_bytes
                progress.send(n_bytes)
            yield chunk

    async def run() -> tuple[Meter, Arrays]:
        headers = {} if WAYS[way] is nested else dict([ndwire.PREFER])
        async with connected(client) as open_url, Meter() as meter, open_url(url, headers) as (chunks, length):
            arrays = await WAYS[way](counted(chunks), length)
        return meter, arrays

    meter, arrays = asyncio.run(run())
    progress.send(Result(meter.seconds, meter.stall, meter.peak_bytes, n_bytes, digest(arrays)))


def measure(way: str, client: str, url: str, bar: Progress, total: int) -> Result:
    """Run one way in a new process and show its progress."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=fetch, args=(way, client, url, sender), daemon=True)
    worker.start()
    sender.close()
    task = bar.add_task(way, total=total)
    try:
        while True:
            item = receiver.recv()
            if isinstance(item, Result):
                bar.update(task, total=item.n_bytes, completed=item.n_bytes)
                return item
            bar.update(task, completed=item)
    except EOFError as exc:
        raise SystemExit(f"{way}: the process that fetched ended early") from exc
    finally:
        worker.join()


def main() -> None:
    """Serve, fetch four ways, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--size", type=int, default=FULL, help="tokens in the sample; %(default)s make 90 MiB of routed experts"
    )
    parser.add_argument("--port", type=int, default=0, help="the loopback port of the server; a free one by default")
    parser.add_argument(
        "--client", choices=("httpx", "aiohttp"), default="httpx", help="the HTTP client (default: %(default)s)"
    )
    arguments = parser.parse_args()
    if arguments.size < 1:
        parser.error("--size must be at least 1")
    size, small = arguments.size, max(arguments.size // NESTED_PART, 1)
    console = Console()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", arguments.port))
    except OSError as exc:
        raise SystemExit(f"cannot listen on port {arguments.port}: {exc.strerror}") from exc
    port = listener.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ready, announce = context.Pipe(duplex=False)
    server = context.Process(target=serve, args=(listener, [size, small], announce), daemon=True)
    server.start()
    results: dict[str, Result] = {}
    try:
        if not ready.poll(60):
            raise SystemExit("the server did not start")
        console.print(f"uvicorn on 127.0.0.1:{port}, {arguments.client}, {size:,} tokens x 48 layers x 8 experts")
        columns = (TextColumn("{task.description:<20}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, console=console) as bar:
            for way, read in WAYS.items():
                tokens = small if read is nested else size
                url = f"http://127.0.0.1:{port}/{tokens}"
                results[way] = measure(way, arguments.client, url, bar, tokens * 1040)
    finally:
        server.terminate()
        server.join()
        listener.close()

    table = Table("way", "body", "wall time", "longest stall", "peak memory", title="The same arrays, four ways")
    for way, result in results.items():
        scale = size / small if WAYS[way] is nested else 1.0
        mark = "*" if WAYS[way] is nested else ""
        table.add_row(
            way + mark,
            f"{result.n_bytes * scale / 2**20:.0f} MiB",
            f"{result.seconds * scale * 1000:,.0f} ms",
            f"{result.stall * scale * 1000:,.0f} ms",
            f"{result.peak_bytes * scale / 2**20:,.0f} MiB",
        )
    console.print(table)
    console.print(f"* fetched for {small:,} tokens and scaled by {size / small:.0f}")
    for way, result in results.items():
        choice = sample(small if WAYS[way] is nested else size)["choices"][0]
        if result.digest != digest({field.name: choice[field.name] for field in FIELDS}):
            raise SystemExit(f"{way}: the arrays differ from what the server sent")
    console.print("Every way gave the arrays that the server sent, to the byte.")


if __name__ == "__main__":
    main()
