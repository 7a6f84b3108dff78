"""The response class under a real uvicorn, read by real clients."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import Any

import aiohttp
import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from ndwire import Field, Parser, aload, load
from ndwire_asgi import NDArrayResponse
from support.asgi import serving

FIELDS = (Field("routed_experts", dtypes=("int16",), ndim=3), Field("small"))
ROUTES = np.random.default_rng(0).integers(0, 128, (5000, 48, 8), dtype=np.int16)
CONTENT: dict[str, Any] = {"choices": [{"routed_experts": ROUTES, "small": np.arange(3)}], "id": "x"}
ASK = {"Prefer": "ndarray=envelope"}


def respond(request: Any) -> Response:
    return NDArrayResponse(CONTENT)


APP = Starlette(routes=[Route("/", respond)])


def check(document: Any) -> None:
    assert np.array_equal(document["choices"][0]["routed_experts"], ROUTES)
    assert document["choices"][0]["small"].tolist() == [0, 1, 2]
    assert document["id"] == "x"


def test_httpx() -> None:
    with serving(APP) as url:
        with httpx.stream("GET", url, headers=ASK) as response:
            length = int(response.headers["content-length"])
            assert response.headers["preference-applied"] == "ndarray=envelope"
            check(load(response.iter_bytes(), FIELDS, content_length=length))
        plain = httpx.get(url)
        assert plain.json()["choices"][0]["routed_experts"] == ROUTES.tolist()
        assert "preference-applied" not in plain.headers
        assert httpx.head(url, headers=ASK).headers["content-length"] == str(length)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_httpx_async(backend: str) -> None:
    import anyio

    async def fetch(url: str) -> Any:
        async with httpx.AsyncClient() as client, client.stream("GET", url, headers=ASK) as response:
            return await aload(response.aiter_bytes(), FIELDS)

    with serving(APP) as url:
        check(anyio.run(fetch, url, backend=backend))


def test_aiohttp() -> None:
    async def fetch(url: str) -> Any:
        async with aiohttp.ClientSession() as session, session.get(url, headers=ASK) as response:
            parser = Parser(FIELDS, content_length=response.content_length)
            ready = []
            async for chunk in response.content.iter_any():
                ready += parser.feed(chunk)
            assert [event.name for event in ready] == ["routed_experts", "small"]
            return parser.close()

    with serving(APP) as url:
        check(asyncio.run(fetch(url)))


def test_a_client_that_hangs_up(caplog: pytest.LogCaptureFixture) -> None:
    encoded: list[int] = []
    done = threading.Event()
    body = np.zeros(60_000_000, np.uint8)

    class Watched(NDArrayResponse):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def counting(message: Any) -> None:
                encoded.append(len(message.get("body", b"")))
                await send(message)

            await super().__call__(scope, receive, counting)
            done.set()

    def endless(request: Any) -> Response:
        return Watched({"a": body})

    with caplog.at_level(logging.INFO), serving(Starlette(routes=[Route("/", endless)])) as url:
        port = int(url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nPrefer: ndarray=envelope\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            time.sleep(0.2)
        assert done.wait(10)
    assert sum(encoded) < 30_000_000
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
