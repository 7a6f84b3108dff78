"""The middleware, message by message."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import numpy as np
import orjson
import pytest

from ndwire import Field, Rewriter, dumps, loads, rewrite
from ndwire_asgi import NDArrayMiddleware, NDArrayResponse, Rewritten, _conversion, _responder, prefers_envelope
from support.apps import BIG, BODY, JSON, REWRITTEN, App, Headers, X, answering, ask, body, start
from support.asgi import ASKED, Exchange, Message, exchange, http_scope

Log = pytest.LogCaptureFixture
TAG = (b"etag", b'"v1"')


@pytest.fixture(params=["asyncio", "trio"], autouse=True)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


pytestmark = pytest.mark.anyio


async def test_asked() -> None:
    headers = [JSON, (b"Content-Length", b"%d" % len(BODY)), (b"x-k", b"v")]
    result = await ask(answering(BODY, headers=headers))
    assert result.body == REWRITTEN
    assert result.messages[0]["headers"] == [
        JSON,
        (b"x-k", b"v"),
        (b"vary", b"Prefer"),
        (b"preference-applied", b"ndarray=envelope"),
        (b"content-length", b"%d" % len(REWRITTEN)),
    ]


async def test_not_asked() -> None:
    app = answering(BODY, headers=[JSON, (b"content-length", b"21"), (b"etag", b'"a"')])
    result = await ask(app, scope=http_scope())
    assert result.messages == [
        {**app.messages[0], "headers": [*app.messages[0]["headers"], (b"vary", b"Prefer")]},
        app.messages[1],
    ]


async def test_nothing_of_an_unasked_response_changes_but_vary() -> None:
    for headers, status in (([JSON], 204), ([(b"content-type", b"text/html")], 200), ([], 200)):
        app = answering(BODY, headers=headers, status=status)
        assert (await ask(app, scope=http_scope())).messages == list(app.messages)


UNTOUCHED: dict[str, App] = {
    "another media type": answering(BODY, headers=[(b"content-type", b"text/plain")]),
    "json-like media type": answering(BODY, headers=[(b"content-type", b"application/json5")]),
    "text json": answering(BODY, headers=[(b"content-type", b"text/x+json")]),
    "no media type": answering(BODY, headers=[]),
    "204": answering(b"", status=204),
    "205 without type": answering(b"", headers=[], status=205),
    "applied before": answering(BODY, headers=[JSON, (b"Preference-Applied", b"respond-async, ndarray=envelope")]),
    "103": App(start(JSON, status=103)),
    "no messages": App(),
    "trailers before": App({"type": "http.response.trailers"}),
}


@pytest.mark.parametrize("name", UNTOUCHED)
async def test_passes_untouched(name: str) -> None:
    assert (await ask(UNTOUCHED[name])).messages == list(UNTOUCHED[name].messages)


async def test_identity_is_no_encoding() -> None:
    assert (await ask(answering(BODY, headers=[JSON, (b"content-encoding", b"Identity")]))).body == REWRITTEN


async def test_another_preference_that_was_applied() -> None:
    result = await ask(answering(BODY, headers=[JSON, (b"preference-applied", b"respond-async")]))
    assert result.body == REWRITTEN
    assert [value for name, value in result.messages[0]["headers"] if name == b"preference-applied"] == [
        b"respond-async",
        b"ndarray=envelope",
    ]


async def test_what_is_said_about_the_old_bytes_goes() -> None:
    stale = (b"Content-MD5", b"Digest", b"content-digest", b"Repr-Digest", b"accept-ranges")
    headers = [JSON, *((name, b"1") for name in stale), (b"ETag", b'"a"'), (b"etag", b'W/"b"'), (b"vary", b"Origin")]
    result = await ask(answering(BODY, headers=headers))
    assert result.messages[0]["headers"] == [
        JSON,
        (b"ETag", b'W/"a-ndarray"'),
        (b"etag", b'W/"b-ndarray"'),
        (b"vary", b"Origin, Prefer"),
        (b"preference-applied", b"ndarray=envelope"),
    ]


async def test_head() -> None:
    app = answering(b"", headers=[JSON, (b"content-length", b"21"), (b"etag", b'"a"')])
    result = await ask(app, scope=http_scope(ASKED, method="HEAD"))
    assert result.messages[0]["headers"] == [
        JSON,
        (b"etag", b'W/"a-ndarray"'),
        (b"vary", b"Prefer"),
        (b"preference-applied", b"ndarray=envelope"),
    ]
    assert result.messages[1:] == list(app.messages[1:])


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
async def test_other_scopes(kind: str) -> None:
    app = App({"type": f"{kind}.something"})
    scope = {"type": kind, "headers": [ASKED], "path": "/"}
    result = await ask(app, scope=scope)
    assert app.scope is scope
    assert result.messages == list(app.messages)
    assert scope == {"type": kind, "headers": [ASKED], "path": "/"}


# Lengths.


@pytest.mark.parametrize(
    ("bodies", "declared", "length"),
    [
        ([BODY], len(BODY), len(REWRITTEN)),
        ([BODY, b""], len(BODY), len(REWRITTEN)),
        ([BODY[:7], BODY[7:]], len(BODY), None),
        ([b"", BODY], len(BODY), None),
        ([BODY], None, None),
    ],
)
async def test_the_length_is_exact_or_absent(bodies: list[bytes], declared: int | None, length: int | None) -> None:
    headers = [JSON] if declared is None else [JSON, (b"content-length", b"%d" % declared)]
    result = await ask(answering(*bodies, headers=headers))
    assert result.body == REWRITTEN
    assert result.headers.get(b"content-length") == (None if length is None else b"%d" % length)


async def test_large_bodies_with_a_length_go_out_in_several_messages() -> None:
    values = np.arange(600_000, dtype=np.int32) * 7
    text = b'{"x":%b}' % orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    field = Field("x", dtypes=("int32",))
    for bodies in ([text], [text, b""]):
        app = answering(*bodies, headers=[JSON, (b"content-length", b"%d" % len(text))])
        result = await ask(app, field)
        assert int(result.headers[b"content-length"]) == len(result.body)
        assert np.array_equal(loads(result.body, [field])["x"], values)
        assert len(result.messages) > 8
        assert max(map(len, result.bodies)) < 1 << 20


# Streaming.


@pytest.mark.parametrize("headers", [[JSON], [JSON, (b"content-length", b"21")]])
@pytest.mark.parametrize("empty", [False, True])
async def test_one_byte_at_a_time(headers: Headers, empty: bool) -> None:
    pieces = [BODY[k : k + 1] for k in range(len(BODY))]
    if empty:
        pieces = [part for piece in pieces for part in (b"", piece)] + [b""]
    result = await ask(answering(*pieces, headers=headers))
    assert result.body == REWRITTEN


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: memoryview(bytes(2 * len(data)))[::2]])
async def test_kinds_of_bytes(wrap: Callable[[bytes], Any]) -> None:
    result = await ask(App(start(JSON), body(wrap(BODY))))
    assert result.body == rewrite(bytes(wrap(BODY)), [X])


async def test_messages_with_keys_left_out() -> None:
    result = await ask(App({"type": "http.response.start", "status": 200}, {"type": "http.response.body"}))
    assert result.messages == [{"type": "http.response.start", "status": 200}, {"type": "http.response.body"}]
    result = await ask(App(start(JSON), body(BODY, more=True), {"type": "http.response.body"}))
    assert result.body == REWRITTEN


@pytest.mark.parametrize("scope", [http_scope(ASKED), http_scope()])
async def test_headers_from_an_iterator(scope: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for kind in ((JSON,), ((b"content-type", b"text/html"),)):
            headers = (header for header in kind)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(body(b"{}"))

    result = await ask(app, scope=scope)
    assert result.messages[0]["headers"][0] == JSON
    for headers in ([(b"content-type", b"text/html")], []):
        message = {"type": "http.response.start", "status": 200, "headers": iter(headers)}
        result = await ask(App(message), scope=dict(scope))
        assert list(result.messages[0]["headers"]) == headers


async def test_an_event_goes_on_before_the_app_sends_the_next() -> None:
    sent: list[Message] = []
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", b"text/event-stream")))
        assert len(sent) == 1
        for number in range(5):
            await send(body(b'data: {"x":[%d]}\n\n' % number, more=True))
            seen.append(len(sent))
        await send(body(b""))

    async def send(message: Message) -> None:
        sent.append(message)

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), Exchange().receive, send)
    assert seen == [2, 3, 4, 5, 6]
    events = b"".join(message["body"] for message in sent[1:])
    assert events.count(b'"shape":[1],"dtype":"uint8"}}\n\n') == 5


async def test_the_head_goes_on_even_where_the_first_bytes_are_held() -> None:
    app = answering(b'"x', b'":[1]')
    result = await ask(app)
    assert result.bodies == [b"", b'"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}']


async def test_backpressure_reaches_the_app() -> None:
    busy = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON))
        for _ in range(3):
            await send(body(BODY, more=True))
            assert not busy
        await send(body(b""))

    async def send(message: Message) -> None:
        nonlocal busy
        busy = True
        await anyio.sleep(0.001)
        busy = False

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), Exchange().receive, send)


async def test_two_tasks_take_turns() -> None:
    result = Exchange()

    async def slow(message: Message) -> None:
        await anyio.sleep(0.0005)
        await result.send(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", b"text/event-stream")))

        async def events(name: bytes) -> None:
            for number in range(6):
                await send(body(b'data: {"n":"%b%d","x":%b}\n\n' % (name, number, BIG[5:-9]), more=True))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events, b"a")
            tasks.start_soon(events, b"b")
            tasks.start_soon(events, b"c")
        await send(body(b""))

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), result.receive, slow)
    lines = [line for line in result.body.split(b"\n\n") if line]
    names = {loads(line[6:], [X])["n"] for line in lines}
    assert len(lines) == len(names) == 18


async def test_a_task_that_gives_up_its_turn() -> None:
    gate = anyio.Event()
    result = Exchange()

    async def slow(message: Message) -> None:
        await gate.wait()
        await result.send(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", b"text/event-stream")))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, body(b"data: 1\n\n", more=True))
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.001) as cancelled:
                await send(body(b"data: 2\n\n", more=True))
            assert cancelled.cancelled_caught
            tasks.start_soon(send, body(b"data: 3\n\n"))
            await anyio.wait_all_tasks_blocked()
            gate.set()

    async def server(message: Message) -> None:
        await (slow if message["type"] == "http.response.body" else result.send)(message)

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), result.receive, server)
    assert result.body == b"data: 1\n\ndata: 3\n\n"


async def test_a_task_that_is_cancelled_as_its_turn_comes(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("asyncio alone cancels what is let go on")
    result = Exchange()
    gate = anyio.Event()

    async def slow(message: Message) -> None:
        if message.get("body") == b"data: 1\n\n":
            await gate.wait()
        await result.send(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start((b"content-type", b"text/event-stream")))
        second: Any = None

        async def first() -> None:
            await send(body(b"data: 1\n\n", more=True))
            second.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await anyio.wait_all_tasks_blocked()
            second = asyncio.create_task(send(body(b"data: 2\n\n", more=True)))
            await anyio.wait_all_tasks_blocked()
            gate.set()
        with pytest.raises(asyncio.CancelledError):
            await second
        await send(body(b"data: 3\n\n"))

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), result.receive, slow)
    assert result.body == b"data: 1\n\ndata: 3\n\n"


async def test_a_last_message_that_waits_behind_the_last() -> None:
    gate = anyio.Event()
    result = Exchange()

    async def send(message: Message) -> None:
        if message.get("body"):
            await gate.wait()
        await result.send(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, body(BODY))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(send, body(b"late"))
            await anyio.wait_all_tasks_blocked()
            gate.set()

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), result.receive, send)
    assert result.bodies == [REWRITTEN, b"late"]


async def test_other_messages_go_on_at_once() -> None:
    early, debug = {"type": "http.response.early_hint"}, {"type": "http.response.debug", "info": 1}
    push, trailers = {"type": "http.response.push"}, {"type": "http.response.trailers", "headers": [(b"a", b"b")]}
    length = (b"content-length", b"%d" % len(BODY))
    app = App(
        early, start(JSON, length, trailers=True), debug, body(BODY[:6], more=True), push, body(BODY[6:]), trailers
    )
    result = await ask(app)
    assert [message["type"].rpartition(".")[2] for message in result.messages] == [
        "early_hint",
        "debug",
        "start",
        "body",
        "push",
        "body",
        "trailers",
    ]
    assert result.messages[2]["trailers"] is True
    assert result.messages[-1] is trailers


# Files.


async def test_an_asked_app_is_not_offered_pathsend() -> None:
    extensions: dict[str, Any] = {
        "http.response.pathsend": {},
        "http.response.zerocopysend": {},
        "http.response.trailers": {},
    }
    for headers, kept in (((ASKED,), ["http.response.trailers"]), ((), list(extensions))):
        app = answering(BODY)
        scope = http_scope(*headers, extensions=dict(extensions))
        await ask(app, scope=scope)
        assert list(app.scope["extensions"]) == kept
        assert scope["extensions"] == extensions
        assert (app.scope is scope) is (not headers)
    scope = http_scope(ASKED, extensions={"http.response.trailers": {}})
    app = answering(BODY)
    await ask(app, scope=scope)
    assert app.scope is scope


@pytest.mark.parametrize("headers", [[JSON], [JSON, (b"content-length", b"21")]])
async def test_an_app_that_sends_a_path_all_the_same(headers: Headers) -> None:
    path = {"type": "http.response.pathsend", "path": "/nowhere"}
    app = App(start(*headers), path)
    result = await ask(app)
    if len(list(headers)) == 2:
        assert result.messages[0]["headers"] == [*headers, (b"vary", b"Prefer")]
    assert result.messages[1] is path


# Whose arrays, and for whom.


@pytest.mark.parametrize(
    ("path", "root_path", "name"),
    [
        ("/v1", "", "x"),
        ("/v1/", "", "x"),
        ("/v1/completions", "", "x"),
        ("/v1/embeddings", "", "y"),
        ("/v1/embeddings/2", "", "y"),
        ("/v1/embeddingsx", "", "x"),
        ("/v10", "", "z"),
        ("/", "", "z"),
        ("/none/a", "", ""),
        ("/api/v1/completions", "/api", "x"),
        ("/api/v1/completions", "/api/", "x"),
        ("/v1/completions", "/api", "x"),
        ("/apiv1/completions", "/api", "z"),
        ("/v1", "/v1", "z"),
        ("/v1/v1", "/v1", "x"),
    ],
)
async def test_the_longest_prefix_counts(path: str, root_path: str, name: str) -> None:
    fields = {
        "/v1": [X],
        "/": [Field("z", dtypes=("uint8",))],
        "/v1/embeddings/": [Field("y", dtypes=("uint8",))],
        "/none": (),
    }
    text = b'{"x":[1],"y":[1],"z":[1]}'
    scope = http_scope(ASKED, path=path, root_path=root_path)
    result = await exchange(NDArrayMiddleware(answering(text), fields), scope)
    assert [key for key, value in orjson.loads(result.body).items() if isinstance(value, dict)] == list(name)
    assert (b"vary" in result.headers) is bool(name)


async def test_without_fields_nothing_is_touched() -> None:
    choices: list[Any] = [[], {}, {"/other": [X]}]
    for fields in choices:
        app, scope = answering(BODY), http_scope(ASKED)
        result = await exchange(NDArrayMiddleware(app, fields), scope)
        assert result.messages == list(app.messages)
        assert "ndwire_asgi" not in scope


@pytest.mark.parametrize("asked", [False, True])
async def test_always(asked: bool) -> None:
    result = await ask(answering(BODY), scope=http_scope(*[ASKED] * asked), when="always")
    assert result.body == REWRITTEN
    assert b"vary" not in result.headers
    assert (b"preference-applied" in result.headers) is asked


async def test_a_function_of_the_scope_decides() -> None:
    def when(scope: Mapping[str, Any]) -> bool:
        return scope["path"] == "/yes" or (scope["path"] == "/maybe" and prefers_envelope(scope))

    for path, asked, expected in (
        ("/yes", False, True),
        ("/yes", True, True),
        ("/maybe", False, False),
        ("/maybe", True, True),
        ("/no", True, False),
    ):
        app = answering(BODY)
        result = await ask(app, scope=http_scope(*[ASKED] * asked, path=path), when=when)
        assert (result.body == REWRITTEN) is expected
        assert (b"preference-applied" in result.headers) is (expected and asked)
        if not expected:
            assert result.messages == [{**app.messages[0], "headers": [JSON, (b"vary", b"Prefer")]}, app.messages[1]]


# With NDArrayResponse.


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("when", ["preferred", "always", lambda scope: scope["path"] == "/"])
async def test_a_response_takes_the_decision(asked: bool, when: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Counted(Rewriter):
        __slots__ = ()

        def feed(self, data: Any) -> Any:
            made.append(self)
            return super().feed(data)

    monkeypatch.setattr(_conversion, "Rewriter", Counted)
    content = {"x": np.arange(3, dtype=np.uint8)}
    outer = NDArrayMiddleware(NDArrayResponse(content, when="preferred"), [X], when=when)
    result = await exchange(outer, http_scope(*[ASKED] * asked))
    alone = await exchange(NDArrayResponse(content, when=when), http_scope(*[ASKED] * asked))
    assert result.body == alone.body == (dumps(content) if asked or when != "preferred" else b'{"x":[0,1,2]}')
    assert result.messages[0]["headers"] == alone.messages[0]["headers"]
    assert not made


@pytest.mark.parametrize("when", ["preferred", "always"])
async def test_middlewares_within_each_other_work_once(when: Any) -> None:
    outer_fields = [X, Field("y", wires=(), raw_dtype="uint8")]
    for status, app in ((200, answering(BODY, headers=[JSON, TAG])), (304, answering(b"", headers=[TAG], status=304))):
        outer = NDArrayMiddleware(NDArrayMiddleware(app, [X], when=when), outer_fields, when=when)
        scope = http_scope(ASKED, (b"if-none-match", b'W/"v1-ndarray"'))
        result = await exchange(outer, scope)
        assert (b"if-none-match", b'"v1"') in app.scope["headers"]
        assert result.body == (REWRITTEN if status == 200 else b"")
        assert result.headers[b"etag"] == b'W/"v1-ndarray"'
        assert result.headers.get(b"vary") == (b"Prefer" if when == "preferred" else None)


async def test_no_state_is_shared() -> None:
    middleware = NDArrayMiddleware(answering(*[BODY[k : k + 1] for k in range(len(BODY))]), [X])
    before = dict(vars(middleware))
    results: list[Exchange] = []

    async def one() -> None:
        results.append(await exchange(middleware, http_scope(ASKED)))

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
    assert [result.body for result in results] == [REWRITTEN] * 10
    assert vars(middleware) == before


# Faults.


async def test_an_app_that_fails_before_the_start() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("the app's own")

    with pytest.raises(KeyError, match="the app's own"):
        await ask(app)


@pytest.mark.parametrize("headers", [[JSON], [JSON, (b"content-length", b"21")]])
async def test_an_app_that_fails_within_the_body(headers: Headers) -> None:
    result = Exchange()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(*headers))
        await send(body(b'{"y":1,"x":[1,', more=True))
        raise KeyError("the app's own")

    with pytest.raises(KeyError, match="the app's own"):
        await NDArrayMiddleware(app, [X])(http_scope(ASKED), result.receive, result.send)
    assert result.bodies == [b'{"y":1,"x":']
    assert result.messages[-1]["more_body"] is True


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("headers", [[JSON], [JSON, (b"content-length", b"%d" % len(BIG))]])
async def test_a_send_that_fails(at: int, headers: Headers) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        if len(sent) == at:
            raise OSError("the client is gone")
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(*headers))
        try:
            await send(body(BIG, more=True))
            await send(body(BIG, more=True))
        except OSError:
            # Nothing more may go out: bytes are missing.
            await send(body(b"", more=True))
            await send(body(b"more"))
            raise

    with pytest.raises(OSError, match="the client is gone"):
        await NDArrayMiddleware(app, [X])(http_scope(ASKED), Exchange().receive, send)
    assert len(sent) == at
    assert all(message.get("more_body", True) for message in sent)


async def test_a_send_that_is_cancelled_ends_the_body() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        if message.get("body"):
            await anyio.sleep_forever()
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON))
        with anyio.move_on_after(0.01):
            await send(body(BODY, more=True))
        await send(body(b""))

    await NDArrayMiddleware(app, [X])(http_scope(ASKED), Exchange().receive, send)
    assert [message["type"] for message in sent] == ["http.response.start"]


async def test_a_client_that_leaves_while_a_thread_runs() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(JSON))
        with anyio.move_on_after(0.005) as cancelled:
            await send(body(BIG * 20))
        assert cancelled.cancelled_caught

    before = time.monotonic()
    await ask(app)
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("name", ["read", "envelope", "scan", "thread", "plan", "rewriter"])
async def test_a_fault_of_ours_lets_the_body_out_as_it_came(
    name: str, declared: bool, at: int, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    from ndwire._scanning.scanner import Scanner
    from ndwire._writing import held

    places: dict[str, tuple[Any, str]] = {
        "read": (held, "read"),
        "envelope": (held, "envelope"),
        "scan": (Scanner, "_scan"),
        "thread": (anyio.to_thread, "run_sync"),
        "plan": (_responder, "envelope_plan"),
        "rewriter": (_conversion, "Rewriter"),
    }
    owner, attribute = places[name]
    real = getattr(owner, attribute)
    calls = 0

    @functools.wraps(real)
    def failing(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= at:
            raise RuntimeError("forced")
        return real(*args, **options)

    value = BIG[5:-9]
    bodies = [b'{"a":{"x":%b},"x":[1,' % value, b'2],"b":{"x":%b}' % value, b',"c":{"x":[3]}}', b""]
    text = b"".join(bodies)
    headers = [JSON, (b"content-length", b"%d" % len(text))] if declared else [JSON]
    if declared:
        bodies = [text]
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "ndwire_asgi"):
        patch.setattr(owner, attribute, failing)
        result = await ask(answering(*bodies, headers=headers))
    if calls < at:
        assert at > 1
        assert result.body == rewrite(text, [X])
        return
    [record] = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "ndwire_asgi")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "forced"
    document = loads(result.body, [X])
    assert np.array_equal(document["a"]["x"], orjson.loads(value))
    assert np.array_equal(document["b"]["x"], orjson.loads(value))
    assert (document["x"].tolist(), document["c"]["x"].tolist()) == ([1, 2], [3])
    if at == 1:
        assert result.body.endswith(text[-len(value) - 20 :])
    if declared:
        assert int(result.headers[b"content-length"]) == len(result.body)


async def test_the_first_fault_counts(monkeypatch: pytest.MonkeyPatch, caplog: Log) -> None:
    from ndwire._writing import held

    def failing(*_: Any) -> Any:
        raise RuntimeError("forced")

    value = BIG[5 : 5 + 100_000].rpartition(b",")[0] + b"]"
    text = b'[{"x":%b},{"x":%b},{"x":[1,2]}]' % (value, value)
    monkeypatch.setattr(held, "read", failing)
    assert (await ask(answering(text))).body.startswith(text[:-8])
    assert len(caplog.records) == 1


async def test_headers_that_are_none(caplog: Log) -> None:
    app = App({"type": "http.response.start", "status": 200, "headers": [(b"content-type", 7)]}, body(b"x"))
    for scope in (http_scope(ASKED), http_scope()):
        assert (await ask(app, scope=scope)).messages == list(app.messages)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def test_a_check_runs_in_a_thread_and_may_fail(caplog: Log) -> None:
    import threading

    threads: list[Any] = []

    def check(array: Any) -> None:
        threads.append(threading.current_thread())
        raise [ValueError, ZeroDivisionError][len(threads) % 2]("no")

    text = b'[{"x":[1]},{"x":[2]}]'
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        result = await ask(answering(text), Field("x", dtypes=("uint8",), check=check))
    assert result.body == text
    assert threading.main_thread() not in threads
    assert len(threads) == 2
    assert [record.levelname for record in caplog.records] == ["DEBUG"] * 3


# What is told.


async def test_what_was_rewritten_is_told(caplog: Log) -> None:
    told: list[Rewritten] = []
    text = b'{"a":{"x":%b},"x":[1],"y":[1]}' % BIG[5:-9]
    fields = [X, Field("y", dtypes=("int8",))]
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        result = await ask(answering(text[:50], text[50:]), *fields, on_rewrite=told.append)
    [facts] = told
    assert facts.fields == {"x": 2, "y": 1}
    assert (facts.n_bytes_before, facts.n_bytes_after) == (len(text), len(result.body))
    assert 0 < facts.seconds < 30
    assert facts.scope["path"] == "/"
    [record] = caplog.records
    assert (record.name, record.levelname) == ("ndwire_asgi", "DEBUG")
    assert f"{len(text)} bytes became {len(result.body)}" in record.getMessage()


async def test_the_hook_is_not_called_where_nothing_was_rewritten(caplog: Log) -> None:
    told: list[Rewritten] = []
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        await ask(answering(BODY), scope=http_scope(), on_rewrite=told.append)
        assert not caplog.records
        await ask(answering(b'{"y":1}'), on_rewrite=told.append)
    assert not told
    assert [record.levelname for record in caplog.records] == ["DEBUG"]


async def test_a_hook_that_fails(caplog: Log) -> None:
    def hook(facts: Rewritten) -> None:
        raise KeyError("mine")

    assert (await ask(answering(BODY), on_rewrite=hook)).body == REWRITTEN
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_arguments_are_checked() -> None:
    async def coroutine(_: Any) -> bool:
        return True

    bad: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ([Field("x")], {}, ValueError, "dtypes must be named"),
        ({"/a": [Field("x")]}, {}, ValueError, "dtypes must be named"),
        ([X, X], {}, ValueError, "registered twice"),
        (["x"], {}, TypeError, "sequence of Field"),
        ({"a": [X]}, {}, ValueError, "begins with a slash"),
        ({1: [X]}, {}, ValueError, "begins with a slash"),
        ({"/a": [X], "/a/": []}, {}, ValueError, "twice"),
        ([X], {"when": "never"}, ValueError, "when must be"),
        ([X], {"when": coroutine}, TypeError, "plain function"),
        ([X], {"on_rewrite": coroutine}, TypeError, "plain function"),
        ([X], {"on_rewrite": 3}, TypeError, "plain function"),
        ([X], {"max_hold_bytes": -1}, ValueError, "max_hold_bytes"),
        ([X], {"max_held_bytes_total": -1}, ValueError, "max_held_bytes_total"),
        ([X], {"min_bytes": -1}, ValueError, "min_bytes"),
        ([X], {"idle_seconds": -1}, ValueError, "idle_seconds"),
        ([X], {"content_types": {"text/x": "file"}}, ValueError, "content_types"),
        ([X], {"content_types": {"text": "lines"}}, ValueError, "content_types"),
        ([X], {"content_types": {"text/x; charset=utf-8": "lines"}}, ValueError, "content_types"),
    ]
    for fields, options, kind, message in bad:
        with pytest.raises(kind, match=message):
            NDArrayMiddleware(answering(), fields, **options)
    assert NDArrayMiddleware(app=answering(), fields=[X]).when == "preferred"


async def test_long_values_go_out_as_they_came_beyond_the_bound() -> None:
    text = b'{"x":[1,2,3,4],"z":{"x":[1]}}'
    for bodies in ([text], [text[:8], text[8:11], text[11:]]):
        result = await ask(answering(*bodies), max_hold_bytes=5)
        assert result.body == text.replace(b"[1]", b'{"data":"AQ==","shape":[1],"dtype":"uint8"}')


async def test_random_bodies_in_random_messages() -> None:
    from fuzz.generate import REWRITING, mutated, seeds, written
    from support.chunking import partition

    bodies = seeds()
    chance = random.Random(5)
    for _ in range(300):
        text = mutated(chance, bodies) if chance.random() < 0.5 else written(chance)
        fields = chance.choice(REWRITING)
        lines = chance.random() < 0.3
        cuts = [chance.randrange(len(text) + 1) for _ in range(chance.randrange(4))]
        media_type = b"application/jsonl" if lines else b"application/json"
        headers = [(b"content-type", media_type)]
        if chance.random() < 0.5:
            headers.append((b"content-length", b"%d" % len(text)))
        result = await ask(answering(*partition(text, cuts), headers=headers), *fields)
        assert result.body == rewrite(text, fields, framing="lines" if lines else "document")
        length = result.headers.get(b"content-length")
        assert length is None or int(length) == len(result.body)
