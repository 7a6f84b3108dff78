"""What clients leave to the reader: lengths, codings, bodies that are gone, errors, and responses of others."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import io
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import aiohttp
import brotli  # type: ignore[import-untyped]  # it has no types
import niquests
import numpy as np
import pytest
import requests
import urllib3
import urllib3_future

from ndwire import (
    CompressedBody,
    Field,
    IncompleteBody,
    MalformedJSON,
    WireError,
    aiter_ndjson,
    aiter_sse,
    aload,
    aload_response,
    dumps,
    iter_ndjson,
    iter_sse,
    load,
    load_response,
)
from ndwire._http.responses import response_of
from support.clients import (
    ASYNC,
    SYNC,
    with_aiohttp,
    with_async_httpx,
    with_async_niquests,
    with_httpx,
    with_niquests,
    with_requests,
    with_urllib,
    with_urllib3,
)
from support.rawserver import answer, chunked, saying

FIELDS = (Field("a", dtypes=("int16",)),)
ARRAY = np.arange(50_000, dtype=np.int16)
BODY = dumps({"k": "ü", "a": ARRAY})
CHUNKED = b"Transfer-Encoding: chunked"


def with_urllib3_future(url: str, read: Callable[[Any], Any]) -> Any:
    """Requests and urllib3 look like this where niquests has put urllib3-future in the place of urllib3."""
    with urllib3_future.PoolManager(retries=False) as pool:
        response = pool.request("GET", url, preload_content=False, timeout=10)
        try:
            return read(response)
        finally:
            response.close()


def with_requests_over_urllib3_future(url: str, read: Callable[[Any], Any]) -> Any:
    def wrapped(raw: Any) -> Any:
        response = requests.Response()
        response.raw = raw
        response.headers.update(raw.headers)
        return read(response)

    return with_urllib3_future(url, wrapped)


def fetch(client: Any, url: str, *, by: str = "document") -> Any:
    """Read with the function that fits: a document, or the list of a stream's documents."""
    if client in ASYNC:

        async def aread(response: Any) -> Any:
            if by == "document":
                return await aload_response(response, FIELDS)
            return [one async for one in (aiter_sse if by == "events" else aiter_ndjson)(response, FIELDS)]

        return client(url, aread)
    if by == "document":
        return client(url, lambda response: load_response(response, FIELDS))
    return client(url, lambda response: list((iter_sse if by == "events" else iter_ndjson)(response, FIELDS)))


ALL = [*SYNC, *ASYNC, with_urllib]


@pytest.mark.parametrize("client", ALL)
def test_a_length_beside_chunks_is_none(client: Any) -> None:
    whole = answer(chunked(BODY), CHUNKED, b"Content-Length: %d" % (len(BODY) + 5))
    with saying(whole) as (url, _):
        if client is with_aiohttp:
            with pytest.raises(aiohttp.ClientResponseError, match="Content-Length"):  # its own word
                fetch(client, url)
        else:
            assert np.array_equal(fetch(client, url)["a"], ARRAY)


class _Answer:
    iter_bytes = aiter_bytes = None

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({"content_length": "12"}, 12),
        ({"content_length": "12", "content_encoding": " Identity"}, 12),
        ({"content_length": "12", "content_encoding": ""}, 12),
        ({"content_length": "12", "content_encoding": "gzip"}, None),
        ({"content_length": "12", "transfer_encoding": "chunked"}, None),
        ({"content_length": "-1"}, None),
        ({"content_length": "12, 12"}, None),
        ({}, None),
    ],
)
def test_lengths_are_read_where_they_count(headers: dict[str, str], length: int | None) -> None:
    response = response_of(_Answer(**headers))
    assert response is not None
    assert response.content_length == length


def test_a_response_without_headers_has_no_length() -> None:
    bare = _Answer()
    del bare.headers
    response = response_of(bare)
    assert response is not None
    assert response.content_length is None


