"""Writing: figures of ``iter_dumps`` and ``NDArrayResponse`` against writing base64 into one string."""

from __future__ import annotations

import asyncio
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray
from starlette.responses import Response

from benchmarks.measure import Figure, in_turn, ratio
from ndwire import iter_dumps
from ndwire_asgi import NDArrayResponse


def _document(scale: float) -> dict[str, Any]:
    tokens = max(int(122_880 * scale), 1)
    routes = np.random.default_rng(0).integers(0, 128, (tokens, 48, 8), dtype=np.int16)
    return {"choices": [{"index": 0, "routed_experts": routes}]}


def _in_pieces(document: dict[str, Any]) -> None:
    for _ in iter_dumps(document):
        pass


def _envelope(array: NDArray[Any]) -> dict[str, Any]:
    return {"data": pybase64.b64encode_as_string(array.data), "shape": list(array.shape), "dtype": str(array.dtype)}


def _whole(document: dict[str, Any]) -> bytes:
    """All of it as most people write it: one string of base64, one dumps."""
    choice = document["choices"][0]
    return orjson.dumps({"choices": [{**choice, "routed_experts": _envelope(choice["routed_experts"])}]})


async def _respond(response: Response) -> float:
    """Send a response to nobody; return the seconds until its first bytes."""
    start = time.perf_counter()
    first = 0.0

    async def send(message: Any) -> None:
        nonlocal first
        if not first and message.get("body"):
            first = time.perf_counter() - start

    async def receive() -> Any:
        await asyncio.sleep(3600)

    scope = {"type": "http", "method": "GET", "headers": [(b"prefer", b"ndarray=envelope")]}
    await response(scope, receive, send)
    return first


def figures(scale: float, rounds: int) -> Iterator[Figure]:
    """Measure everything."""
    document = _document(scale)
    text = _envelope(document["choices"][0]["routed_experts"])
    firsts: list[float] = []

    def streamed() -> None:
        firsts.append(asyncio.run(_respond(NDArrayResponse(document))))

    run: dict[str, Callable[[], Any]] = {
        "pieces": functools.partial(_in_pieces, document),
        "dumps of the string": functools.partial(orjson.dumps, text),
        "whole": functools.partial(_whole, document),
        "response": streamed,
        "whole response": lambda: asyncio.run(_respond(Response(_whole(document), media_type="application/json"))),
    }
    timings = in_turn(run, rounds)
    yield ratio("iter_dumps of 90 MiB / base64 in one call + orjson.dumps", timings, "pieces", "whole", 0.2)
    yield ratio(
        "iter_dumps of 90 MiB / orjson.dumps of the base64 alone", timings, "pieces", "dumps of the string", 0.2
    )
    yield ratio("NDArrayResponse of 90 MiB / a response of one dumps", timings, "response", "whole response", 0.6)
    yield Figure("NDArrayResponse of 90 MiB, until the first bytes", statistics.median(firsts) * 1000, "ms", 5.0)
