"""NDArrayMiddleware: any ASGI app speaks envelopes to whoever asks for them.

The middleware keeps no state but its configuration; what happens to a response is up to its ``Responder``.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ndwire import Field, Rewriter
from ndwire_asgi._budget import Budget
from ndwire_asgi._conversion import Rewritten, Settings, logger
from ndwire_asgi._headers import plain_headers, with_headers_read
from ndwire_asgi._media import Framing, FramingOf, checked_framings
from ndwire_asgi._negotiation import (
    SCOPE_KEY,
    Negotiated,
    When,
    checked_vary,
    checked_when,
    is_coroutine_function,
    negotiate,
    prefers_envelope,
)
from ndwire_asgi._responder import Responder
from ndwire_asgi._tags import RANGES, seen_by_app

Fields = Sequence[Field] | Mapping[str, Sequence[Field]]
"""One registry for every path, or several by path prefix."""

# A value of ten million small integers. A request costs about twice as much while it is converted, and any client may
# send some; where they are trusted, more is fine.
_MAX_HOLD_BYTES: Final = 32 << 20
_MAX_HELD_BYTES_TOTAL: Final = 256 << 20
# Proxies and clients wait for minutes, some for a few seconds; a space a second is no load.
_IDLE_SECONDS: Final = 1.0
_NO_TYPES: Final[Mapping[str | None, Framing]] = types.MappingProxyType({})
# Extensions by which an app hands the server a file instead of its bytes.
_FILES: Final = frozenset(("http.response.pathsend", "http.response.zerocopysend"))


class NDArrayMiddleware:
    """Rewrites the arrays in JSON responses into envelopes, for requests with ``Prefer: ndarray=envelope``.

    Nested lists, ``.npy`` strings and raw strings under the names of ``fields`` become envelopes while the app sends
    them, in JSON, NDJSON and event streams. Everything else goes on byte for byte, and so does every response when
    nobody asked. A compressing middleware belongs outside of this one.

    Args:
        app: The ASGI app.
        fields: The registered fields, or several such sequences by path prefix: the longest prefix that ends at a
            segment's boundary counts, and what no prefix matches is not touched. Fields that read nested lists must
            name their dtypes.
        when: ``"preferred"`` rewrites for requests that ask, ``"always"`` for all; a function of the ASGI scope decides
            for itself (``prefers_envelope`` is there to combine it with).
        vary: The names of the request's headers that such a function looks at, for caches; ``("Prefer",)`` by default.
        content_types: Further media types, without parameters, that are rewritten, each with its framing:
            ``"document"``, ``"lines"`` or ``"events"``. The key None stands for bodies without a type.
        hide_accept_encoding: Hide ``Accept-Encoding`` from the app where envelopes are wanted: for apps that compress
            by themselves, which leaves nothing to rewrite. Compress outside of this middleware instead.
        min_bytes: A value of fewer bytes of text goes out as it came.
        max_hold_bytes: So does a value of more bytes of text. A value is held until it is complete.
        max_held_bytes_total: What all responses together hold at most, in bytes of text; values beyond that go out as
            they came.
        idle_seconds: When a message of the app comes and for so long nothing went out, because a value is held, a
            space goes out in front of it, which JSON allows, so that nobody takes the silence for the end.
        on_rewrite: Called with a ``Rewritten`` when a response in which something was rewritten has gone out.

    Raises:
        ValueError: Fields that cannot work, a prefix that does not begin with a slash, another ``when``, ``vary``
            where ``when`` is no function, content types or framings that are none, or a negative number.
        TypeError: Something in ``fields`` is no ``Field``, or a coroutine function where a plain one is wanted.
    """

    def __init__(
        self,
        app: ASGIApp,
        fields: Fields,
        *,
        when: When = "preferred",
        vary: Sequence[str] | None = None,
        content_types: Mapping[str | None, Framing] = _NO_TYPES,
        hide_accept_encoding: bool = False,
        min_bytes: int = 0,
        max_hold_bytes: int = _MAX_HOLD_BYTES,
        max_held_bytes_total: int = _MAX_HELD_BYTES_TOTAL,
        idle_seconds: float = _IDLE_SECONDS,
        on_rewrite: Callable[[Rewritten], object] | None = None,
    ) -> None:
        if on_rewrite is not None and (not callable(on_rewrite) or is_coroutine_function(on_rewrite)):
            raise TypeError("on_rewrite must be a plain function: it is called, not awaited")
        self.app = app
        self.when: When = checked_when(when)
        self._vary = checked_vary(self.when, vary)
        self._routes = _routes(fields)
        if idle_seconds < 0:
            raise ValueError(f"idle_seconds must be at least 0, not {idle_seconds}")
        self._hidden = RANGES | {b"accept-encoding"} if hide_accept_encoding else RANGES
        self._settings = Settings(
            framing_of=checked_framings(content_types),
            max_hold_bytes=max_hold_bytes,
            budget=Budget(max_held_bytes_total),
            min_bytes=min_bytes,
            idle_seconds=idle_seconds,
            on_rewrite=on_rewrite,
        )
        for _, sequence in self._routes:
            # Refuses what cannot work now, and not at the first request.
            Rewriter(sequence, max_hold_bytes=max_hold_bytes, min_bytes=min_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        fields = self._fields_for(scope) if scope["type"] == "http" else ()
        if not fields:
            await self.app(scope, receive, send)
            return
        negotiated = negotiate(self.when, self._vary, scope)
        if not negotiated.envelopes:
            scope[SCOPE_KEY] = negotiated
            varying = _varying(send, negotiated.vary, self._settings.framing_of) if negotiated.vary else send
            await self.app(scope, receive, varying)
            return
        outer: Negotiated | None = scope.get(SCOPE_KEY)
        if outer is not None and outer.envelopes:
            # It has changed the request already.
            negotiated.outer = outer
        else:
            scope = _scope_of_envelopes(scope, self._hidden)
        scope[SCOPE_KEY] = negotiated
        responder = Responder(send, fields, negotiated, self._settings, scope)
        try:
            await self.app(scope, receive, responder.send)
            await responder.finish()
        finally:
            responder.release()

    def _fields_for(self, scope: Scope) -> tuple[Field, ...]:
        routes = self._routes
        if not routes[0][0]:
            # One sequence for every path.
            return routes[0][1]
        path = _route_path(scope)
        for prefix, fields in routes:
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                return fields
        if logger.isEnabledFor(logging.DEBUG) and (self.when != "preferred" or prefers_envelope(scope)):
            root = scope.get("root_path", "")
            logger.debug("no prefix of fields matches %r, which is the path below the root path %r", path, root)
        return ()


def _routes(fields: Fields) -> list[tuple[str, tuple[Field, ...]]]:
    """Return prefixes, without a slash at the end, and their fields; the longest first."""
    if not isinstance(fields, Mapping):
        return [("", tuple(fields))]
    routes: dict[str, tuple[Field, ...]] = {}
    for prefix, sequence in fields.items():
        if not isinstance(prefix, str) or not prefix.startswith("/"):
            raise ValueError(f"a path prefix begins with a slash, unlike {prefix!r}")
        if routes.setdefault(prefix.rstrip("/"), tuple(sequence)) != tuple(sequence):
            raise ValueError(f"the path prefix {prefix!r} is there twice")
    return sorted(routes.items(), key=lambda route: -len(route[0])) or [("", ())]


def _route_path(scope: Mapping[str, Any]) -> str:
    """Return the path as the app sees it: below the path that it is mounted at."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    below = path.removeprefix(root)
    return below if below.startswith("/") else path if below else "/"


