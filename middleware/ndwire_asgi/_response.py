"""NDArrayResponse: a Starlette response for objects that hold arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import anyio
import anyio.lowlevel
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from ndwire import Dump, iter_dumps
from ndwire_asgi._headers import BODILESS, with_vary
from ndwire_asgi._negotiation import APPLIED, SCOPE_KEY, Negotiated, When, checked_vary, checked_when, negotiate
from ndwire_asgi._tags import RawHeaders, is_current, seen_by_app, tag_of_envelopes

# A body of so many bytes is one message, and needs no watch for the client.
_SMALL: Final = 64 << 10


class NDArrayResponse(JSONResponse):
    """Writes an object that holds arrays as JSON: as envelopes for who asked for them, else as nested lists.

    The body is made piece by piece while it is sent: there is never a second copy of an array, and the first piece is
    out before the first array is encoded. Envelopes have an exact ``Content-Length``. A client that goes away ends the
    response quietly within a few pieces.

    An ``ETag`` among ``headers`` is that of the content. Envelopes get one of their own, made of it, and a GET or HEAD
    whose ``If-None-Match`` names the tag of the form that it would get is answered with 304.

    Args:
        content: What ``ndwire.iter_dumps`` writes. The arrays are read while they are sent.
        status_code, headers, media_type, background: As for ``starlette.responses.JSONResponse``.
        when: ``"preferred"`` gives envelopes to requests with ``Prefer: ndarray=envelope``, ``"always"`` to all;
            a function of the ASGI scope decides for itself. Behind an ``NDArrayMiddleware``, its decision counts.
        vary: The names of the request's headers that such a function looks at, for caches; ``("Prefer",)`` by default.
        default, option: As for ``ndwire.iter_dumps``.

    Raises:
        TypeError: Something in ``content`` cannot be written; the message says where it stands.
        ValueError: A sidecar is named like a key of the envelope, ``when`` is none of the above, or ``vary`` is there
            where ``when`` is no function.
    """

    media_type: Any = "application/json"

    def __init__(
        self,
        content: Any = None,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        background: BackgroundTask | None = None,
        *,
        when: When = "preferred",
        vary: Sequence[str] | None = None,
        default: Callable[[Any], Any] | None = None,
        option: int = 0,
    ) -> None:
        # Not JSONResponse.__init__: it renders a body, and there is none as a whole.
        self.status_code = status_code
        if media_type is not None:
            self.media_type = media_type
        self.background = background
        self.when: When = checked_when(when)
        self._vary = checked_vary(self.when, vary)
        self.dump: Dump = iter_dumps(content, default=default, option=option)
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix = "websocket." if scope["type"] == "websocket" else ""
        kind = prefix + "http.response.body"
        negotiated = self._negotiated(scope)
        status = 304 if self._is_current(scope, negotiated) else self.status_code
        start: Message = {"type": prefix + "http.response.start", "status": status}
        if status < 200 or status in BODILESS:
            await send({**start, "headers": self._headers_for(None, negotiated)})
            await send({"type": kind, "body": b""})
        else:
            # Refuses complex arrays, before anything is sent.
            dump = self.dump if negotiated.envelopes else self.dump.nested()
            start["headers"] = self._headers_for(dump.content_length, negotiated)
            if scope.get("method") == "HEAD":
                await send(start)
                await send({"type": kind, "body": b""})
            elif dump.content_length is not None and dump.content_length <= _SMALL:
                await send(start)
                await send({"type": kind, "body": b"".join(dump)})
            else:
                await _stream(dump, start, kind, receive, send)
        if self.background is not None:
            await self.background()

    def _negotiated(self, scope: Scope) -> Negotiated:
        """Return the decision of the middleware that the app stands behind, or make one."""
        negotiated: Negotiated | None = scope.get(SCOPE_KEY)
        if negotiated is None:
            return negotiate(self.when, self._vary, scope)
        if negotiated.envelopes:
            negotiated.claim()
        return negotiated

    def _is_current(self, scope: Scope, negotiated: Negotiated) -> bool:
        """Return whether the client has the form that it would get (RFC 9110 section 13.1.2)."""
        tag = self.headers.get("etag")
        if tag is None or self.status_code != 200 or scope.get("method") not in ("GET", "HEAD"):
            return False
        headers: RawHeaders | None = None
        if negotiated.envelopes and SCOPE_KEY not in scope:
            # A middleware would have done so.
            headers = seen_by_app(scope, frozenset())
        return is_current(scope["headers"] if headers is None else headers, tag.encode("latin-1"))

    def _headers_for(self, content_length: int | None, negotiated: Negotiated) -> RawHeaders:
        headers: RawHeaders = []
        for header in self.raw_headers:
            if header[0] == b"content-length":
                continue
            if header[0] == b"etag" and negotiated.envelopes:
                tag = tag_of_envelopes(header[1])
                if tag is None:
                    continue
                header = (header[0], tag)
            headers.append(header)
        if content_length is not None:
            headers.append((b"content-length", b"%d" % content_length))
        headers = with_vary(headers, negotiated.vary)
        if negotiated.applied:
            headers.append(APPLIED)
        return headers


async def _stream(pieces: Iterable[bytes], start: Message, kind: str, receive: Receive, send: Send) -> None:
    """Send a body piece by piece, until it ends or the client is gone."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        if kind == "http.response.body":
            tasks.start_soon(_cancel_on_disconnect, receive, tasks.cancel_scope)
        try:
            await send(start)
            for piece in pieces:
                await send({"type": kind, "body": piece, "more_body": True})
                # While the socket takes the data, send does not yield, and nobody would notice a disconnect.
                await anyio.lowlevel.checkpoint()
            await send({"type": kind, "body": b"", "more_body": False})
        except OSError:
            # How a server may say that the client is gone (ASGI HTTP spec 2.4).
            pass
        except Exception as exc:
            # Raised outside of the group, which would wrap it.
            failure = exc
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _cancel_on_disconnect(receive: Receive, cancel_scope: anyio.CancelScope) -> None:
    # No server raises from send once the client is gone; only receive tells.
    while (await receive())["type"] != "http.disconnect":
        pass
    cancel_scope.cancel()
