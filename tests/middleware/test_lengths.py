"""Bodies that are not as long as their apps said, and clients that need to know how long they are."""

from __future__ import annotations

import http.client
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ndwire import rewrite
from ndwire_asgi import NDArrayMiddleware
from support.apps import BODY, JSON, REWRITTEN, App, Headers, X, answering, ask, body, start
from support.asgi import ASKED, Exchange, http_scope
from support.servers import served

pytestmark = pytest.mark.anyio
LINES = (b"content-type", b"application/x-ndjson")
EVENTS = (b"content-type", b"text/event-stream")
LINE = b'{"x":[1,2,3]}\n'
NEW_LINE = b'{"x":{"data":"AQID","shape":[3],"dtype":"uint8"}}\n'
BY_PREFER = (b"vary", b"Prefer")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def declaring(n_bytes: int, *bodies: bytes, kind: tuple[bytes, bytes] = JSON, last: bool = True) -> App:
    parts = [body(data, more=not last or k < len(bodies) - 1) for k, data in enumerate(bodies)]
    return App(start(kind, (b"content-length", b"%d" % n_bytes)), *parts)


async def failing(app: App, *, match: str, **more: Any) -> Exchange:
    """Run an app that gets an error from ``send``; return what went out before."""
    result = Exchange()
    with pytest.raises(RuntimeError, match=match):
        await NDArrayMiddleware(app, [X])(http_scope(ASKED, **more), result.receive, result.send)
    return result


def as_it_came(app: App, **more: Any) -> list[Any]:
    headers = [*app.messages[0]["headers"], BY_PREFER]
    return [{**app.messages[0], "headers": headers}, *app.messages[1:]]


@pytest.mark.parametrize("declared", [0, 20, 22, 500])
async def test_one_message_of_another_length_is_the_server_s_to_refuse(declared: int) -> None:
    app = declaring(declared, BODY)
    assert (await ask(app)).messages == as_it_came(app)
    result = await ask(app, scope=http_scope(ASKED, method="HEAD"))
    assert result.messages[1:] == list(app.messages[1:])


@pytest.mark.parametrize("declared", [b"", b"x", b"-1", b"1" * 5000, b"0x3", b"1_0"])
async def test_a_length_that_is_none_is_the_server_s_to_refuse(declared: bytes) -> None:
    for headers in (
        [JSON, (b"content-length", declared)],
        [JSON, (b"content-length", b"21"), (b"content-length", b"22")],
    ):
        app = answering(BODY, headers=headers)
        assert (await ask(app)).messages == as_it_came(app)


@pytest.mark.parametrize("kind", [LINES, EVENTS, JSON])
async def test_a_stream_that_ends_early_has_no_end(kind: Any) -> None:
    held = b'{"x":[1,2'
    app = declaring(50, LINE, LINE, held, kind=kind)
    result = await failing(app, match="a body of 50 bytes, and sent 37")
    expected = rewrite(LINE * 2, [X], framing="lines") if kind is not EVENTS else LINE * 2
    assert b"".join(result.bodies) == expected + held
    assert all(message["more_body"] for message in result.messages[1:])


async def test_an_empty_last_message_shows_that_bytes_are_missing() -> None:
    result = await failing(declaring(50, LINE, b"", kind=LINES), match="a body of 50 bytes, and sent 14")
    assert result.bodies == [NEW_LINE]
    assert result.messages[1]["more_body"]


async def test_nothing_goes_out_beyond_what_was_declared() -> None:
    app = declaring(20, LINE, LINE, LINE, kind=LINES)
    result = await failing(app, match="a body of 20 bytes, and sent 28")
    assert result.bodies == [NEW_LINE]
    assert result.messages[1]["more_body"]


async def test_after_the_error_nothing_more_goes_out() -> None:
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        await send(start(LINES, (b"content-length", b"20")))
        await send(body(LINE, more=True))
        with pytest.raises(RuntimeError):
            await send(body(LINE, more=True))
        await send(body(LINE))

    result = await ask(stubborn)
    assert result.bodies == [NEW_LINE]


async def test_what_follows_a_whole_body_is_the_server_s_to_refuse() -> None:
    app = declaring(len(LINE), LINE, LINE, kind=LINES)
    result = await ask(app)
    assert result.bodies == [NEW_LINE, LINE]
    assert int(result.headers[b"content-length"]) == len(NEW_LINE)


async def test_a_length_of_memory_is_counted_in_bytes() -> None:
    import array

    numbers = memoryview(array.array("I", [0x20202020] * 4))
    app = App(start(JSON, (b"content-length", b"16")), body(numbers))
    result = await ask(app)
    assert (result.body, result.headers[b"content-length"]) == (b" " * 16, b"16")


