from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import anyio
import numpy as np
import orjson
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

import ndwire_asgi
from ndwire import Field, Packed, dumps, loads
from ndwire_asgi import NDArrayResponse
from support.asgi import ASKED, Exchange, exchange, http_scope

A = Field("a", sidecar=True)
SMALL = {"a": Packed(np.arange(6, dtype=np.int16).reshape(2, 3), {"start": 1}), "b": [1]}
LARGE = np.arange(1_000_000, dtype=np.int32).reshape(1000, 1000)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


pytestmark = pytest.mark.anyio


def test_all_is_exactly_the_public_names() -> None:
    public = {name for name in vars(ndwire_asgi) if not name.startswith("_") and name != "vllm"}
    assert public == set(ndwire_asgi.__all__)


async def test_asked(anyio_backend: str) -> None:
    result = await exchange(NDArrayResponse(SMALL, 201, {"x-k": "v"}), http_scope(ASKED))
    assert result.status == 201
    assert result.headers[b"content-type"] == b"application/json"
    assert result.headers[b"vary"] == b"Prefer"
    assert result.headers[b"preference-applied"] == b"ndarray=envelope"
    assert result.headers[b"x-k"] == b"v"
    assert int(result.headers[b"content-length"]) == len(result.body)
    assert result.body == dumps(SMALL)


async def test_not_asked(anyio_backend: str) -> None:
    result = await exchange(NDArrayResponse(SMALL), http_scope())
    assert result.body == b'{"a":[[0,1,2],[3,4,5]],"b":[1]}'
    assert result.headers[b"vary"] == b"Prefer"
    assert b"preference-applied" not in result.headers
    assert b"content-length" not in result.headers


async def test_when(anyio_backend: str) -> None:
    always = NDArrayResponse(SMALL, when="always")
    result = await exchange(always, http_scope())
    assert result.body == dumps(SMALL)
    assert b"vary" not in result.headers
    assert b"preference-applied" not in result.headers
    result = await exchange(always, http_scope(ASKED))
    assert b"vary" not in result.headers
    assert result.headers[b"preference-applied"] == b"ndarray=envelope"
    never = NDArrayResponse(SMALL, when=lambda scope: False)
    result = await exchange(never, http_scope(ASKED))
    assert result.body.startswith(b'{"a":[[')
    assert b"preference-applied" not in result.headers


async def test_the_caller_s_headers(anyio_backend: str) -> None:
    headers = {"Vary": "Origin", "Content-Length": "3", "Content-Type": "application/vnd.x+json", "ETag": '"x"'}
    response = NDArrayResponse(SMALL, headers=headers)
    for scope in (http_scope(ASKED), http_scope()):
        result = await exchange(response, scope)
        assert result.headers[b"vary"] == b"Origin, Prefer"
        assert result.headers[b"content-type"] == b"application/vnd.x+json"
        assert result.headers.get(b"content-length", b"%d" % len(result.body)) == b"%d" % len(result.body)
    assert NDArrayResponse(SMALL, media_type="application/x-k+json").headers["content-type"] == "application/x-k+json"
    response.set_cookie("k", "v")
    result = await exchange(response, http_scope())
    assert result.headers[b"set-cookie"].startswith(b"k=v")


async def test_head(anyio_backend: str) -> None:
    for headers in ([], [ASKED]):
        head = await exchange(NDArrayResponse(SMALL), http_scope(*headers, method="HEAD"))
        get = await exchange(NDArrayResponse(SMALL), http_scope(*headers))
        assert head.messages[0] == get.messages[0]
        assert head.body == b""


async def test_large_bodies_go_out_in_pieces(anyio_backend: str) -> None:
    result = await exchange(NDArrayResponse({"a": LARGE}), http_scope(ASKED))
    assert len(result.body) == int(result.headers[b"content-length"])
    assert max(map(len, result.bodies)) < 600_000
    assert result.bodies[0] == b'{"a":'
    assert np.array_equal(loads(result.body, [A])["a"].array, LARGE)
    result = await exchange(NDArrayResponse({"a": LARGE}), http_scope())
    assert orjson.loads(result.body) == {"a": LARGE.tolist()}
    assert max(map(len, result.bodies)) < 600_000


async def test_a_client_that_leaves_ends_it_quietly(anyio_backend: str) -> None:
    ran: list[int] = []
    response = NDArrayResponse({"a": np.zeros(20_000_000, np.uint8)}, background=BackgroundTask(ran.append, 1))
    result = await exchange(response, http_scope(ASKED), leave_after=3)
    assert len(result.messages) <= 6
    assert result.messages[-1]["more_body"]
    assert ran == [1]


