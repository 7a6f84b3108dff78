"""Apps that send what they are told to, behind the middleware."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ndwire import Field
from ndwire_asgi import NDArrayMiddleware
from support.asgi import ASKED, Exchange, Message, exchange, http_scope

X = Field("x", dtypes=("uint8", "int16", "float32"))
BODY = b'{"x":[1,2,3],"y":"z"}'
REWRITTEN = b'{"x":{"data":"AQID","shape":[3],"dtype":"uint8"},"y":"z"}'
BIG = b'{"x":[%b],"y":"z"}' % b",".join(b"%d" % (k % 251) for k in range(200_000))
JSON = (b"content-type", b"application/json")

Headers = Iterable[tuple[bytes, bytes]]


class App:
    """Sends what it is told to; remembers its scope."""

    def __init__(self, *messages: Message) -> None:
        self.messages = messages
        self.scope: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        before = repr(self.messages)
        for message in self.messages:
            await send(message)
        assert repr(self.messages) == before


def start(*headers: tuple[bytes, bytes], status: int = 200, **more: Any) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers), **more}


def body(data: Any, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def answering(*bodies: bytes, headers: Headers = (JSON,), status: int = 200) -> App:
    """An app that sends ``bodies`` as the messages of one body."""
    parts = [body(data, more=k < len(bodies) - 1) for k, data in enumerate(bodies)]
    return App(start(*headers, status=status), *parts)


async def ask(app: Any, *fields: Field, scope: Any = None, leave_after: int | None = None, **options: Any) -> Exchange:
    return await exchange(
        NDArrayMiddleware(app, fields or [X], **options), scope or http_scope(ASKED), leave_after=leave_after
    )