async def test_a_body_before_its_start_is_the_server_s_to_refuse() -> None:
    for app in (App(body(BODY)), App(body(BODY, more=True), start(JSON), body(b"[1]"))):
        result = await ask(app)
        assert result.messages[0] is app.messages[0]
    assert result.messages[-1]["body"] == b"[1]"


async def test_an_app_that_returns_before_its_body() -> None:
    app = App(start(JSON, (b"content-length", b"3")))
    assert (await ask(app)).messages == as_it_came(app)


# HTTP/1.0: the end of a body without a length is that of the connection, and a cut cannot be seen.


@pytest.mark.parametrize("kind", [LINES, EVENTS])
async def test_lines_and_events_with_a_length_stay_for_http_1_0(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = declaring(3 * len(LINE), LINE, LINE, LINE, kind=kind)
    with caplog.at_level(logging.DEBUG, "ndwire_asgi"):
        for version in ("1.0", "1"):
            assert (await ask(app, scope=http_scope(ASKED, http_version=version))).messages == as_it_came(app)
    assert "HTTP/1.0" in caplog.text
    result = await ask(app)
    assert b"content-length" not in result.headers


@pytest.mark.parametrize("empty", [False, True])
async def test_documents_wait_for_their_length_for_http_1_0(empty: bool) -> None:
    for cuts in itertools.combinations_with_replacement(range(len(BODY) + 1), 2):
        parts = [BODY[: cuts[0]], BODY[cuts[0] : cuts[1]], BODY[cuts[1] :], *[b""] * empty]
        result = await ask(declaring(len(BODY), *parts), scope=http_scope(ASKED, http_version="1.0"))
        assert result.body == REWRITTEN
        assert int(result.headers[b"content-length"]) == len(REWRITTEN)


@pytest.mark.parametrize("declared", [20, 22, 500])
async def test_documents_of_another_length_are_the_server_s_to_refuse_for_http_1_0(declared: int) -> None:
    for bodies, last in (([BODY[:5], BODY[5:15], BODY[15:]], True), ([BODY[:5], BODY[5:15]], False)):
        app = declaring(declared, *bodies, last=last)
        result = await ask(app, scope=http_scope(ASKED, http_version="1.0"))
        assert result.messages[0] == as_it_came(app)[0]
        assert b"".join(result.bodies) == b"".join(bodies)
        assert result.messages[-1]["more_body"] is not last


async def test_documents_that_are_too_long_to_wait_stay_for_http_1_0() -> None:
    app = declaring(len(BODY), BODY[:5], BODY[5:])
    for most in (len(BODY) - 1, len(BODY)):
        result = await ask(app, scope=http_scope(ASKED, http_version="1.0"), max_hold_bytes=most)
        assert result.body == (BODY if most < len(BODY) else REWRITTEN)
        assert int(result.headers[b"content-length"]) == len(result.body)
        assert (b"preference-applied" in result.headers) is (most == len(BODY))


@pytest.mark.parametrize("headers", [[JSON], [LINES]])
async def test_what_declared_no_length_is_rewritten_for_http_1_0(headers: Headers) -> None:
    result = await ask(answering(BODY, headers=headers), scope=http_scope(ASKED, http_version="1.0"))
    assert result.body == REWRITTEN


# Real servers: what a client sees of the bare app, it sees behind the middleware.


@pytest.fixture(params=["uvicorn", "hypercorn", "granian"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with served(request.param, "support.lengths:app", ready="/json/1/0") as url:
        yield url


def outcome(url: str, path: str, *, version: int = 11) -> tuple[str, bytes]:
    """Return whether a client sees that the body is broken, and the body."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    connection._http_vsn = version  # type: ignore[attr-defined]  # how else is one to speak HTTP/1.0?
    connection._http_vsn_str = f"HTTP/{version // 10}.{version % 10}"  # type: ignore[attr-defined]  # as above
    try:
        connection.request("GET", path, headers={"Prefer": "ndarray=envelope"})
        response = connection.getresponse()
        if response.status != 200:
            return "refused", b""
        return "whole", response.read()
    except (http.client.HTTPException, OSError):
        return "broken", b""
    finally:
        connection.close()


def test_a_client_sees_what_the_bare_server_does_to_wrong_lengths(url: str) -> None:
    for kind, parts, excess, version in itertools.product(("json", "lines"), (1, 3), (0, 5, -5), (11, 10)):
        path = f"/{kind}/{parts}/{excess}"
        bare, text = outcome(url, path, version=version)
        wrapped, new_text = outcome(url, f"/wrapped{path}", version=version)
        case = (path, version, bare, wrapped)
        if excess == 0:
            assert bare == wrapped == "whole", case
            framing: Any = "lines" if kind == "lines" else "document"
            assert new_text in (text, rewrite(text, [X], framing=framing)), case
        elif bare != "whole":
            assert wrapped != "whole", case
        elif wrapped == "whole":
            # A server that cuts off what is too much.
            assert new_text == text, case
