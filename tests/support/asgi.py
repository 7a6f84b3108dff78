"""ASGI by hand: scopes, a receive that is told what to say, and a send that remembers."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any

import anyio
import uvicorn

Message = MutableMapping[str, Any]
ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


def http_scope(*headers: tuple[bytes, bytes], method: str = "GET", path: str = "/", **more: Any) -> dict[str, Any]:
    """Return an HTTP scope."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": list(headers),
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9),
        **more,
    }


ASKED = (b"prefer", b"ndarray=envelope")


class Exchange:
    """One request: what the app sent, and when the client goes away.

    Args:
        leave_after: The client disconnects once so many messages were sent; None: it stays.
    """

    def __init__(self, *, leave_after: int | None = None) -> None:
        self.messages: list[Message] = []
        self.leave_after = leave_after
        self._gone = anyio.Event()
        self._requested = False

    async def receive(self) -> Message:
        """Give the request's empty body, then wait for the disconnect."""
        if not self._requested:
            self._requested = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Remember a message; like a server, take messages silently once the client is gone."""
        self.messages.append(message)
        if self.leave_after is not None and len(self.messages) >= self.leave_after:
            self._gone.set()

    @property
    def status(self) -> int:
        """The response's status."""
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The response's headers."""
        return dict(self.messages[0]["headers"])

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the body messages."""
        return [bytes(message.get("body", b"")) for message in self.messages[1:]]

    @property
    def body(self) -> bytes:
        """The whole body, of a response that has ended properly."""
        assert [message.get("more_body", False) for message in self.messages[1:]] == [True] * (
            len(self.messages) - 2
        ) + [False]
        return b"".join(self.bodies)


async def exchange(app: ASGIApp, scope: Any, *, leave_after: int | None = None) -> Exchange:
    """Run one request through ``app``."""
    result = Exchange(leave_after=leave_after)
    await app(scope, result.receive, result.send)
    return result


@contextlib.contextmanager
def serving(app: Any, **options: Any) -> Generator[str, None, None]:
    """Run ``app`` under a real uvicorn on a free loopback port; give its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", lifespan="off", **options)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive(), "uvicorn did not start"
            assert time.monotonic() < deadline, "uvicorn did not start in time"
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
