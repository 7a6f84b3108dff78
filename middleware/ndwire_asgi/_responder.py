"""One response on its way through the middleware.

States and transitions::

    BEGIN ──start, not to be rewritten──────────────────────────────────> PASS
      │
      ├──start, without a length──> (sent) REWRITE ──last body──────────> PASS
      │                                       ^
      └──start, with a declared length──> START_HELD ──part of the body
                                            │ │ │
                                            │ │ └──part, to an HTTP/1.0 client──> START_HELD or (sent as it came) PASS
                                            │ └──all of the body──> (sent, with the new length) PASS
                                            └──more, or less at the end──> (sent as it came) PASS

    REWRITE ──more than was declared, or less at the end──> BROKEN
    any ──send failed, or was cancelled, within the body──> BROKEN

Invariants:

* What the client gets is the rewritten body, in order: body messages take turns, also those of several tasks.
* A message of the app is answered only when what it became is sent, but for what the rewriter holds, and for bodies
  of which an HTTP/1.0 client has to be told the length: backpressure reaches the app.
* A body that is not as long as its app declared never looks whole: the server gets to see it, or is told nothing of its
  end and the app gets an error, as from a server.
* The app's messages and header lists are not changed.
* Only when ``send`` fails, or the app gives up, bytes are missing; then nothing more of the body is sent, above all no
  final message.
"""

from __future__ import annotations

import collections
import enum
import functools
import time
from collections.abc import Iterable
from typing import Any, Final

import anyio
from starlette.types import Message, Scope, Send

from ndwire import Field
from ndwire_asgi._conversion import Conversion, Settings, logger, warn
from ndwire_asgi._headers import envelope_plan, plain_headers, with_headers_read
from ndwire_asgi._media import Framing
from ndwire_asgi._negotiation import Negotiated
from ndwire_asgi._tags import RawHeaders

# So much of a message is scanned between two looks at the clock, and body messages have about this size.
_WINDOW: Final = 256 << 10
# The ASGI spec has the former; granian says the latter.
_HTTP_1_0: Final = ("1.0", "1")
# The body is a file: these take the place of body messages.
_FILE_MESSAGES: Final = ("http.response.pathsend", "http.response.zerocopysend")


class State(enum.Enum):
    """What has become of the response so far."""

    BEGIN = enum.auto()
    START_HELD = enum.auto()
    REWRITE = enum.auto()
    PASS = enum.auto()
    BROKEN = enum.auto()


