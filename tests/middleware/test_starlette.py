"""The middleware among Starlette's own: errors, background tasks, websockets, compression, mounted apps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from ndwire import PREFER, Field, loads
from ndwire_asgi import NDArrayMiddleware

FIELDS = [Field("x", dtypes=("uint8", "int16"))]
DOCUMENT: dict[str, Any] = {"x": [[1, 2], [3, 400]], "text": "a word " * 200}
ASK = dict([PREFER])
WRAPPED = Middleware(NDArrayMiddleware, fields=FIELDS)


async def document(request: Request) -> Response:
    return JSONResponse(DOCUMENT)


def client(*routes: Any, middleware: list[Middleware] | None = None, **options: Any) -> TestClient:
    app = Starlette(routes=list(routes), middleware=[WRAPPED] if middleware is None else middleware)
    return TestClient(app, headers=ASK, **options)


def check(response: Any) -> None:
    assert b'{"data":"' in response.content
    read = loads(response.content, FIELDS)
    assert (read["x"].tolist(), read["text"]) == (DOCUMENT["x"], DOCUMENT["text"])
    assert response.headers["preference-applied"] == "ndarray=envelope"


def test_a_compressing_middleware_outside() -> None:
    both = [Middleware(GZipMiddleware, minimum_size=10), WRAPPED]
    response = client(Route("/", document), middleware=both).get("/")
    assert response.headers["content-encoding"] == "gzip"
    check(response)
    assert set(response.headers["vary"].lower().split(", ")) == {"prefer", "accept-encoding"}
    inside = client(Route("/", document), middleware=both[::-1]).get("/")
    assert inside.json() == DOCUMENT
    assert "preference-applied" not in inside.headers


def test_a_middleware_that_streams() -> None:
    async def dispatch(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-seen"] = "1"
        return response

    streaming = Middleware(BaseHTTPMiddleware, dispatch=dispatch)
    for middleware in ([streaming, WRAPPED], [WRAPPED, streaming]):
        response = client(Route("/", document), middleware=middleware).get("/")
        check(response)
        assert int(response.headers["content-length"]) == len(response.content)


def test_errors_before_the_start() -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError("the app's own")

    async def refused(request: Request) -> Response:
        raise HTTPException(418, "a teapot")

    calls = client(Route("/broken", broken), Route("/refused", refused), raise_server_exceptions=False)
    assert calls.get("/broken").status_code == 500
    assert (calls.get("/refused").status_code, calls.get("/refused").text) == (418, "a teapot")
    assert calls.get("/none").status_code == 404


def test_an_error_within_the_body() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"x":[1,2]'
        raise RuntimeError("the app's own")

    async def stream(request: Request) -> Response:
        return StreamingResponse(pieces(), media_type="application/json")

    with pytest.raises(RuntimeError, match="the app's own"):
        client(Route("/", stream)).get("/")


def test_background_tasks_run_behind_the_body() -> None:
    done: list[str] = []

    async def later(request: Request) -> Response:
        return JSONResponse(DOCUMENT, background=BackgroundTask(done.append, "done"))

    check(client(Route("/", later)).get("/"))
    assert done == ["done"]


def test_websockets_and_lifespan() -> None:
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_json(DOCUMENT)
        await socket.close()

    with client(WebSocketRoute("/", echo)) as calls, calls.websocket_connect("/") as socket:
        assert socket.receive_json() == DOCUMENT


def test_a_mounted_app() -> None:
    inner = Starlette(
        routes=[Route("/a/x", document), Route("/b/x", document)],
        middleware=[Middleware(NDArrayMiddleware, fields={"/a": FIELDS})],
    )
    calls = client(Mount("/api", inner), middleware=[])
    check(calls.get("/api/a/x"))
    assert calls.get("/api/b/x").json() == DOCUMENT