def _scope_of_envelopes(scope: Scope, hidden: frozenset[bytes]) -> Scope:
    """Return what the app sees of a request that gets envelopes: the same object if nothing is hidden or changed."""
    headers = seen_by_app(scope, hidden)
    extensions = scope.get("extensions")
    if headers is None and not extensions:
        return scope
    changed: Scope = {} if headers is None else {"headers": headers}
    if extensions and not _FILES.isdisjoint(extensions):
        changed["extensions"] = {name: value for name, value in extensions.items() if name not in _FILES}
    # A copy only where it has to be: outer middlewares may read from the scope what the app leaves in it.
    return {**scope, **changed} if changed else scope


def _varying(send: Send, vary: Sequence[bytes], framing_of: FramingOf) -> Send:
    """Say of responses that might have been rewritten what that depended on; else pass all messages on."""

    def pass_on(message: Message) -> Awaitable[None]:
        # Not a coroutine itself: that would cost as much as all else here.
        if message["type"] == "http.response.start":
            message = _varied(message, vary, framing_of)
        return send(message)

    return pass_on


def _varied(message: Message, vary: Sequence[bytes], framing_of: FramingOf) -> Message:
    message = with_headers_read(message)
    try:
        headers = plain_headers(message, vary, framing_of)
    except Exception as exc:
        # Headers that are none, for example: whatever it is, the server is to see it as it came.
        logger.warning("the response goes out as it came", exc_info=exc)
        return message
    return message if headers is None else {**message, "headers": headers}
