"""Five frameworks under three servers, HTTP/1.1 and HTTP/2: what a client gets, with and without the middleware."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx
import pytest

from fuzz.laws import values
from ndwire import PREFER, Field, iter_ndjson, iter_sse, load
from support.frameworks import FIELDS, FRAMEWORKS, RESPONSES, names
from support.servers import SERVERS, served

# What a client reads: the same fields, envelopes included.
CLIENT = [
    Field("nested", dtypes=("uint8", "int16", "float32")),
    Field("npy"),
    Field("raw", raw_dtype="float32"),
]
# A server may name the headers as it likes and put the time into them, as may a framework.
VOLATILE = {"date", "expires", "vary"}
HTTP_VERSION = "x-http-version"
REWRITTEN = {"json", "file", "stream", "sse", "ndjson"}


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Generator[tuple[str, str], None, None]:
    with served(request.param, "support.frameworks:app") as url:
        yield request.param, url


@pytest.fixture(params=["1.1", "2"])
def client(request: pytest.FixtureRequest, server: tuple[str, str]) -> Generator[httpx.Client, None, None]:
    name, url = server
    if request.param == "2" and not SERVERS[name][1]:
        pytest.skip(f"{name} speaks HTTP/1.1 only")
    with httpx.Client(base_url=url, http1=request.param == "1.1", http2=request.param == "2", timeout=30) as made:
        made.headers[HTTP_VERSION] = request.param
        yield made


def read(name: str, body: bytes) -> Any:
    if name == "sse":
        return values(list(iter_sse([body], CLIENT)))
    if name == "ndjson":
        return values(list(iter_ndjson([body], CLIENT)))
    return values(load([body], CLIENT))


def headers_of(response: httpx.Response) -> list[tuple[str, str]]:
    return sorted((key, value) for key, value in response.headers.multi_items() if key not in VOLATILE)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_matrix(client: httpx.Client, framework: str) -> None:
    for name in [name for known, name in names() if known == framework]:
        place = f"/{framework}/%s/{name}"
        bare = client.get(place % "bare")
        unasked = client.get(place % "wrapped")
        asked = client.get(place % "wrapped", headers=dict([PREFER]))
        assert bare.status_code == unasked.status_code == asked.status_code == (204 if name == "empty" else 200), name

        assert unasked.content == bare.content, name
        assert headers_of(unasked) == headers_of(bare), name
        for response in (unasked, asked):
            about_json = response.status_code == 200 and name != "html"
            assert ("prefer" in response.headers.get("vary", "").lower()) is about_json, name
        applied = asked.headers.get("preference-applied")

        for response in (bare, unasked, asked):
            length = response.headers.get("content-length")
            assert length is None or int(length) == len(response.content), name
        if name in ("html", "empty"):
            assert asked.content == bare.content, name
            assert headers_of(asked) == headers_of(bare), name
            continue
        assert applied == "ndarray=envelope", name
        assert read(name, asked.content) == read(name, bare.content), name
        if name in REWRITTEN:
            assert b'{"data":"' in asked.content, name
            assert b'{"data":"' not in bare.content or name == "stream", name
        elif name == "plain":
            assert asked.content == bare.content
        if name == "json" and "content-length" in bare.headers:
            assert int(asked.headers["content-length"]) == len(asked.content)
            assert "etag" not in asked.headers or asked.headers["etag"].startswith("W/")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_heads(client: httpx.Client, server: tuple[str, str], framework: str) -> None:
    if framework in ("fastapi", "litestar"):
        pytest.skip("answers HEAD only where it is told to")
    if server[0] == "granian" and client.headers[HTTP_VERSION] == "2":
        # granian 2.8: so it does for a bare app.
        pytest.skip("this server answers HEAD over HTTP/2 with a body")
    place = f"/{framework}/%s/json"
    bare = client.head(place % "bare")
    unasked = client.head(place % "wrapped")
    asked = client.head(place % "wrapped", headers=dict([PREFER]))
    assert headers_of(unasked) == headers_of(bare)
    assert unasked.content == asked.content == b""
    assert asked.headers["preference-applied"] == "ndarray=envelope"
    assert asked.headers["content-type"] == bare.headers["content-type"]


def test_events_come_one_by_one(client: httpx.Client) -> None:
    with client.stream("GET", "/starlette/wrapped/sse", headers=dict([PREFER])) as response:
        events = list(iter_sse(response.iter_raw(), CLIENT))
    assert [event["n"] for event in events] == [0, 1, 2, 3]
    assert [event["nested"].tolist() for event in events] == [[n, 300 * n] for n in range(4)]


def test_the_registry_is_the_servers() -> None:
    assert [field.name for field in FIELDS] == [field.name for field in CLIENT]
    assert set(RESPONSES) >= {"sse", "ndjson", "stream", "html"}
