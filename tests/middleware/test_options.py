"""Which bodies are rewritten, how much of them is held and for how long, and what is said where they are not."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import numpy as np
import orjson
import pytest
from fastapi import FastAPI
from litestar import Litestar, get
from litestar.config.compression import CompressionConfig
from pydantic import BaseModel, ConfigDict
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient

from ndwire import Field, loads, rewrite
from ndwire_asgi import NDArrayMiddleware, NDArrayResponse, _responder
from support.apps import BIG, BODY, JSON, REWRITTEN, App, X, answering, ask, body, start
from support.asgi import ASKED, Exchange, exchange, http_scope, serving

pytestmark = pytest.mark.anyio
ENVELOPE = b'{"data":"AQID","shape":[3],"dtype":"uint8"}'
ASK = {"Prefer": "ndarray=envelope"}

Log = pytest.LogCaptureFixture


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def typed(media_type: bytes, text: bytes = BODY) -> App:
    return answering(text, headers=[(b"Content-Type", media_type)])


# Media types.


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/json; charset=utf-8",
        b"Application/JSON",
        b"text/json",
        b"application/problem+json",
        b"application/vnd.a+json;v=1",
    ],
)
async def test_media_types_of_documents(media_type: bytes) -> None:
    assert (await ask(typed(media_type))).body == REWRITTEN
    assert (await ask(typed(media_type), scope=http_scope())).headers[b"vary"] == b"Prefer"


@pytest.mark.parametrize(
    "media_type",
    [
        b"application/x-ndjson",
        b"application/ndjson",
        b"application/jsonl",
        b"application/x-jsonl",
        b"application/jsonlines",
        b"application/x-jsonlines; charset=utf-8",
        b"application/json-lines",
        b"application/json-seq",
        b"application/geo+json-seq",
        b"text/event-stream; charset=utf-8",
    ],
)
async def test_media_types_of_lines(media_type: bytes) -> None:
    lines = b'data: {"x":[1,2,3]}\r\n\r\ndata: {"x":[1,\r\ndata: 2]}\n\n'
    if b"event" in media_type:
        lines = b'id: {"x":[5]}\n' + lines
    assert (await ask(typed(media_type, lines))).body == lines.replace(b"[1,2,3]", ENVELOPE)


async def test_record_separators_stay() -> None:
    text = b'\x1e{"x":[1,2,3]}\n\x1e{\n"x":[1,2,3]}\n\x1e{"x":[1,\n2]}\n\x1e\x1e"x"\n'
    for step in (1, 3, len(text)):
        pieces = [text[k : k + step] for k in range(0, len(text), step)]
        result = await ask(answering(*pieces, headers=[(b"content-type", b"application/json-seq")]))
        assert result.body == text.replace(b"[1,2,3]", ENVELOPE)


@pytest.mark.parametrize("media_type", [b"text/x+json", b"application/json5", b"application/json-patch", b"text/plain"])
async def test_other_media_types_stay(media_type: bytes) -> None:
    for asked in (False, True):
        app = typed(media_type)
        assert (await ask(app, scope=http_scope(*[ASKED] * asked))).messages == list(app.messages)


async def test_the_caller_s_media_types() -> None:
    types: Any = {"application/json+base64": "document", "Text/Lines": "lines", "text/events": "events"}
    for media_type, framing in types.items():
        text = BODY if framing == "document" else b'data: {"x":[1,2,3]}\n\nid: {"x":[1,2,3]}\n'
        name = media_type.encode().upper() + b" ; charset=utf-8"
        result = await ask(typed(name, text), content_types=types)
        assert result.body == rewrite(text, [X], framing=framing)
        assert (await ask(typed(name), content_types=types, scope=http_scope())).headers[b"vary"] == b"Prefer"
        assert (await ask(typed(name, text))).body == text
    assert (await ask(typed(b"application/json"), content_types=types)).body == REWRITTEN
    assert (await ask(answering(BODY, headers=[]), content_types=types)).body == BODY


async def test_a_type_may_mean_something_else_here() -> None:
    text = b'{"x":[1,2,3]}\n{"x":[1,\n2]}\n'
    result = await ask(typed(b"application/json", text), content_types={"application/json": "lines"})
    assert result.body == text.replace(b"[1,2,3]", ENVELOPE)


async def test_bodies_without_a_type() -> None:
    app = answering(BODY, headers=[(b"x-k", b"v")])
    for asked in (False, True):
        result = await ask(app, content_types={None: "lines"}, scope=http_scope(*[ASKED] * asked))
        assert result.body == (REWRITTEN if asked else BODY)
        assert result.headers[b"vary"] == b"Prefer"


# What stays.


async def test_small_values_stay() -> None:
    text = b'[{"x":[1,2]},{"x":[1,2,3]}]'
    result = await ask(answering(text), min_bytes=7)
    assert result.body == text.replace(b"[1,2,3]", ENVELOPE)


@pytest.mark.parametrize(
    ("app", "reason"),
    [
        (typed(b"text/html"), "its Content-Type is b'text/html'"),
        (answering(BODY, headers=[]), "its Content-Type is b''"),
        (answering(BODY, headers=[JSON, (b"content-encoding", b"br")]), "its body is packed as b'br'"),
        (answering(b"", status=204), "a response of status 204 has no body"),
        (answering(b"", status=304), "a response of status 304 has no body"),
        (answering(BODY, status=206), "it is a part of a body"),
        (answering(BODY, headers=[JSON, (b"content-length", b"x")]), "its Content-Length is b'x'"),
        (
            answering(BODY, headers=[JSON, (b"preference-applied", b"ndarray=envelope")]),
            "it says that it holds envelopes already",
        ),
        (answering(b'{"x":"y"}'), "no value under the names of the fields became an envelope"),
    ],
)
async def test_a_response_that_stays_says_why(app: App, reason: str, caplog: Log) -> None:
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        await ask(app, scope=http_scope())
        assert not caplog.records
        await ask(app)
    assert [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"] == [
        f"a response goes out as it came: {reason}"
    ]


async def test_a_path_that_no_prefix_matches_says_so(caplog: Log) -> None:
    app = NDArrayMiddleware(answering(BODY), {"/v1": [X]})
    with caplog.at_level(logging.INFO, "ndwire_asgi"):
        await exchange(app, http_scope(ASKED, path="/api/v1"))
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        await exchange(app, http_scope(path="/api/v1"))
        assert not caplog.records
        await exchange(app, http_scope(ASKED, path="/api/v1"))
        await exchange(NDArrayMiddleware(app.app, {"/v1": [X]}, when="always"), http_scope(path="/x", root_path="/y"))
    assert [record.getMessage() for record in caplog.records] == [
        "no prefix of fields matches '/api/v1', which is the path below the root path ''",
        "no prefix of fields matches '/x', which is the path below the root path '/y'",
    ]


def test_prefixes_begin_below_the_place_where_the_middleware_stands() -> None:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Mount, Route

    endpoint = answering(BODY)
    inside = Starlette(routes=[Route("/v1/x", endpoint)], middleware=[Middleware(NDArrayMiddleware, {"/v1": [X]})])
    around = NDArrayMiddleware(
        Starlette(routes=[Mount("/api", Starlette(routes=[Route("/v1/x", endpoint)]))]), {"/v1": [X]}
    )
    outer = NDArrayMiddleware(around.app, {"/api/v1": [X]})
    for app, expected in ((Starlette(routes=[Mount("/api", inside)]), REWRITTEN), (around, BODY), (outer, REWRITTEN)):
        assert TestClient(app).get("/api/v1/x", headers=ASK).content == expected


# Apps that compress.


@pytest.fixture
def unwarned() -> Iterator[None]:
    _responder.warn_of_packed_bodies.cache_clear()
    yield
    _responder.warn_of_packed_bodies.cache_clear()


@pytest.mark.usefixtures("unwarned")
async def test_bodies_that_are_packed_inside_are_warned_of_once(caplog: Log) -> None:
    packed = answering(BODY, headers=[JSON, (b"content-encoding", b"gzip")])
    await ask(packed, scope=http_scope())
    await ask(answering(BODY, headers=[(b"content-type", b"text/html"), (b"content-encoding", b"gzip")]))
    assert not caplog.records
    for _ in range(3):
        await ask(packed)
    [record] = caplog.records
    assert (record.name, record.levelname) == ("ndwire_asgi", "WARNING")
    assert "hide_accept_encoding=True" in record.getMessage()


async def test_accept_encoding_is_hidden_where_envelopes_are_wanted() -> None:
    app = answering(BODY)
    encoding = (b"Accept-Encoding", b"gzip")
    for asked, hide, hidden in ((True, True, True), (True, False, False), (False, True, False)):
        scope = http_scope(encoding, *[ASKED] * asked)
        await ask(app, scope=scope, hide_accept_encoding=hide)
        assert (encoding in app.scope["headers"]) is not hidden
        assert encoding in scope["headers"]


@pytest.mark.usefixtures("unwarned")
def test_litestar_s_own_compression(caplog: Log) -> None:
    @get("/", media_type="application/json")
    async def answer() -> bytes:
        return BIG

    inner: Any = Litestar(
        [answer], logging_config=None, compression_config=CompressionConfig(backend="gzip", minimum_size=100)
    )
    for hide in (False, True):
        app: Any = NDArrayMiddleware(inner, [X], hide_accept_encoding=hide)
        outside = GZipMiddleware(app)
        with TestClient(outside) as client:
            asked = client.get("/", headers={**ASK, "Accept-Encoding": "gzip"})
            plain = client.get("/", headers={"Accept-Encoding": "gzip"})
        assert asked.headers["content-encoding"] == plain.headers["content-encoding"] == "gzip"
        assert plain.content == BIG
        assert (asked.content == BIG) is not hide
        assert np.array_equal(loads(asked.content, [X])["x"], orjson.loads(BIG)["x"])
        assert "Prefer" in plain.headers["vary"]
        assert "Accept-Encoding" in plain.headers["vary"]
    assert len(caplog.records) == 1


# Memory.

ROW = b"17," * 20_000
LIST = [b'{"x":[', *[ROW] * 10, b'0],"y":[1]}']
Y = Field("y", dtypes=("uint8",))
REST = b'0],"y":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'


async def test_all_responses_together_hold_so_much(caplog: Log) -> None:
    gates = [anyio.Event(), anyio.Event()]
    halfway = [anyio.Event(), anyio.Event()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        number = int(scope["path"][1:])
        await send(start(JSON))
        for part in LIST[:8]:
            await send(body(part, more=True))
        halfway[number].set()
        await gates[number].wait()
        for part in LIST[8:]:
            await send(body(part, more=True))
        await send(body(b""))

    middleware = NDArrayMiddleware(app, [X, Y], max_held_bytes_total=700_000)
    results: list[Exchange] = [Exchange(), Exchange()]
    async with anyio.create_task_group() as tasks:
        for number in (0, 1):
            tasks.start_soon(
                middleware, http_scope(ASKED, path=f"/{number}"), results[number].receive, results[number].send
            )
            await halfway[number].wait()
        assert len(caplog.records) == 1
        gates[1].set()
        gates[0].set()
    first, second = (result.body for result in results)
    assert loads(first, [X, Y])["x"].shape == (200_001,)
    assert second == b"".join(LIST[:-1]) + REST
    assert "max_held_bytes_total" in caplog.text
    # What is over is free again, and what could not be held is not told twice.
    for _ in range(3):
        gates[:] = [anyio.Event(), anyio.Event()]
        gates[0].set()
        assert (await exchange(middleware, http_scope(ASKED, path="/0"))).body == first
    assert len(caplog.records) == 1


async def test_values_that_are_complete_at_once_count_as_well(caplog: Log) -> None:
    for headers in ([JSON], [JSON, (b"content-length", b"%d" % len(BIG))]):
        app = NDArrayMiddleware(answering(BIG, headers=headers), [X], max_held_bytes_total=len(BIG) - 100)
        for _ in range(2):
            assert (await exchange(app, http_scope(ASKED))).body == BIG
        assert (await ask(app.app, max_held_bytes_total=len(BIG))).body != BIG
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_small_values_are_always_held() -> None:
    assert (await ask(answering(BODY[:8], BODY[8:]), max_held_bytes_total=0)).body == REWRITTEN


async def test_a_document_that_waits_for_its_length_counts() -> None:
    for total, kept in ((len(BIG) - 1, False), (len(BIG), True)):
        app = answering(BIG[:100], BIG[100:], headers=[JSON, (b"content-length", b"%d" % len(BIG))])
        result = await ask(app, scope=http_scope(ASKED, http_version="1.0"), max_held_bytes_total=total)
        assert (result.body != BIG) is kept
        assert np.array_equal(loads(result.body, [X])["x"], orjson.loads(BIG)["x"])


@pytest.mark.parametrize("length", [len(BIG), len(BIG) + 1])
async def test_a_document_that_waits_for_its_length_counts_until_it_is_sent(length: int) -> None:
    waiting = [anyio.Event(), anyio.Event()]
    gate = anyio.Event()
    out: list[list[bytes]] = [[], []]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON, (b"content-length", b"%d" % length)))
        await send(body(BIG[:100], more=True))
        await send(body(BIG[100:]))

    async def run(number: int) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                out[number].append(message["body"])
                waiting[number].set()
                await gate.wait()

        await middleware(http_scope(ASKED, http_version="1.0"), Exchange().receive, send)

    middleware = NDArrayMiddleware(app, [X], max_held_bytes_total=len(BIG) + 1)
    for _ in range(2):
        waiting[:] = [anyio.Event(), anyio.Event()]
        out[:] = [[], []]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, 0)
            await waiting[0].wait()
            tasks.start_soon(run, 1)
            await waiting[1].wait()
            gate.set()
        gate = anyio.Event()
        # The first was kept and is not sent yet; so there is no room for the second.
        assert b"".join(out[1]) == BIG
        assert (b"".join(out[0]) != BIG) is (length == len(BIG))


async def test_what_a_task_sends_after_the_app_has_returned_is_not_held() -> None:
    class Background:
        def __init__(self) -> None:
            self.send: Any = None

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send(start(JSON))
            self.send = send
            if scope["path"] == "/whole":
                await send(body(BIG))

    app = Background()
    middleware = NDArrayMiddleware(app, [X], max_held_bytes_total=len(BIG))
    for _ in range(5):
        result = Exchange()
        await middleware(http_scope(ASKED), result.receive, result.send)
        await app.send(body(b'{"x":[' + b"1," * 100_000, more=True))
        assert b"".join(result.bodies) == b'{"x":[' + b"1," * 100_000
    # There is room for all that may be held.
    assert (await exchange(middleware, http_scope(ASKED, path="/whole"))).body != BIG


@pytest.mark.parametrize("failing", [False, True])
async def test_a_response_that_is_given_up_holds_nothing_any_more(failing: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON))
        for part in LIST[:-1] if scope["path"] == "/broken" else LIST:
            await send(body(part, more=True))
        if scope["path"] == "/broken":
            if failing:
                raise KeyError("the app's own")
            return
        await send(body(b""))

    middleware = NDArrayMiddleware(app, [X], max_held_bytes_total=700_000)
    for _ in range(3):
        try:
            await exchange(middleware, http_scope(ASKED, path="/broken"))
        except KeyError:
            assert failing
        assert loads((await exchange(middleware, http_scope(ASKED))).body, [X])["x"].shape == (200_001,)


async def test_a_list_is_held_up_to_32_mib() -> None:
    text = b'{"x":[%b0]}' % (b"17," * (12 << 20))
    assert (await ask(answering(text))).body == text


# Silence.

SLOW: dict[str, tuple[bytes, bytes]] = {
    "application/json": (b'{"a":"x","x":[1', b'[{"x":"k05VTVBZAQ'),
    "application/x-ndjson": (b'{"a":1}\n{"a":2,"x" : [1', b'{"r":"AAEC'),
    "text/event-stream": (b'data: {"x":[1', b'data:{"a":[],"x":{"k":1},"r":"AA'),
}
R = Field("r", wires=(), raw_dtype="uint8")


@pytest.mark.parametrize("media_type", SLOW)
async def test_a_space_goes_out_in_front_of_a_value_that_is_held_for_long(media_type: str) -> None:
    for text in SLOW[media_type]:
        for idle_seconds, spaces in ((0, 3), (1000, 0)):
            parts = [text, b"1", b"2", b"3", b"", b"4"]
            app = App(start((b"content-type", media_type.encode())), *(body(part, more=True) for part in parts))
            result = await ask(app, X, R, idle_seconds=idle_seconds)
            out = b"".join(result.bodies)
            assert out.endswith(b" " * spaces)
            held = text[len(out.rstrip()) :].lstrip()
            assert held[:1] in b'["'
            assert all(result.bodies[1:]) or not spaces


@pytest.mark.parametrize("media_type", SLOW)
async def test_spaces_change_no_document(media_type: str) -> None:
    text = (
        b'{"a":"\\"x\\":[","x":[1,2,3],"x" :[ [1], [2] ],"x":{"x":[7]},"r":"AAEC","b":{"x":"k05"},"x":[1,"x"],"r":"x"}'
    )
    framing: Any = {"application/json": "document", "application/x-ndjson": "lines"}.get(media_type, "events")
    if framing == "lines":
        text = text + b"\n" + text
    elif framing == "events":
        text = b'id: {"x":[1,2]}\ndata: %b\nevent: "r":"AA"\n\ndata:%b\n\n' % (text, text)
    app = answering(*(text[k : k + 1] for k in range(len(text))), headers=[(b"content-type", media_type.encode())])
    result = await ask(app, X, R, idle_seconds=0)
    expected = rewrite(text, [X, R], framing=framing)
    assert result.body != expected
    lines = [line.removeprefix(b"data:") for line in result.body.split(b"\n")]
    for line, other in zip(lines, expected.split(b"\n"), strict=True):
        other = other.removeprefix(b"data:")
        assert line == other or orjson.loads(line) == orjson.loads(other)


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson", "text/event-stream"])
@pytest.mark.parametrize("idle_seconds", [0.2, 1000])
def test_a_client_that_does_not_wait_for_long(media_type: str, idle_seconds: float) -> None:
    opening = b'data: {"x":[' if media_type == "text/event-stream" else b'{"x":['

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", media_type.encode())))
        await send(body(opening, more=True))
        for row in range(20):
            await asyncio.sleep(0.1)
            await send(body(b"[%d,%d]%b" % (row, row, b"," if row < 19 else b"]}\n\n"), more=True))
        await send(body(b""))

    with serving(NDArrayMiddleware(app, [X], idle_seconds=idle_seconds)) as url:
        client = httpx.Client(timeout=httpx.Timeout(10, read=1.2), headers=ASK)
        with client:
            if idle_seconds == 1000:
                with pytest.raises(httpx.ReadTimeout):
                    client.get(url)
                return
            text = client.get(url).content
    document = loads(text.removeprefix(b"data:").strip(), [X])
    assert document["x"].tolist() == [[row, row] for row in range(20)]
    assert 2 <= text.count(b" ") <= 12


# NDArrayResponse as a JSONResponse.


def test_fastapi_s_schema_does_not_call_it_a_string() -> None:
    class Scores(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        name: str
        scores: np.ndarray[Any, Any]

    def dumped(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return value.model_dump()
        raise TypeError

    app = FastAPI()

    @app.get("/scores", response_class=NDArrayResponse)
    def scores() -> NDArrayResponse:
        return NDArrayResponse(Scores(name="a", scores=np.arange(3, dtype=np.int8)), default=dumped)

    @app.get("/model", response_class=NDArrayResponse, response_model=dict[str, list[int]])
    def model() -> NDArrayResponse:
        return NDArrayResponse({"x": np.arange(3)})

    client = TestClient(app)
    assert (
        client.get("/scores", headers=ASK).content
        == b'{"name":"a","scores":{"data":"AAEC","shape":[3],"dtype":"int8"}}'
    )
    assert client.get("/scores").json() == {"name": "a", "scores": [0, 1, 2]}
    assert client.get("/model").json() == {"x": [0, 1, 2]}
    paths = client.get("/openapi.json").json()["paths"]
    schemas = [paths[path]["get"]["responses"]["200"]["content"]["application/json"]["schema"] for path in paths]
    assert schemas[0] == {}
    assert schemas[1]["type"] == "object"


def test_what_a_compressing_middleware_outside_packs_is_an_envelope() -> None:
    app: Any = GZipMiddleware(NDArrayMiddleware(answering(BIG), [X]))
    result = anyio.run(lambda: exchange(app, http_scope(ASKED, (b"accept-encoding", b"gzip"))))
    assert result.headers[b"content-encoding"] == b"gzip"
    assert np.array_equal(loads(zlib.decompress(result.body, 31), [X])["x"], orjson.loads(BIG)["x"])
