"""Streams leave their connection fit for the next one, where the server lets them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2
import niquests
import pytest
import requests
import trio
import urllib3
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ndwire import Field, aiter_sse, iter_sse
from support.asgi import serving

FIELDS = (Field("a"),)
FOUND = [[0], [1]]
connections: set[Any] = set()


async def stream(request: Request) -> Response:
    """Send two events and the end; the body's own end comes later, by so many milliseconds."""
    connections.add(request.client)

    async def events() -> AsyncIterator[bytes]:
        for k in range(2):
            yield b'data: {"a":[%d]}\n\n' % k
        yield b"data: [DONE]\n\n"
        for _ in range(request.path_params["late"] // 10):
            await asyncio.sleep(0.01)
            yield b"\n" if request.path_params["late"] > 100 else b""

    return StreamingResponse(events(), media_type="text/event-stream")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(Starlette(routes=[Route("/{late:int}", stream)])) as url:
        yield url


Read = Callable[[Any], Any]


def over_httpx(url: str, read: Read, count: int) -> None:
    with httpx.Client() as client:
        for _ in range(count):
            with client.stream("GET", url) as response:
                read(response)


def over_httpx2(url: str, read: Read, count: int) -> None:
    with httpx2.Client() as client:
        for _ in range(count):
            with client.stream("GET", url) as response:
                read(response)


def over_requests(url: str, read: Read, count: int) -> None:
    with requests.Session() as session:
        for _ in range(count):
            with session.get(url, stream=True, timeout=10) as response:
                read(response)


def over_niquests(url: str, read: Read, count: int) -> None:
    with niquests.Session() as session:
        for _ in range(count):
            with session.get(url, stream=True, timeout=10) as response:
                read(response)


def over_urllib3(url: str, read: Read, count: int) -> None:
    with urllib3.PoolManager(retries=False) as pool:
        for _ in range(count):
            response = pool.request("GET", url, preload_content=False, timeout=10)
            read(response)
            response.close()


async def over_async_httpx(url: str, read: Read, count: int) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(count):
            async with client.stream("GET", url) as response:
                await read(response)


async def over_async_httpx2(url: str, read: Read, count: int) -> None:
    async with httpx2.AsyncClient() as client:
        for _ in range(count):
            async with client.stream("GET", url) as response:
                await read(response)


async def over_aiohttp(url: str, read: Read, count: int) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(count):
            async with session.get(url) as response:
                await read(response)


async def over_async_niquests(url: str, read: Read, count: int) -> None:
    async with niquests.AsyncSession() as session:
        for _ in range(count):
            response = await session.get(url, stream=True, timeout=10)
            await read(response)
            await response.close()


SYNC = [over_httpx, over_httpx2, over_requests, over_niquests, over_urllib3]
ASYNC = [over_async_httpx, over_async_httpx2, over_aiohttp, over_async_niquests]


def streams(client: Any, url: str, count: int, **options: Any) -> None:
    connections.clear()

    def read(response: Any) -> None:
        assert [document["a"].tolist() for document in iter_sse(response, FIELDS, **options)] == FOUND

    async def aread(response: Any) -> None:
        assert [document["a"].tolist() async for document in aiter_sse(response, FIELDS, **options)] == FOUND

    if client in SYNC:
        client(url, read, count)
    else:
        asyncio.run(client(url, aread, count))


@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_five_streams_take_one_connection(client: Any, server: str) -> None:
    streams(client, f"{server}/50", 5)
    assert len(connections) == 1
    streams(client, f"{server}/150", 3)
    assert len(connections) == 1


@pytest.mark.parametrize("client", [*SYNC, *ASYNC])
def test_without_reading_on_nothing_is_waited_for(client: Any, server: str) -> None:
    begun = time.monotonic()
    streams(client, f"{server}/5000", 1, drain=False)
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize("client", ASYNC)
def test_asynchronously_reading_on_takes_a_second_at_most(client: Any, server: str) -> None:
    begun = time.monotonic()
    streams(client, f"{server}/5000", 2)
    assert time.monotonic() - begun < 4.5
    assert len(connections) == 2


@pytest.mark.parametrize(("late", "n_connections"), [(50, 1), (5000, 3)])
def test_under_trio(late: int, n_connections: int, server: str) -> None:
    async def aread(response: Any) -> None:
        assert [document["a"].tolist() async for document in aiter_sse(response, FIELDS)] == FOUND

    connections.clear()
    begun = time.monotonic()
    trio.run(over_async_httpx, f"{server}/{late}", aread, 3)
    assert time.monotonic() - begun < 5
    assert len(connections) == n_connections
