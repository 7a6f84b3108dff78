"""The same responses from five frameworks, bare and behind the middleware, as one ASGI app.

``/<framework>/<bare or wrapped>/<name>``; the names are those of ``RESPONSES``.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import django
import litestar
import numpy as np
import orjson
import quart
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path
from fastapi import FastAPI
from litestar.response import File, Stream
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ndwire import Field, dumps
from ndwire_asgi import NDArrayMiddleware, NDArrayResponse
from support.arrays import npy_string

FIELDS = (
    Field("nested", dtypes=("uint8", "int16", "float32")),
    Field("npy", wires=("npy",), dtypes=("uint8", "int16")),
    Field("raw", wires=(), raw_dtype="float32"),
)
ROUTES = np.arange(6000).reshape(100, 10, 6) % 200
FLOATS = (np.arange(500) / 7).astype(np.float32)


ARRAYS: dict[str, Any] = {
    "id": "a-1",
    "choices": [
        {"nested": ROUTES.tolist(), "text": 'quote " and \\ and é'},
        {"npy": npy_string(ROUTES.astype(np.int64)), "raw": base64.b64encode(FLOATS.tobytes()).decode()},
        {"nested": FLOATS.tolist(), "npy": None, "raw": None},
        {"nested": [[1], [2, 3]], "npy": "text"},
        {"nested": [], "npy": [1, 2]},
    ],
    "usage": {"tokens": 3},
}
PLAIN: dict[str, Any] = {"id": "b-2", "list": [1, 2.5, None], "nested": None, "npy": {"a": 1}}
EVENTS: list[dict[str, Any]] = [{"n": n, "nested": [n, 300 * n], "npy": npy_string(np.arange(n))} for n in range(4)]

# Name -> media type and the pieces of the body.
RESPONSES: dict[str, tuple[str, list[bytes]]] = {
    "stream": ("application/json", [dumps(ARRAYS)[k : k + 1000] for k in range(0, len(dumps(ARRAYS)), 1000)]),
    "sse": ("text/event-stream", [b"data: %b\n\n" % orjson.dumps(event) for event in EVENTS] + [b"data: [DONE]\n\n"]),
    "ndjson": ("application/x-ndjson", [orjson.dumps(event) + b"\n" for event in EVENTS]),
    "html": ("text/html; charset=utf-8", [b"<p>", b'"nested":[1,2]</p>']),
}
NAMES = ("json", "plain", "empty", "file", *RESPONSES)
"""What every framework answers."""
FILE = pathlib.Path(tempfile.gettempdir()) / f"ndwire-{os.getpid()}.json"

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


async def _pieces(name: str) -> AsyncIterator[bytes]:
    for piece in RESPONSES[name][1]:
        yield piece


def starlette_app() -> ASGIApp:

    async def answer(request: Request) -> Response:
        name: str = request.path_params["name"]
        match name:
            case "json" | "plain":
                return JSONResponse(ARRAYS if name == "json" else PLAIN, headers={"ETag": '"abc"'})
            case "empty":
                return Response(status_code=204)
            case "file":
                return FileResponse(FILE, media_type="application/json")
            case "arrays":
                return NDArrayResponse({"nested": ROUTES.astype(np.uint8), "id": 7})
            case _:
                return StreamingResponse(_pieces(name), media_type=RESPONSES[name][0])

    return Starlette(routes=[Route("/{name}", answer)])


def fastapi_app() -> ASGIApp:

    app = FastAPI()

    @app.middleware("http")
    async def timed(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-timed"] = "1"
        return response

    @app.get("/arrays")
    async def arrays() -> Any:
        return NDArrayResponse({"nested": ROUTES.astype(np.uint8), "id": 7})

    @app.get("/json")
    async def arrays_as_lists() -> Any:
        return ARRAYS

    @app.get("/plain")
    def plain() -> Any:
        return PLAIN

    @app.get("/empty", status_code=204)
    async def empty() -> None:
        return None

    @app.get("/file")
    async def file() -> Response:
        return FileResponse(FILE, media_type="application/json")

    @app.get("/{name}")
    async def stream(name: str) -> Response:
        return StreamingResponse(_pieces(name), media_type=RESPONSES[name][0])

    del timed, arrays, arrays_as_lists, plain, empty, file, stream
    return app


def litestar_app() -> ASGIApp:

    @litestar.get("/json")
    async def arrays() -> dict[str, Any]:
        return ARRAYS

    @litestar.get("/plain")
    async def plain() -> dict[str, Any]:
        return PLAIN

    @litestar.get("/empty", status_code=204)
    async def empty() -> None:
        return None

    @litestar.get("/file")
    async def file() -> File:
        return File(path=FILE, media_type="application/json")

    @litestar.get("/{name:str}")
    async def stream(name: str) -> Stream:
        return Stream(_pieces(name), media_type=RESPONSES[name][0])

    return litestar.Litestar([arrays, plain, empty, file, stream], openapi_config=None)


def quart_app() -> ASGIApp:

    app = quart.Quart("quart_app")

    async def answer(name: str) -> Any:
        match name:
            case "json" | "plain":
                return ARRAYS if name == "json" else PLAIN
            case "empty":
                return quart.Response(b"", status=204)
            case "file":
                return await quart.send_file(FILE, mimetype="application/json")
            case _:
                return quart.Response(_pieces(name), content_type=RESPONSES[name][0])

    app.add_url_rule("/<name>", "answer", answer)
    return app


def django_app() -> ASGIApp:

    async def answer(request: HttpRequest, name: str) -> Any:
        match name:
            case "json" | "plain":
                return JsonResponse(ARRAYS if name == "json" else PLAIN)
            case "empty":
                return HttpResponse(status=204)
            case "file":
                return HttpResponse(FILE.read_bytes(), content_type="application/json")
            case _:
                return StreamingHttpResponse(_pieces(name), content_type=RESPONSES[name][0])

    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF=(path("<name>", answer),), SECRET_KEY="x", LOGGING_CONFIG=None, MIDDLEWARE=[]
    )
    django.setup(set_prefix=False)
    app: ASGIApp = get_asgi_application()
    return app


FRAMEWORKS: dict[str, Callable[[], ASGIApp]] = {
    "starlette": starlette_app,
    "fastapi": fastapi_app,
    "litestar": litestar_app,
    "quart": quart_app,
    "django": django_app,
}


def make() -> ASGIApp:
    """Return the app that has all of them."""
    FILE.write_text(json.dumps(ARRAYS))
    apps: dict[tuple[str, str], ASGIApp] = {}
    for name, make_app in FRAMEWORKS.items():
        bare = make_app()
        apps[name, "bare"] = bare
        apps[name, "wrapped"] = NDArrayMiddleware(bare, FIELDS)

    async def dispatch(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    FILE.unlink(missing_ok=True)
                    return
        _, framework, wrapped, rest = scope["path"].split("/", 3)
        if framework == "ready":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body"})
            return
        path = "/" + rest
        await apps[framework, wrapped]({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    return dispatch


def names() -> Iterator[tuple[str, str]]:
    """Yield every framework with every name that it answers."""
    for framework in FRAMEWORKS:
        for name in NAMES:
            yield framework, name
        if framework in ("starlette", "fastapi"):
            yield framework, "arrays"


if __name__ != "__main__" and os.environ.get("NDWIRE_SERVED"):
    app = make()