def in_events(size: int) -> bytes:
    """Return a chunked response of five gzipped events, each of them flushed, in chunks of ``size``."""
    packer = zlib.compressobj(wbits=31)
    packed = b""
    for k in range(5):
        packed += packer.compress(b'data: {"a":[%d]}\n\n' % k) + packer.flush(zlib.Z_SYNC_FLUSH)
    packed += packer.flush()
    return answer(chunked(packed, size), CHUNKED, b"Content-Encoding: gzip")


class _Slowly(Sequence[bytes]):
    def __init__(self, body: bytes, head: int) -> None:
        self.pieces = [body[:head], *(body[k : k + 1] for k in range(head, len(body)))]

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: Any) -> Any:
        return self.pieces[index]

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            yield piece
            time.sleep(0.0005)


@pytest.mark.parametrize("client", [*SYNC, *ASYNC, with_urllib3_future, with_requests_over_urllib3_future])
def test_a_piece_that_unpacks_to_nothing_is_no_end(client: Any) -> None:
    body = in_events(1)
    with saying(_Slowly(body, body.index(b"\r\n\r\n") + 4)) as (url, _):
        found = fetch(client, url, by="events")
    assert [document["a"].tolist() for document in found] == [[k] for k in range(5)]


def test_a_response_that_never_says_that_it_is_closed_ends_when_nothing_moves() -> None:
    raw = urllib3.HTTPResponse(io.BytesIO(b"1\n2\n"), preload_content=False, auto_close=False)
    assert list(iter_ndjson(raw, FIELDS)) == [1, 2]
    assert list(iter_ndjson(urllib3.HTTPResponse(b"1\n2\n"), FIELDS)) == [1, 2]
    assert list(iter_ndjson(urllib3.HTTPResponse(), FIELDS)) == []


def test_requests_without_urllib3_beneath() -> None:
    response = requests.Response()
    response.raw = io.BytesIO(b"1\n2\n")
    assert list(iter_ndjson(response, FIELDS)) == [1, 2]


GONE = "read already, and its client has not kept it"


@pytest.mark.parametrize("framing", ["length", "chunks", "connection"])
@pytest.mark.parametrize("client", ALL)
def test_a_body_that_is_gone(client: Any, framing: str) -> None:
    body = b'data: {"a":[1]}\n\ndata: [DONE]\n\n'
    whole = {
        "length": answer(body, b"Content-Length: %d" % len(body)),
        "chunks": answer(chunked(body), CHUNKED),
        "connection": answer(body),
    }[framing]

    def read(response: Any) -> None:
        assert len(list(iter_sse(response, FIELDS))) == 1
        for again in (
            lambda: list(iter_sse(response, FIELDS)),
            lambda: list(iter_ndjson(response, FIELDS)),
            lambda: load_response(response, FIELDS),
        ):
            with pytest.raises(RuntimeError) as caught:
                again()
            assert "httpx" in client.__name__ or GONE in str(caught.value)

    async def aread(response: Any) -> None:
        assert len([one async for one in aiter_sse(response, FIELDS)]) == 1
        for _ in range(2):
            with pytest.raises(RuntimeError) as caught:
                await aload_response(response, FIELDS)
            assert "httpx" in client.__name__ or GONE in str(caught.value)

    with saying(whole) as (url, _):
        client(url, aread if client in ASYNC else read)


def test_a_body_that_requests_or_niquests_has_streamed() -> None:
    def read(response: Any) -> None:
        assert b"".join(response.iter_content(1000)) == BODY
        with pytest.raises(RuntimeError, match=GONE):
            load_response(response, FIELDS)

    async def aread(response: Any) -> None:
        assert b"".join([chunk async for chunk in await response.iter_content(1000)]) == BODY
        with pytest.raises(RuntimeError, match=GONE):
            await aload_response(response, FIELDS)

    with saying(answer(BODY)) as (url, _):
        with_requests(url, read)
        with_niquests(url, read)
        with_async_niquests(url, aread)


