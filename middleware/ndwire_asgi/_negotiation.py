"""What the headers of a request and a response say about envelopes. Pure functions.

Source: RFC 7240 (Prefer), RFC 9110 sections 8 (representations) and 12.5.5 (Vary).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final, Literal, cast

from ndwire_asgi._preferences import first_preference

When = Literal["preferred", "always"] | Callable[[Mapping[str, Any]], bool]
"""Who gets envelopes: those who ask, all, or those whom a function of the ASGI scope chooses."""

RawHeaders = list[tuple[bytes, bytes]]

PREFERENCE: Final = b"ndarray"
ENVELOPE: Final = b"envelope"
APPLIED: Final = (b"preference-applied", b"ndarray=envelope")
SCOPE_KEY: Final = "ndwire_asgi"
"""Where in the scope a middleware leaves its decision."""

_PREFER: Final = b"prefer"
_PREFER_LENGTH: Final = len(_PREFER)
_VARY: Final = b"vary"
_VARY_LENGTH: Final = len(_VARY)
_LINES: Final = frozenset((b"application/x-ndjson", b"application/ndjson", b"application/jsonl"))
_UNTOUCHED: Final = frozenset((204, 206, 304))
# The headers that matter here. Those of the last line are about bytes that are no longer sent.
_ROLES: Final = {
    b"content-type": "type",
    b"content-encoding": "encoding",
    b"preference-applied": "applied",
    b"etag": "tag",
    b"content-length": "length",
    **dict.fromkeys((b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"), "dropped"),
}


class Negotiated:
    """What a middleware decided about one request, for the responses inside of it.

    Attributes:
        envelopes: Whether arrays go out as envelopes.
        vary: Whether that depended on the request's ``Prefer``.
        applied: Whether the response is to say so.
        written: Set by a response that writes its envelopes itself.
    """

    __slots__ = ("applied", "envelopes", "vary", "written")

    def __init__(self, envelopes: bool, vary: bool, applied: bool) -> None:
        self.envelopes = envelopes
        self.vary = vary
        self.applied = applied
        self.written = False


NOT_ASKED: Final = Negotiated(False, True, False)
"""The decision about all requests that could have asked for envelopes, and did not."""


def negotiate(when: When, scope: Mapping[str, Any]) -> Negotiated:
    """Decide about one request."""
    preferred = prefers_envelope(scope)
    if when == "preferred":
        return Negotiated(preferred, True, preferred) if preferred else NOT_ASKED
    envelopes = when == "always" or (callable(when) and bool(when(scope)))
    return Negotiated(envelopes, False, envelopes and preferred)


def prefers_envelope(scope: Mapping[str, Any]) -> bool:
    """Return whether a request asks for envelopes: ``Prefer: ndarray=envelope``.

    The first ``ndarray`` preference counts, as RFC 7240 section 2 has it.

    Args:
        scope: An ASGI HTTP scope.
    """
    for name, value in scope.get("headers", ()):
        if len(name) == _PREFER_LENGTH and name.lower() == _PREFER:
            preference = _first_preference(value)
            if preference is not None:
                return preference == ENVELOPE
    return False


@functools.lru_cache(maxsize=64)
def _first_preference(header: bytes) -> bytes | None:
    return first_preference(header, PREFERENCE)


def checked_when(when: object) -> When:
    """Return ``when`` if it is one of the three kinds.

    Raises:
        ValueError: It is another string.
        TypeError: It is neither a string nor callable, or a coroutine function, whose result is always true.
    """
    if isinstance(when, str):
        if when in ("preferred", "always"):
            return cast("When", when)
        raise ValueError(f'when must be "preferred", "always" or a function of the scope, not {when!r}')
    if not callable(when):
        raise TypeError(f'when must be "preferred", "always" or a function of the scope, not {type(when).__name__}')
    if is_coroutine_function(when):
        raise TypeError("when must be a plain function: what a coroutine function returns is always true")
    return cast("When", when)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Return whether calling ``function`` gives a coroutine, also where it is an object with ``__call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


Framing = Literal["document", "lines", "events"]
"""Whether a body is one JSON document, one per line, or an event stream."""


@functools.lru_cache(maxsize=256)
def _framing(content_type: bytes) -> Framing | None:
    media_type = content_type.partition(b";")[0].strip().lower()
    if media_type == b"application/json" or (media_type.startswith(b"application/") and media_type.endswith(b"+json")):
        return "document"
    if media_type == b"text/event-stream":
        return "events"
    return "lines" if media_type in _LINES else None


# What a body is, what its headers become, and the length that the app declared.
Rewritable = tuple[Framing, RawHeaders, int | None]


def with_headers_read(start: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a response's start whose headers can be read more than once; an iterator could be but once."""
    headers = start.get("headers", ())
    return start if isinstance(headers, (list, tuple)) else {**start, "headers": list(headers)}


def rewritable(start: Mapping[str, Any], negotiated: Negotiated) -> Rewritable | None:
    """Return what a response becomes; None if it is none that may be rewritten.

    Where its body is rewritten, its headers lose its length, the digests of its bytes, and the offer of ranges, and an
    ``ETag`` is weak. Where nobody asked for that, they only say that they depend on ``Prefer``.

    Args:
        start: The response's start, as ``with_headers_read`` gives it. It is not changed.
        negotiated: What the middleware decided.
    """
    status = start["status"]
    if status < 200 or status in _UNTOUCHED:
        return None
    framing: Framing | None = None
    length: int | None = None
    rewritten = negotiated.envelopes
    result: RawHeaders = []
    for header in start.get("headers", ()):
        role = _ROLES.get(header[0].lower())
        if role is None:
            result.append(header)
            continue
        value = header[1]
        if role == "type":
            framing = _framing(value)
            if framing is None:
                return None
        elif role == "encoding":
            if value.strip().lower() not in (b"", b"identity"):
                return None
        elif role == "applied":
            # An NDArrayResponse, another middleware, or an upstream was there before.
            if _first_preference(value) == ENVELOPE:
                return None
        elif rewritten and role == "tag":
            header = header if value.startswith(b"W/") else (header[0], b"W/" + value)
        elif rewritten:
            if role == "length":
                length = int(value) if len(value) < 20 and value.strip().isdigit() else None
            continue
        result.append(header)
    if framing is None:
        return None
    if negotiated.vary:
        result = extend_vary(result)
    if negotiated.applied:
        result.append(APPLIED)
    return framing, result, length


def extend_vary(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return ``headers`` with ``Prefer`` among the names in ``Vary``."""
    result = list(headers)
    for index, (name, value) in enumerate(result):
        if len(name) == _VARY_LENGTH and name.lower() == _VARY:
            names = [item.strip().lower() for item in value.split(b",")]
            if b"*" in names or _PREFER in names:
                return result
            result[index] = (name, value + b", Prefer")
            return result
    result.append((_VARY, b"Prefer"))
    return result
