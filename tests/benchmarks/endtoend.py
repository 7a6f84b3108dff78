"""End to end over loopback: two servers, two clients, one request and eight at once.

Each client runs in a process of its own, in which all ways of reading take turns. Memory is traced in a process for
each way, since a process does not give everything back.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import os
import statistics
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
from examples.quickstart import WAYS, Meter, connected, sample, whole
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from benchmarks import bodies, rivals
from benchmarks.measure import Figure, in_turn
from ndwire import PREFER
from ndwire_asgi import NDArrayResponse
from support.servers import served

TOKENS = 122_880  # 90 MiB of routes
DRAIN, NPY = "draining the body", "a .npy file"
NDWIRE, SPLICE, ORJSON = "ndwire, streaming", "read whole, cut out", "read whole, parse"


class Run(NamedTuple):
    """Medians of one way: seconds, and the longest stall of the loop."""

    seconds: float
    stall: float


async def _npy_file(array: Any) -> AsyncIterator[bytes]:
    """The array's bytes behind a header: what leaving JSON would cost."""
    yield array.shape.__repr__().encode().ljust(128)
    octets = array.reshape(-1).view(np.uint8)
    for start in range(0, len(octets), 256 << 10):
        yield octets[start : start + (256 << 10)].tobytes()


def make_app() -> Starlette:
    """Return the app: ``/{tokens}`` answers like an inference server, ``/npy/{tokens}`` sends the routes alone."""
    documents: dict[int, dict[str, Any]] = {}

    def document(request: Request) -> dict[str, Any]:
        tokens: int = request.path_params["tokens"]
        if tokens not in documents:
            documents[tokens] = sample(tokens)
        return documents[tokens]

    async def answer(request: Request) -> Response:
        return NDArrayResponse(document(request))

    async def npy(request: Request) -> Response:
        return StreamingResponse(_npy_file(document(request)["choices"][0]["routed_experts"]))

    return Starlette(routes=[Route("/{tokens:int}", answer), Route("/npy/{tokens:int}", npy)])


async def _read(way: str, chunks: Any, length: int | None) -> Any:
    if way == DRAIN:
        async for _ in chunks:
            pass
    elif way == NPY:
        octets = await whole(chunks)
        return np.frombuffer(octets, np.int16, offset=128)
    else:
        return await WAYS[way](chunks, length)
    return None


async def _fetch(open_url: Any, way: str, url: str, tokens: int) -> Any:
    path = f"/npy/{tokens}" if way == NPY else f"/{tokens}"
    async with open_url(url + path, dict([PREFER])) as (chunks, length):
        return await _read(way, chunks, length)


