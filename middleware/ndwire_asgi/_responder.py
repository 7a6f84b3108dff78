"""One response on its way through the middleware.

States and transitions::

    BEGIN ──start, not to be rewritten──────────────────────────────> PASS
      │
      ├──start, without a length──> (sent) REWRITE ──last body──────> PASS
      │                                       ^
      └──start, with a declared length──> START_HELD ──part of the body
                                              │
                                              └──all of the body──> (sent, with the new length) PASS

    any ──send failed, or was cancelled, within the body──> BROKEN

Invariants:

* What the client gets is the rewritten body, in order: body messages take turns, also those of several tasks.
* A message of the app is answered only when what it became is sent, but for what the rewriter holds: backpressure
  reaches the app.
* The app's messages and header lists are not changed.
* No fault of rewriting loses a byte: the rewriter and ``Held`` give back what came. Only when ``send`` fails, or the
  app gives up, bytes are missing; then nothing more of the body is sent, above all no final message.
"""

from __future__ import annotations

import collections
import enum
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeGuard

import anyio
import anyio.lowlevel
from starlette.types import Message, Scope, Send

from ndwire import Field, Held, Rewriter
from ndwire_asgi._headers import envelope_plan, with_headers_read
from ndwire_asgi._negotiation import Negotiated
from ndwire_asgi._tags import RawHeaders
from ndwire_asgi._threads import render

logger = logging.getLogger("ndwire_asgi")

# So much of a message is scanned between two looks at the clock, and body messages have about this size.
_WINDOW: Final = 256 << 10
# The loop is let go on after so much work on it, in seconds.
_LONG: Final = 0.001
# The body is a file: these take the place of body messages.
_FILE_MESSAGES: Final = ("http.response.pathsend", "http.response.zerocopysend")


class Rewritten(NamedTuple):
    """What was rewritten in one response.

    Attributes:
        scope: The request's ASGI scope.
        fields: The names of the fields, each with the number of values that became envelopes.
        n_bytes_before: The length of the body as the app sent it.
        n_bytes_after: The length of the body as it went out.
        seconds: The time that rewriting took, threads included.
    """

    scope: Scope
    fields: dict[str, int]
    n_bytes_before: int
    n_bytes_after: int
    seconds: float