async def test_a_server_that_raises_once_the_client_is_gone(anyio_backend: str) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            raise OSError("gone")

    await NDArrayResponse({"a": LARGE})(http_scope(ASKED), Exchange().receive, send)
    assert len(sent) == 3


async def test_other_failures_of_send_go_on_as_they_are(anyio_backend: str) -> None:
    async def send(message: Any) -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError):
        await NDArrayResponse({"a": LARGE})(http_scope(ASKED), Exchange().receive, send)
    with pytest.raises(LookupError):
        await NDArrayResponse(SMALL)(http_scope(ASKED), Exchange().receive, send)


async def test_background_tasks_run_after_the_body(anyio_backend: str) -> None:
    for content in (SMALL, {"a": LARGE}):
        result = Exchange()
        counts: list[int] = []

        def note(result: Exchange = result, counts: list[int] = counts) -> None:
            counts.append(len(result.messages))

        response = NDArrayResponse(content, background=BackgroundTask(note))
        await response(http_scope(ASKED), result.receive, result.send)
        assert counts == [len(result.messages)]


async def test_what_cannot_be_written_fails_before_the_first_byte(anyio_backend: str) -> None:
    with pytest.raises(TypeError, match=r"at \$\.a\[0\]: an array of dtype object"):
        NDArrayResponse({"a": [np.array([None])]})
    with pytest.raises(ValueError, match="when must be"):
        NDArrayResponse({}, when="sometimes")  # type: ignore[arg-type]  # the point of the test
    result = Exchange()
    with pytest.raises(TypeError, match="complex"):
        await NDArrayResponse({"a": np.zeros(2, np.complex64)})(http_scope(), result.receive, result.send)
    assert result.messages == []


async def test_the_loop_gets_its_turn_while_the_socket_takes_everything(anyio_backend: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    result = Exchange()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        result = await exchange(NDArrayResponse({"a": LARGE}), http_scope(ASKED))
        tasks.cancel_scope.cancel()
    assert turns >= len(result.messages) - 3


async def test_memory_while_sending(anyio_backend: str) -> None:
    array = np.zeros(30_000_000, np.uint8)
    response = NDArrayResponse({"a": array})

    async def send(message: Any) -> None:
        pass

    tracemalloc.start()
    try:
        await response(http_scope(ASKED), Exchange().receive, send)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def app_of(content: Any) -> Starlette:
    def respond(request: Any) -> Response:
        return NDArrayResponse(content)

    async def deny(websocket: WebSocket) -> None:
        await websocket.send_denial_response(NDArrayResponse(content, 403, when="always"))

    return Starlette(routes=[Route("/", respond), WebSocketRoute("/ws", deny)])


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(app_of(SMALL)) as client:
        yield client


def test_in_an_app(client: TestClient) -> None:
    response = client.get("/", headers={"Prefer": "ndarray=envelope"})
    assert loads(response.content, [A])["a"].array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert client.get("/").json() == {"a": [[0, 1, 2], [3, 4, 5]], "b": [1]}
    assert client.head("/").content == b""


def test_in_fastapi() -> None:
    app = FastAPI()

    @app.get("/returned")
    def returned() -> NDArrayResponse:
        return NDArrayResponse(SMALL)

    @app.get("/class", response_class=NDArrayResponse)
    async def by_class() -> Any:
        return NDArrayResponse({"a": LARGE}, when="always")

    with TestClient(app) as client:
        asked = client.get("/returned", headers={"Prefer": "ndarray=envelope"})
        assert loads(asked.content, [A])["a"].sidecar == {"start": 1}
        assert client.get("/returned").json() == {"a": [[0, 1, 2], [3, 4, 5]], "b": [1]}
        assert np.array_equal(loads(client.get("/class").content, [A])["a"].array, LARGE)


@pytest.mark.parametrize("content", [SMALL, {"a": Packed(LARGE, {})}])
def test_as_a_denial_of_a_websocket(content: Any) -> None:
    from starlette.testclient import WebSocketDenialResponse

    client = TestClient(app_of(content))
    with pytest.raises(WebSocketDenialResponse) as caught, client.websocket_connect("/ws"):
        pass
    assert caught.value.status_code == 403
    assert np.array_equal(loads(caught.value.content, [A])["a"].array, content["a"].array)
