"""What becomes of a response's headers. Pure functions.

Source: RFC 9110 sections 8 (representations), 12.5.5 (Vary) and 15 (status codes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, NamedTuple

from ndwire_asgi._media import Framing, FramingOf
from ndwire_asgi._negotiation import APPLIED, ENVELOPE, Negotiated, ndarray_preference
from ndwire_asgi._tags import RawHeaders, tag_of_envelopes

BODILESS: Final = frozenset((204, 205, 304))
"""Statuses of responses without a body, besides all below 200."""

_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304
_PARTIAL: Final = 206
_PARTS: Final = b"multipart/byteranges"
_TYPE: Final = b"content-type"
_VARY: Final = b"vary"
# The headers that matter here. Those of the last line are about bytes that are no longer sent.
_ROLES: Final = {
    _TYPE: "type",
    b"content-encoding": "encoding",
    b"preference-applied": "applied",
    b"etag": "tag",
    b"content-length": "length",
    _VARY: "vary",
    **dict.fromkeys((b"content-md5", b"digest", b"content-digest", b"repr-digest", b"accept-ranges"), "dropped"),
}


class Plan(NamedTuple):
    """What becomes of a response to a request that gets envelopes.

    Attributes:
        headers: Its headers, without a length where its body is rewritten. None: they stay as they are.
        framing: How documents stand in its body, if that is rewritten.
        length: The length that the app declared, of a body that is rewritten.
        reason: Why it is not, if it is not.
        packed: The content encoding, if that is the reason.
    """

    headers: RawHeaders | None
    framing: Framing | None = None
    length: int | None = None
    reason: str = ""
    packed: bytes = b""


def with_headers_read(start: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a response's start whose headers can be read more than once; an iterator could be but once."""
    headers = start.get("headers", ())
    return start if isinstance(headers, (list, tuple)) else {**start, "headers": list(headers)}


def plain_headers(start: Mapping[str, Any], vary: Sequence[bytes], framing_of: FramingOf) -> RawHeaders | None:
    """Return the headers of a response that goes out as it came, although it might have been rewritten.

    They say what that depended on; so do those of a 304 (section 15.4.5), of a part, and of a compressed body, since a
    cache has one list of such headers for all that is at one place.

    Args:
        start: The response's start, as ``with_headers_read`` gives it.
        vary: The names of the request's headers that it depends on.
        framing_of: What is rewritten.

    Returns:
        The headers; None if they stay as they are.
    """
    status = start["status"]
    if status < 200 or status == _NO_CONTENT or not vary:
        return None
    untyped = True
    result: RawHeaders = []
    lines: list[bytes] = []
    for header in start.get("headers", ()):
        name = header[0].lower()
        if name == _VARY:
            lines.append(header[1])
            continue
        if name == _TYPE:
            untyped = False
            value = header[1]
            if framing_of(value) is None and not (status == _PARTIAL and value.startswith(_PARTS)):
                return None
        result.append(header)
    if untyped and status != _NOT_MODIFIED and framing_of(b"") is None:
        return None
    result.append((_VARY, _merged(lines, vary)))
    return result


def envelope_plan(start: Mapping[str, Any], negotiated: Negotiated, framing_of: FramingOf) -> Plan:
    """Return what becomes of a response to a request that gets envelopes.

    Where its body is rewritten, its headers lose its length, the digests of its bytes, and the offer of ranges, and an
    ``ETag`` becomes that of envelopes. So do those of a 304, which speaks of envelopes that were sent before.

    Args:
        start: The response's start, as ``with_headers_read`` gives it. It is not changed.
        negotiated: What the middleware decided.
        framing_of: What is rewritten.
    """
    status = start["status"]
    if status < 200 or status in (_NO_CONTENT, 205):
        return Plan(None, reason=f"a response of status {status} has no body")
    content_type = packed = b""
    length: int | None = None
    obstacle = "it is a part of a body" if status == _PARTIAL else ""
    result: RawHeaders = []
    lines: list[bytes] = []
    for header in start.get("headers", ()):
        role = _ROLES.get(header[0].lower())
        if role is None:
            result.append(header)
            continue
        value = header[1]
        if role == "type":
            content_type = value
            result.append(header)
        elif role == "length":
            if length is not None or len(value) >= 20 or not value.strip().isdigit():
                # What is wrong about it, the server says best.
                obstacle = f"its Content-Length is {value[:40]!r}"
            else:
                length = int(value)
        elif role == "tag":
            tag = tag_of_envelopes(value)
            if tag is not None:
                result.append((header[0], tag))
        elif role == "vary":
            lines.append(value)
        elif role == "encoding":
            if value.strip().lower() not in (b"", b"identity"):
                packed = value
                obstacle = f"its body is packed as {value!r}"
            result.append(header)
        elif role == "applied":
            # An NDArrayResponse, another middleware, or an upstream was there before.
            if ndarray_preference(value) == ENVELOPE:
                return Plan(None, reason="it says that it holds envelopes already")
            result.append(header)
    framing = framing_of(content_type)
    if status == _NOT_MODIFIED and (framing is not None or not content_type):
        return Plan(_varied(result, lines, negotiated.vary), reason="a response of status 304 has no body")
    if framing is None or obstacle:
        reason = obstacle if framing is not None else f"its Content-Type is {content_type[:80]!r}"
        headers = plain_headers(start, negotiated.vary, framing_of)
        return Plan(headers, reason=reason, packed=packed if framing is not None else b"")
    if lines or len(negotiated.vary) != 1:
        _varied(result, lines, negotiated.vary)
    else:
        # As nearly always.
        result.append((_VARY, negotiated.vary[0]))
    if negotiated.applied:
        result.append(APPLIED)
    return Plan(result, framing, length)


def with_vary(headers: Iterable[tuple[bytes, bytes]], names: Sequence[bytes]) -> RawHeaders:
    """Return ``headers`` with ``names`` among those in ``Vary``, and that in one line."""
    headers = list(headers)
    lines = [value for name, value in headers if name.lower() == _VARY]
    return _varied([header for header in headers if header[0].lower() != _VARY], lines, names)


def _varied(headers: RawHeaders, lines: list[bytes], names: Sequence[bytes]) -> RawHeaders:
    """Append ``Vary`` to headers without it: the lines that there were and ``names``."""
    if names:
        headers.append((_VARY, _merged(lines, names)))
    else:
        headers += [(_VARY, line) for line in lines]
    return headers


def _merged(lines: list[bytes], names: Sequence[bytes]) -> bytes:
    """Return one line for all: nginx looks at no other."""
    if not lines:
        return names[0] if len(names) == 1 else b", ".join(names)
    items = [item for line in lines for item in map(bytes.strip, line.split(b",")) if item]
    known = {item.lower() for item in items}
    if b"*" in known:
        return b"*"
    return b", ".join([*items, *(name for name in names if name.lower() not in known)])