@pytest.mark.parametrize("client", ALL)
def test_an_empty_body_is_not_one_that_is_gone(client: Any) -> None:
    for whole in (answer(b"", b"Content-Length: 0"), answer(b""), answer(chunked(b""), CHUNKED)):
        with saying(whole) as (url, _):
            assert fetch(client, url, by="events") == []
            with pytest.raises(IncompleteBody):
                fetch(client, url)


@pytest.mark.parametrize(("status", "method"), [(b"204 No Content", "GET"), (b"200 OK", "HEAD")])
def test_responses_without_a_body_are_not_gone(status: bytes, method: str) -> None:
    head = answer(b"", b"Content-Length: 10" if method == "HEAD" else b"x: y", status=status)
    with saying(head) as (url, _):
        request = urllib.request.Request(url, method=method)
        assert list(iter_ndjson(urllib.request.urlopen(request, timeout=10), FIELDS)) == []


PACKED = {"br": brotli.compress(BODY), "x-gzip": gzip.compress(BODY), "compress": b"\x1f\x9d\x90" + bytes(60)}
LEFT_PACKED = [
    *((client, "compress") for client in ALL),
    *((client, "x-gzip") for client in ALL if client not in (with_requests, with_urllib3)),
    *((client, "br") for client in (with_httpx, with_async_httpx, with_urllib)),
]