def _in_turn(client: str, url: str, ways: list[str], tokens: int, at_once: int, rounds: int, result: Any) -> None:
    """Fetch every way, in turn, in this process; send way -> Run."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    stalls: dict[str, list[float]] = {way: [] for way in ways}

    async def run() -> None:
        async with connected(client) as open_url:
            await _fetch(open_url, DRAIN, url, tokens)
            for _ in range(rounds):
                for way in ways:
                    async with Meter(memory=False) as meter:
                        await asyncio.gather(*(_fetch(open_url, way, url, tokens) for _ in range(at_once)))
                    seconds[way].append(meter.seconds)
                    stalls[way].append(meter.stall)

    asyncio.run(run())
    result.send({way: Run(statistics.median(seconds[way]), statistics.median(stalls[way])) for way in ways})


def _trace(client: str, url: str, ways: list[str], tokens: int, at_once: int, rounds: int, result: Any) -> None:
    """Fetch one way in this process, ``at_once`` times at once; send the samples of its memory."""

    async def run() -> Meter:
        async with connected(client) as open_url:
            await _fetch(open_url, DRAIN, url, 64)
            async with Meter() as meter:
                await asyncio.gather(*(_fetch(open_url, ways[0], url, tokens) for _ in range(at_once)))
        return meter

    result.send(asyncio.run(run()).samples)


def _process(target: Any, *arguments: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    worker = context.Process(target=target, args=(*arguments, sender), daemon=True)
    worker.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        worker.join()


@contextlib.contextmanager
def _serving(server: str, tokens: int) -> Generator[str, None, None]:
    with served(server, "benchmarks.endtoend:app", ready=f"/{tokens}") as url:
        yield url


Traces = dict[str, list[tuple[float, int]]]
"""Way -> its memory over time: seconds, bytes added."""


def trace(tokens: int = TOKENS, at_once: int = 1) -> Traces:
    """Return the memory of each way while bodies arrive by aiohttp from uvicorn."""
    traces: Traces = {}
    with _serving("uvicorn", tokens) as url:
        for way in (NDWIRE, SPLICE, ORJSON):
            samples = _process(_trace, "aiohttp", url, [way], tokens, at_once, 1)
            traces[way] = [(seconds, n_bytes - samples[0][1]) for seconds, n_bytes in samples]
    return traces


def peaks(traces: Traces, how: str) -> Iterator[Figure]:
    """Return the peak memory of each way, and those of the others against it."""
    peak = {way: max(n_bytes for _, n_bytes in samples) / 2**20 for way, samples in traces.items()}
    for way, size in peak.items():
        yield Figure(f"{how}: {way}, peak memory", size, "MiB")
    for rival in (SPLICE, ORJSON):
        yield Figure(f"{how}: peak memory, ndwire / {rival}", peak[NDWIRE] / max(peak[rival], 1e-6))


def figures(tokens: int = TOKENS, rounds: int = 5, at_once: int = 8) -> Iterator[Figure]:
    """Measure everything."""
    ways = [DRAIN, NDWIRE, SPLICE, ORJSON, NPY]
    body = bodies.routed(tokens / TOKENS)
    bare = in_turn({"bare": functools.partial(rivals.bare, body)}, rounds)["bare"].median
    for server in ("uvicorn", "granian"):
        with _serving(server, tokens) as url:
            for client in ("aiohttp", "httpx"):
                runs: dict[str, Run] = _process(_in_turn, client, url, ways, tokens, 1, rounds)
                place = f"{server}, {client}"
                held = client == "aiohttp"
                yield _compared(f"{place}: ndwire / draining the body", runs, DRAIN, 1.5 if held else None)
                # One thread reads and decodes: no reader can do better than one after the other.
                least = (runs[DRAIN].seconds + bare) / runs[DRAIN].seconds
                yield Figure(f"{place}: draining, then nothing but decoding / draining", least)
                yield _compared(f"{place}: ndwire / reading whole, cutting out", runs, SPLICE, 0.35 if held else None)
                yield _compared(f"{place}: ndwire / reading whole, orjson", runs, ORJSON)
                yield _compared(f"{place}: ndwire / the bytes alone, no JSON", runs, NPY)
                for way in ways:
                    yield Figure(f"{place}: {way}", runs[way].seconds * 1000, "ms")
                    yield Figure(f"{place}: {way}, longest stall", runs[way].stall * 1000, "ms")
            if server == "uvicorn":
                runs = _process(_in_turn, "aiohttp", url, ways[:-1], tokens, at_once, max(rounds // 2, 1))
                place = f"{server}, aiohttp, {at_once} at once"
                yield _compared(f"{place}: ndwire / reading whole, cutting out", runs, SPLICE)
                stall = runs[NDWIRE].stall / max(runs[SPLICE].stall, 1e-6)
                what = f"{place}: longest stall, ndwire / reading whole, cutting out"
                yield Figure(what, stall, bound=0.2, milliseconds=runs[NDWIRE].stall * 1000)
                for way in ways[:-1]:
                    yield Figure(f"{place}: {way}", runs[way].seconds * 1000, "ms")
                    yield Figure(f"{place}: {way}, longest stall", runs[way].stall * 1000, "ms")


def _compared(what: str, runs: dict[str, Run], rival: str, bound: float | None = None) -> Figure:
    return Figure(
        what, runs[NDWIRE].seconds / runs[rival].seconds, bound=bound, milliseconds=runs[NDWIRE].seconds * 1000
    )


if os.environ.get("NDWIRE_SERVED"):
    app = make_app()
