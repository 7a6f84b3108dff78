"""The apps behind the proxies. Each serves /{kind}/{key}/{seconds}: one version of one body, fresh for so long."""

from __future__ import annotations

import asyncio
import collections
import gzip
import re
from typing import Any

import numpy as np
import orjson
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ndwire import Field
from ndwire_asgi import NDArrayMiddleware, NDArrayResponse, prefers_envelope

FIELDS = [Field("x", dtypes=("uint8", "int16"))]
VALUES = [k % 251 for k in range(2000)]
LIST = orjson.dumps({"x": VALUES})
TAG = '"v1"'
EVENT_SECONDS = 0.7

# By key: how often the app was asked, and how often it said that nothing has changed.
asked: collections.Counter[str] = collections.Counter()
unmodified: collections.Counter[str] = collections.Counter()


def _headers(request: Request) -> dict[str, str]:
    _, _, key, seconds = request.url.path.split("/")
    asked[key] += 1
    return {"ETag": TAG, "Cache-Control": f"public, max-age={seconds}", "Vary": "Origin", "Accept-Ranges": "bytes"}


def _answer(request: Request) -> Response:
    """Answer as an app that knows HTTP does: conditions, then ranges."""
    headers = _headers(request)
    if TAG in request.headers.get("if-none-match", ""):
        unmodified[request.url.path.split("/")[2]] += 1
        return Response(status_code=304, headers=headers)
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if match is not None and request.headers.get("if-range", TAG) == TAG:
        start, end = int(match[1]), int(match[2] or len(LIST) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(LIST)}"
        return Response(LIST[start : end + 1], 206, headers, "application/json")
    return Response(LIST, 200, headers, "application/json")


async def _plain(scope: Any, receive: Any, send: Any) -> None:
    await _answer(Request(scope))(scope, receive, send)


async def _packing(scope: Any, receive: Any, send: Any) -> None:
    """Compress inside, as some frameworks do."""
    request = Request(scope)
    headers = {**_headers(request), "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        headers["ETag"] = '"v1-gzip"'
    body = gzip.compress(LIST) if "Content-Encoding" in headers else LIST
    await Response(body, 200, headers, "application/json")(scope, receive, send)


async def _response(scope: Any, receive: Any, send: Any) -> None:
    content = {"x": np.array(VALUES, np.uint8)}
    headers = _headers(Request(scope))
    await NDArrayResponse(content, headers=headers)(scope, receive, send)


async def _events(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(3):
        event = b'data: {"x":[%d]}\n\n' % number
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(EVENT_SECONDS)
    await send({"type": "http.response.body", "body": b""})


async def _counts(scope: Any, receive: Any, send: Any) -> None:
    key = scope["path"].split("/")[2]
    counts = {"asked": asked[key], "unmodified": unmodified[key]}
    await JSONResponse(counts, headers={"Cache-Control": "no-store"})(scope, receive, send)


KINDS: dict[str, Any] = {
    "middleware": NDArrayMiddleware(_plain, FIELDS),
    "function": NDArrayMiddleware(_plain, FIELDS, when=prefers_envelope),
    "compressed": GZipMiddleware(NDArrayMiddleware(_plain, FIELDS), minimum_size=100),
    "compressing": NDArrayMiddleware(_packing, FIELDS, hide_accept_encoding=True),
    "response": _response,
}
_APPS: dict[str, Any] = {**KINDS, "events": NDArrayMiddleware(_events, FIELDS), "counts": _counts}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the app that the path names first."""
    await _APPS[scope["path"].split("/")[1]](scope, receive, send)
