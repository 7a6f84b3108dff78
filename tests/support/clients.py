"""One request with each client: ``with_...(url, read)`` opens a stream, and gives what ``read(response)`` gives."""

from __future__ import annotations

import asyncio
import http.client
import urllib.request
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import httpx2
import niquests
import requests
import urllib3


def with_httpx(url: str, read: Callable[[Any], Any]) -> Any:
    with httpx.Client() as client, client.stream("GET", url) as response:
        return read(response)


def with_httpx2(url: str, read: Callable[[Any], Any]) -> Any:
    with httpx2.Client() as client, client.stream("GET", url) as response:
        return read(response)


def with_requests(url: str, read: Callable[[Any], Any]) -> Any:
    with requests.get(url, stream=True, timeout=10) as response:
        return read(response)


def with_niquests(url: str, read: Callable[[Any], Any]) -> Any:
    with niquests.Session() as session, session.get(url, stream=True, timeout=10) as response:
        return read(response)


def with_urllib3(url: str, read: Callable[[Any], Any]) -> Any:
    with urllib3.PoolManager(retries=False) as pool:
        response = pool.request("GET", url, preload_content=False, timeout=10)
        try:
            return read(response)
        finally:
            response.close()


def with_async_httpx(url: str, read: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
            return await read(response)

    return asyncio.run(run())


def with_async_httpx2(url: str, read: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with httpx2.AsyncClient() as client, client.stream("GET", url) as response:
            return await read(response)

    return asyncio.run(run())


def with_aiohttp(url: str, read: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await read(response)

    return asyncio.run(run())


def with_async_niquests(url: str, read: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with niquests.AsyncSession() as session:
            response = await session.get(url, stream=True, timeout=10)
            try:
                return await read(response)
            finally:
                await response.close()

    return asyncio.run(run())


def with_urllib(url: str, read: Callable[[Any], Any]) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:
        return read(response)


SYNC = [with_httpx, with_httpx2, with_requests, with_niquests, with_urllib3]
ASYNC = [with_async_httpx, with_async_httpx2, with_aiohttp, with_async_niquests]
TRANSPORT = (
    httpx.TransportError,
    httpx2.TransportError,
    requests.RequestException,
    niquests.RequestException,
    urllib3.exceptions.HTTPError,
    aiohttp.ClientError,
    http.client.HTTPException,
)
