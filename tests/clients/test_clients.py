"""Six client libraries against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import importlib.metadata
import itertools
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import brotli  # type: ignore[import-untyped]  # it has no types
import httpx
import httpx2
import niquests
import numpy as np
import pytest
import requests
import urllib3
import zstandard
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ndwire import (
    Field,
    IncompleteBody,
    MalformedJSON,
    aiter_ndjson,
    aiter_sse,
    aload_response,
    dumps,
    iter_ndjson,
    iter_sse,
    load_response,
)
from support.asgi import serving
from support.clients import ASYNC, SYNC, TRANSPORT, with_aiohttp, with_async_httpx
from support.rawserver import answer, chunked, saying

FIELDS = (Field("a", dtypes=("int16",)),)
ARRAY = np.random.default_rng(0).integers(0, 1000, (200, 300), dtype=np.int16)
BODY = dumps({"k": "ü", "a": ARRAY, "z": [1, 2]})
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


async def body(request: Request) -> Response:
    coding = request.path_params["coding"]
    data = ENCODERS[coding](BODY)
    headers = {} if coding == "identity" else {"content-encoding": coding}
    if request.path_params["framing"] == "length":
        return Response(data, headers=headers, media_type="application/json")

    async def pieces() -> AsyncIterator[bytes]:
        for k in range(0, len(data), 10_000):
            yield data[k : k + 10_000]

    return StreamingResponse(pieces(), headers=headers, media_type="application/json")


APP = Starlette(routes=[Route("/{framing}/{coding}", body)])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(APP) as url:
        yield url


def fetch(client: Any, url: str) -> Any:
    if client in SYNC:
        return client(url, lambda response: load_response(response, FIELDS))
    return client(url, lambda response: aload_response(response, FIELDS))


def check(document: Any) -> None:
    assert np.array_equal(document["a"], ARRAY)
    assert document["a"].dtype == np.int16
    assert (document["k"], document["z"]) == ("ü", [1, 2])


def test_the_environment_holds_the_genuine_urllib3() -> None:
    assert vars(urllib3)["__version__"] == importlib.metadata.version("urllib3")
    assert importlib.metadata.version("niquests")


@pytest.mark.parametrize("coding", ENCODERS)
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_every_client(client: Any, framing: str, coding: str, server: str) -> None:
    check(fetch(client, f"{server}/{framing}/{coding}"))


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_responses_that_were_read_already(coding: str, server: str) -> None:
    url = f"{server}/length/{coding}"
    check(load_response(httpx.get(url), FIELDS))
    check(load_response(httpx2.get(url), FIELDS))
    check(load_response(requests.get(url, timeout=10), FIELDS))
    check(load_response(niquests.get(url, timeout=10), FIELDS))
    check(load_response(urllib3.request("GET", url), FIELDS))

    async def read_first(response: Any) -> Any:
        content = await response.read()
        assert content == BODY
        return await aload_response(response, FIELDS)

    check(with_aiohttp(url, read_first))

    async def read_httpx(response: Any) -> Any:
        await response.aread()
        return await aload_response(response, FIELDS)

    check(with_async_httpx(url, read_httpx))


CUTS = {
    "under a length": answer(BODY[:50_000], b"Content-Length: %d" % len(BODY)),
    "in a chunk": answer(chunked(BODY[:50_000], end=False), b"Transfer-Encoding: chunked"),
    "by the end of the connection": answer(BODY[:50_000]),
    "packed, by the end of the connection": answer(gzip.compress(BODY)[:50_000], b"Content-Encoding: gzip"),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_a_connection_that_is_cut(client: Any, cut: str) -> None:
    expected: Any = IncompleteBody if "connection" in cut else (IncompleteBody, *TRANSPORT)
    with saying(CUTS[cut]) as (url, _), pytest.raises(expected) as caught:
        fetch(client, url)
    if isinstance(caught.value, IncompleteBody):
        assert caught.value.retryable


@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_a_gateway_s_page(client: Any) -> None:
    page = answer(b"<html><body>502 Bad Gateway</body></html>", status=b"502 Bad Gateway")
    with saying(page) as (url, _), pytest.raises(MalformedJSON) as caught:
        fetch(client, url)
    assert caught.value.retryable


EVENTS = [b'data: {"a":[%d]}\n\n' % k for k in range(4)]


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_events_come_as_promptly_as_the_client_gives_them(client: Any, *, lines: bool) -> None:
    pause = 0.15
    parts = [b'{"a":[%d]}\n' % k for k in range(4)] if lines else EVENTS

    async def stream(request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            for part in parts:
                yield part
                await asyncio.sleep(pause)

        return StreamingResponse(events(), media_type="text/event-stream")

    arrived: list[float] = []
    found: list[int] = []

    def note(document: Any) -> None:
        arrived.append(time.monotonic())
        found.append(int(document["a"][0]))

    def read(response: Any) -> None:
        for document in (iter_ndjson if lines else iter_sse)(response, FIELDS):
            note(document)

    async def aread(response: Any) -> None:
        async for document in (aiter_ndjson if lines else aiter_sse)(response, FIELDS):
            note(document)

    with serving(Starlette(routes=[Route("/", stream)])) as url:
        client(url, read if client in SYNC else aread)
    assert found == [0, 1, 2, 3]
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrived)]
    assert min(gaps) > pause / 3, gaps