@pytest.mark.parametrize(("client", "coding"), LEFT_PACKED)
def test_a_body_that_the_client_has_not_unpacked(client: Any, coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As where the package brotli is not installed.
    monkeypatch.delitem(importlib.import_module("httpx._decoders").SUPPORTED_DECODERS, "br", raising=False)
    packed = PACKED[coding]
    for headers in ([b"Content-Length: %d" % len(packed)], []):
        with saying(answer(packed, b"Content-Encoding: " + coding.encode(), *headers)) as (url, _):
            for by in ("document", "lines", "events"):
                with pytest.raises(CompressedBody) as caught:
                    fetch(client, url, by=by)
                assert f"still packed as {coding}: the client has not unpacked it" in str(caught.value)
                assert isinstance(caught.value, MalformedJSON)
                assert not caught.value.retryable
                assert caught.value.offset == 0


@pytest.mark.parametrize("body", [b"<html>\xc3\xa9</html>", b"x" * 63 + b"\xc3\xa9 text", b'{"a":['])
@pytest.mark.parametrize("client", [with_httpx, with_async_httpx, with_aiohttp, with_urllib3])
def test_a_page_that_the_client_has_unpacked_is_a_page(client: Any, body: bytes) -> None:
    whole = answer(gzip.compress(body), b"Content-Encoding: gzip")
    with saying(whole) as (url, _), pytest.raises((MalformedJSON, IncompleteBody)) as caught:
        fetch(client, url)
    assert caught.value.retryable


CUTS = {
    "in a chunk": answer(chunked(b'data: {"a":[1]}\n\ndata: 2', end=False), CHUNKED),
    "in gzip": answer(chunked(b"\x1f\x8b\x08" + b"rubbish" * 9), CHUNKED, b"Content-Encoding: gzip"),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("by", ["document", "lines", "events"])
def test_errors_of_requests_are_of_one_kind(cut: str, by: str) -> None:
    expected = (
        requests.exceptions.ContentDecodingError if "gzip" in cut else requests.exceptions.ChunkedEncodingError,
        *([WireError] if by == "lines" else []),
    )
    with saying(CUTS[cut]) as (url, _), pytest.raises(expected):
        fetch(with_requests, url, by=by)


def test_a_time_out_of_requests_is_its_own() -> None:
    head = answer(chunked(b'data: {"a":[1]}\n\n', end=False), CHUNKED)

    class Waiting(_Slowly):
        def __iter__(self) -> Iterator[bytes]:
            yield head
            time.sleep(1)

    with saying(Waiting(b"", 0)) as (url, _), requests.get(url, stream=True, timeout=(5, 0.2)) as response:
        reading = iter_sse(response, FIELDS)
        assert next(reading)["a"].tolist() == [1]
        with pytest.raises(requests.exceptions.ConnectionError):
            next(reading)


def test_what_the_reader_s_caller_raises_is_not_renamed() -> None:
    class Broken(io.BytesIO):
        def read1(self, *_: Any, **__: Any) -> bytes:
            raise KeyError("mine")

        read_chunked = None

        def tell(self) -> int:
            return 0

    response = requests.Response()
    response.raw = Broken()
    with pytest.raises(KeyError, match="mine"):
        load_response(response, FIELDS)


class _OfAnotherClient:
    """As curl_cffi's response looks."""

    content = b""

    def iter_content(self) -> Iterator[bytes]:
        yield b""

    async def aiter_content(self) -> Any:
        yield b""


@pytest.mark.parametrize("source", [object(), _OfAnotherClient(), [b"{}"]])
def test_what_is_no_response_is_told_what_is_known(source: Any) -> None:
    with pytest.raises(TypeError, match=r"not a response of httpx, httpx2, aiohttp, requests.*chunks of the body"):
        load_response(source, FIELDS)
    with pytest.raises(TypeError, match=r"not a response of httpx, httpx2, aiohttp, requests.*chunks of the body"):
        asyncio.run(aload_response(source, FIELDS))
    if not isinstance(source, list):
        for read in (load, iter_sse, iter_ndjson):
            with pytest.raises(TypeError, match=r"nothing to read from.*niquests, urllib3, urllib or the OpenAI SDK"):
                list(read(source, FIELDS))
        with pytest.raises(TypeError, match="nothing to read from"):
            asyncio.run(aload(source, FIELDS))


@pytest.mark.parametrize("client", [with_aiohttp, with_async_niquests])
def test_asynchronous_responses_need_an_asynchronous_reader(client: Any) -> None:
    async def read(response: Any) -> None:
        for wrong in (load, load_response, iter_sse, iter_ndjson):
            with pytest.raises(TypeError, match="asynchronous: use aload_response"):
                list(wrong(response, FIELDS))

    with saying(answer(BODY)) as (url, _):
        client(url, read)


@pytest.mark.parametrize("client", [with_requests, with_niquests, with_urllib3, with_urllib])
def test_synchronous_responses_need_a_synchronous_reader(client: Any) -> None:
    def read(response: Any) -> None:
        for wrong in (aload, aload_response):
            with pytest.raises(TypeError, match="synchronous: use load_response"):
                asyncio.run(wrong(response, FIELDS))

    with saying(answer(BODY)) as (url, _):
        client(url, read)


def test_load_takes_responses_too() -> None:
    with saying(answer(BODY)) as (url, _):
        assert np.array_equal(with_httpx(url, lambda response: load(response, FIELDS))["a"], ARRAY)
        assert np.array_equal(with_aiohttp(url, lambda response: aload(response, FIELDS))["a"], ARRAY)
        assert np.array_equal(load(niquests.get(url, timeout=10), FIELDS)["a"], ARRAY)


@pytest.mark.parametrize("read", [iter_ndjson, iter_sse, load_response])
def test_urllib_says_nothing_of_a_body_that_is_cut_and_we_do(read: Any) -> None:
    body = b"{}\n" * 2 if read is iter_ndjson else b"data: {}\n\n" * 2 if read is iter_sse else b"[{},"
    with saying(answer(body, b"Content-Length: %d" % (len(body) + 3))) as (url, _):
        with pytest.raises(IncompleteBody) as caught:
            list(read(urllib.request.urlopen(url, timeout=10), FIELDS))
        assert caught.value.offset == len(body)
        assert "3 more bytes" in str(caught.value)
