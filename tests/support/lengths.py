"""Apps whose bodies are not as long as they say, for servers in processes of their own."""

from __future__ import annotations

from typing import Any

from ndwire import Field
from ndwire_asgi import NDArrayMiddleware

FIELDS = [Field("x", dtypes=("uint8", "int16"))]
LINES = [b'{"x":[1,2,3]}\n', b'{"x":[4,5,6]}\n', b'{"x":[7,8,9]}\n']


async def wrong(scope: Any, receive: Any, send: Any) -> None:
    """Answer /{kind}/{parts}/{excess}: how documents stand, in how many messages, how much more is declared."""
    _, kind, parts, excess = scope["path"].split("/")
    body = b"".join(LINES) if kind == "lines" else b"[%b]" % b",".join(line.strip() for line in LINES)
    media_type = b"application/x-ndjson" if kind == "lines" else b"application/json"
    step = -(-len(body) // int(parts)) if parts.isdigit() else len(body)
    length = b"%d" % (len(body) + int(excess if excess.strip("-").isdigit() else 0))
    headers = [(b"content-type", media_type), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for start in range(0, len(body), step):
        more = start + step < len(body)
        await send({"type": "http.response.body", "body": body[start : start + step], "more_body": more})


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer as ``wrong`` does; below /wrapped, behind the middleware."""
    if scope["type"] != "http":
        return
    path = scope["path"].removeprefix("/wrapped")
    await (wrong if path == scope["path"] else NDArrayMiddleware(wrong, FIELDS))({**scope, "path": path}, receive, send)