class Responder:
    """Takes the messages that an app sends for one request, and sends what they become.

    Args:
        send: The server's.
        fields: What is rewritten.
        negotiated: What the middleware decided.
        settings: The middleware's.
        scope: The request's.
    """

    # Most responses change few of these: as defaults of the class they cost nothing.
    _state = State.BEGIN
    _start: Message  # while it is held, or when it is sent
    _headers: RawHeaders  # what its headers become, without a length
    _framing: Framing
    _conversion: Conversion | None = None  # made with the start
    _declared: int | None = None
    _n_came = 0  # bytes of the body
    _kept: bytes | bytearray = b""  # of the body, while the start is held
    _sent_at: float | None = None  # the last part of the body
    _busy = False
    _waiting: collections.deque[anyio.Event] | None = None

    def __init__(
        self, send: Send, fields: tuple[Field, ...], negotiated: Negotiated, settings: Settings, scope: Scope
    ) -> None:
        self._send = send
        self._fields = fields
        self._negotiated = negotiated
        self._settings = settings
        self._scope = scope

    async def send(self, message: Message) -> None:
        """Take the app's next message."""
        kind = message["type"]
        if self._state is State.PASS:
            await self._send(message)
        elif kind == "http.response.body":
            if self._busy:
                await self._wait_for_turn()
            self._busy = True
            try:
                await self._body(message)
            finally:
                self._end_turn()
        elif kind == "http.response.start" and self._state is State.BEGIN:
            start = self._begin(message)
            if start is not None:
                await self._send(start)
        elif kind in _FILE_MESSAGES and self._state is State.START_HELD:
            await self._send_as_it_came(message)
        else:
            await self._send(message)

    async def finish(self) -> None:
        """The app has returned: a start that waits for a body waits in vain."""
        if self._state is State.START_HELD:
            await self._send_as_it_came()

    def release(self) -> None:
        """Nothing more comes: give back what is held of what the middleware may hold."""
        if self._conversion is not None:
            self._conversion.end()

    def _begin(self, message: Message) -> Message | None:
        """Decide what becomes of the response; return its start, or None if that waits for the body."""
        message = with_headers_read(message)
        self._start = message
        self._state = State.PASS
        try:
            plan = envelope_plan(message, self._negotiated, self._settings.framing_of)
            if self._negotiated.written:
                return message
            if plan.reason:
                logger.debug("a response goes out as it came: %s", plan.reason)
            if plan.packed:
                warn_of_packed_bodies()
            if plan.headers is None:
                return message
            self._negotiated.claim()
            self._headers = plan.headers
            if plan.framing is not None and self._scope.get("method") != "HEAD":
                self._framing = plan.framing
                self._declared = plan.length
                self._conversion = Conversion(self._fields, plan.framing, self._settings)
                self._state = State.REWRITE if plan.length is None else State.START_HELD
        except Exception as exc:
            # Headers that are none, for example: whatever it is, the server is to see it as it came.
            warn(exc)
            return message
        return {**message, "headers": self._headers} if self._state is not State.START_HELD else None

    async def _body(self, message: Message) -> None:
        if self._state is State.BROKEN:
            # As a server does once the client is gone.
            return
        conversion = self._conversion
        if conversion is None or self._state is State.PASS:
            # There was no start, and the server's error is the right one; or another task's message ended the body
            # while this one waited.
            await self._send(message)
            return
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        self._n_came += len(body) if type(body) is bytes else _size(body)
        state, self._state = self._state, State.BROKEN
        if self._declared is not None:
            if state is State.START_HELD:
                if self._n_came == self._declared:
                    await self._send_whole(conversion, [self._kept, body] if self._kept else [body], last=last)
                    self._state = State.PASS
                    return
                if last or self._n_came > self._declared:
                    await self._send_as_it_came(message)
                    return
                if self._scope.get("http_version") in _HTTP_1_0:
                    await self._keep(conversion, message)
                    return
                await self._send({**self._start, "headers": self._headers})
            elif self._n_came > self._declared:
                raise self._wrong_length()
        whole = self._declared is None or self._n_came == self._declared
        await self._send_part(conversion, body, last=last, end=last and whole)
        if last and not whole:
            raise self._wrong_length()
        self._state = State.PASS if last else State.REWRITE

    def _wrong_length(self) -> RuntimeError:
        # What servers raise. The length is no longer among the headers, so they cannot know.
        return RuntimeError(f"the app declared a body of {self._declared} bytes, and sent {self._n_came}")

    async def _keep(self, conversion: Conversion, message: Message) -> None:
        """A part of the body is here, for an HTTP/1.0 client: without a length it could not see where the body is cut.

        A document waits until its new length is known. Lines and events would have to wait as well, and are not what
        they were if they do; nor is a document that is too long to be held.
        """
        assert self._declared is not None  # asked before
        is_short = self._framing == "document" and self._declared <= self._settings.max_hold_bytes
        if is_short and conversion.keep(self._declared):
            self._kept = self._kept or bytearray()
            self._kept += bytes(message.get("body", b""))
            self._state = State.START_HELD
        else:
            logger.debug("a response goes out as it came: the client needs to know its length (HTTP/1.0)")
            await self._send_as_it_came(message)

    async def _send_as_it_came(self, *messages: Message) -> None:
        """Send the start, and what was kept behind it, as the app did."""
        headers = plain_headers(self._start, self._negotiated.vary, self._settings.framing_of)
        await self._send(self._start if headers is None else {**self._start, "headers": headers})
        if self._kept:
            await self._send({"type": "http.response.body", "body": bytes(self._kept), "more_body": True})
            self._forget_kept()
        for message in messages:
            await self._send(message)
        self._state = State.PASS

    async def _send_whole(self, conversion: Conversion, bodies: list[Any], *, last: bool) -> None:
        """All of the body is here: so is its new length, before the start is sent."""
        pieces: list[bytes] = []
        for body in bodies:
            for window in _windows(body):
                pieces += await conversion.convert(window)
        pieces += conversion.close()
        length = (b"content-length", b"%d" % sum(map(len, pieces)))
        await self._send({**self._start, "headers": [*self._headers, length]})
        await self._emit(conversion, pieces, end=last)
        if self._kept:
            self._forget_kept()
        conversion.report(self._scope)

    def _forget_kept(self) -> None:
        """What was kept has been sent."""
        self._kept = b""
        assert self._conversion is not None  # nothing is kept without one
        self._conversion.keep(0)

    async def _send_part(self, conversion: Conversion, body: Any, *, last: bool, end: bool) -> None:
        """A part of the body is here: what it became goes on at once.

        Args:
            conversion: Of the body.
            body: The part.
            last: Whether it is the last one.
            end: Whether the server is told so.
        """
        pieces: list[bytes] = []
        n_bytes = 0
        for window in _windows(body):
            if n_bytes >= _WINDOW:
                await self._emit(conversion, pieces, end=False)
                pieces = []
                n_bytes = 0
            more = await conversion.convert(window)
            pieces += more
            n_bytes += sum(map(len, more))
        if last:
            pieces += conversion.close()
        # Some servers send the head with the first body message: it is not to wait for a value to end.
        if pieces or end or self._sent_at is None:
            await self._emit(conversion, pieces, end=end)
        elif time.monotonic() - self._sent_at >= self._settings.idle_seconds and conversion.holds_value:
            # Somebody on the way may take silence for the end. White space is legal between any two tokens of JSON
            # (RFC 8259 section 2), also in a line and in an event's data.
            await self._emit(conversion, [b" "], end=False)
        if end:
            conversion.report(self._scope)

    async def _emit(self, conversion: Conversion, pieces: list[bytes], *, end: bool) -> None:
        """Send ``pieces`` in messages of a good size, and let go of them on the way."""
        body = b""
        if len(pieces) == 1:
            body = pieces[0]
        elif pieces:
            pieces.reverse()
            batch: list[bytes] = []
            n_bytes = 0
            while pieces:
                piece = pieces.pop()
                batch.append(piece)
                n_bytes += len(piece)
                if n_bytes >= _WINDOW and pieces:
                    conversion.n_after += n_bytes
                    await self._send({"type": "http.response.body", "body": b"".join(batch), "more_body": True})
                    batch = []
                    n_bytes = 0
            body = b"".join(batch)
        conversion.n_after += len(body)
        await self._send({"type": "http.response.body", "body": body, "more_body": not end})
        if not end:
            self._sent_at = time.monotonic()
        conversion.settle()

    async def _wait_for_turn(self) -> None:
        """Wait until no other task's message is on its way; a lock would cost more than all else, each time."""
        if self._waiting is None:
            self._waiting = collections.deque()
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._end_turn()
            else:
                self._waiting.remove(turn)
            raise

    def _end_turn(self) -> None:
        if self._waiting:
            # Stays busy: the turn is the next one's.
            self._waiting.popleft().set()
        else:
            self._busy = False


@functools.cache
def warn_of_packed_bodies() -> None:
    """Say, once a process, that nothing can be rewritten that an app has compressed."""
    logger.warning(
        "a response was asked for envelopes, but its body is compressed inside of NDArrayMiddleware, and goes out as "
        "it came. Compress outside of the middleware, and give it hide_accept_encoding=True if the app compresses by "
        "itself (said once)"
    )


def _size(body: Any) -> int:
    return body.nbytes if isinstance(body, memoryview) else len(body)


def _windows(body: Any) -> Iterable[bytes]:
    if type(body) is bytes and len(body) <= _WINDOW:
        return (body,)
    view = memoryview(body)
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return (bytes(view[start : start + _WINDOW]) for start in range(0, len(view), _WINDOW))