class Settings(NamedTuple):
    """What the responders of one middleware share."""

    max_hold_bytes: int
    on_rewrite: Callable[[Rewritten], object] | None


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
    _declared: int | None
    _rewriter: Rewriter  # made with the start
    _n_before = 0
    _n_after = 0
    _seconds = 0.0
    _worked = 0.0  # on the loop, since it was let go on
    _sent_any = False
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
        self._facts: dict[str, int] = {}

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
            await self._give_up_start()
            await self._send(message)
        else:
            await self._send(message)

    async def finish(self) -> None:
        """The app has returned: a start that waits for a body waits in vain."""
        if self._state is State.START_HELD:
            await self._give_up_start()

    def _begin(self, message: Message) -> Message | None:
        """Decide what becomes of the response; return its start, or None if that waits for the body."""
        message = with_headers_read(message)
        self._start = message
        self._state = State.PASS
        try:
            plan = envelope_plan(message, self._negotiated)
            if self._negotiated.written:
                return message
            if plan.headers is None:
                return message
            self._negotiated.claim()
            self._headers = plan.headers
            if plan.framing is not None and self._scope.get("method") != "HEAD":
                self._declared = plan.length
                self._rewriter = Rewriter(
                    self._fields, framing=plan.framing, max_hold_bytes=self._settings.max_hold_bytes
                )
                self._state = State.REWRITE if plan.length is None else State.START_HELD
        except Exception as exc:
            # Headers that are none, for example: whatever it is, the server is to see it as it came.
            _warn(exc)
            return message
        return {**message, "headers": self._headers} if self._state is not State.START_HELD else None

    async def _give_up_start(self) -> None:
        """There is no body to rewrite: send the start as it came."""
        self._state = State.PASS
        await self._send(self._start)

    async def _body(self, message: Message) -> None:
        if self._state is State.BROKEN:
            # As a server does once the client is gone.
            return
        if self._state is State.PASS:
            # Another task's message ended the body while this one waited.
            await self._send(message)
            return
        body = message.get("body", b"")
        last = not message.get("more_body", False)
        state, self._state = self._state, State.BROKEN
        if state is State.START_HELD:
            if last or len(body) == self._declared:
                await self._send_whole(body, last=last)
                self._state = State.PASS
                return
            await self._send({**self._start, "headers": self._headers})
        await self._send_part(body, last=last)
        self._state = State.PASS if last else State.REWRITE

    async def _send_whole(self, body: Any, *, last: bool) -> None:
        """All of the body is here: so is its new length, before the start is sent."""
        pieces: list[bytes] = []
        for window in _windows(body):
            pieces += await self._convert(window)
        pieces += self._rewriter.close()
        length = (b"content-length", b"%d" % sum(map(len, pieces)))
        await self._send({**self._start, "headers": [*self._headers, length]})
        await self._emit(pieces, last=last)
        self._report()

    async def _send_part(self, body: Any, *, last: bool) -> None:
        """A part of the body is here: what it became goes on at once."""
        pieces: list[bytes] = []
        n_bytes = 0
        for window in _windows(body):
            if n_bytes >= _WINDOW:
                await self._emit(pieces, last=False)
                pieces = []
                n_bytes = 0
            more = await self._convert(window)
            pieces += more
            n_bytes += sum(map(len, more))
        if last:
            pieces += self._rewriter.close()
        # Some servers send the head with the first body message: it is not to wait for a value to end.
        if pieces or last or not self._sent_any:
            await self._emit(pieces, last=last)
        if last:
            self._report()

    async def _emit(self, pieces: list[bytes], *, last: bool) -> None:
        """Send ``pieces`` in messages of a good size, and let go of them on the way."""
        self._sent_any = True
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
                    self._n_after += n_bytes
                    await self._send({"type": "http.response.body", "body": b"".join(batch), "more_body": True})
                    batch = []
                    n_bytes = 0
            body = b"".join(batch)
        self._n_after += len(body)
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})

    async def _convert(self, window: bytes) -> list[bytes]:
        """Return what the next bytes of the body become, as far as it is known."""
        if self._worked > _LONG:
            # While the socket takes the data, send does not yield, and the work here does not either.
            await anyio.lowlevel.checkpoint()
            self._worked = 0.0
        before = time.perf_counter()
        items = self._rewriter.feed(window)
        seconds = time.perf_counter() - before
        self._n_before += len(window)
        self._seconds += seconds
        self._worked += seconds
        if self._rewriter.fault is not None:
            _warn(self._rewriter.fault)
            self._rewriter.fault = None
        return items if _is_rendered(items) else await self._rendered(items)

    async def _rendered(self, items: list[bytes | Held]) -> list[bytes]:
        """Return text that has all of its values in it."""
        before = time.perf_counter()
        results = collections.deque(await render([item for item in items if isinstance(item, Held)]))
        self._worked = 0.0
        self._seconds += time.perf_counter() - before
        pieces: list[bytes] = []
        faults = 0
        for item in items:
            if isinstance(item, bytes):
                pieces.append(item)
                continue
            rendered = results.popleft()
            faults += rendered.fault is not None
            pieces += item.original() if faults else rendered.pieces
            if rendered.rewritten and not faults:
                self._facts[item.name] = self._facts.get(item.name, 0) + 1
            elif rendered.refusal is not None:
                logger.debug("%s goes out as it came: %s", item.name, rendered.refusal)
            elif faults == 1:
                _warn(rendered.fault)
        if faults:
            pieces += self._rewriter.close()
        return pieces

    def _report(self) -> None:
        """Say what was rewritten."""
        facts = self._facts
        if not facts and not self._rewriter.fields:
            return
        for name, count in self._rewriter.fields.items():
            facts[name] = facts.get(name, 0) + count
        logger.debug("rewrote %s: %d bytes became %d in %.6f s", facts, self._n_before, self._n_after, self._seconds)
        if self._settings.on_rewrite is not None:
            try:
                self._settings.on_rewrite(Rewritten(self._scope, facts, self._n_before, self._n_after, self._seconds))
            except Exception:
                logger.warning("on_rewrite failed", exc_info=True)

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


def _is_rendered(items: list[bytes | Held]) -> TypeGuard[list[bytes]]:
    return Held not in map(type, items)


def _windows(body: Any) -> Iterable[bytes]:
    if type(body) is bytes and len(body) <= _WINDOW:
        return (body,)
    view = memoryview(body)
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    return (bytes(view[start : start + _WINDOW]) for start in range(0, len(view), _WINDOW))


def _warn(fault: Exception | None) -> None:
    logger.warning("rewriting failed: the rest of the response goes out as it came", exc_info=fault)
