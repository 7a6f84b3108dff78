"""Entity tags of envelopes, and the conditions of requests that get them.

An app knows one tag for what it says, ``"v1"``. Lists and envelopes must not share it: ``If-None-Match`` compares
weakly, so a cache would give one form to those who want the other. Envelopes therefore have a tag of their own, and
the app never sees it::

    the app says     ETag: "v1"                      the client gets  ETag: W/"v1-ndarray"
    the client asks  If-None-Match: W/"v1-ndarray"   the app sees     If-None-Match: "v1"

The tag is weak, since the same envelope may be written with other bytes one day (another order of dtypes).

Source: RFC 9110 sections 8.8.3 (ETag), 13.1 (preconditions), 14.2 (Range).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

RawHeaders = list[tuple[bytes, bytes]]

RANGES: Final = frozenset((b"range", b"if-range"))
"""The request's headers that an app must not see: parts of lists and of envelopes do not fit together."""

_CONDITIONS: Final = frozenset((b"if-none-match", b"if-match"))
_SUFFIX: Final = b"-ndarray"
# Commas are legal within a tag; nothing is escaped.
_TAG: Final = re.compile(rb'(?:W/)?"([^"]*+)"')


def tag_of_envelopes(tag: bytes) -> bytes | None:
    """Return the tag of a response's envelopes, or None if ``tag`` is no entity tag."""
    match = _TAG.fullmatch(tag.strip())
    return b'W/"%b%b"' % (match[1], _SUFFIX) if match is not None else None


def seen_by_app(scope: Mapping[str, Any], hidden: frozenset[bytes]) -> RawHeaders | None:
    """Return the headers that an app sees of a request that gets envelopes.

    Tags of envelopes become the app's own. Of ``If-None-Match``, the other tags are dropped where that only costs a
    whole response, that is for GET and HEAD; they are those of lists. Then ``If-Modified-Since`` goes as well, which
    the app would have ignored beside them (section 13.1.3). No other precondition loses a tag: the app would do what
    the client forbids.

    Args:
        scope: The request's ASGI scope.
        hidden: The names, in lower case, of headers that are not shown at all.

    Returns:
        The headers; None if they stay as they are.
    """
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    names = [header[0].lower() for header in headers]
    if hidden.isdisjoint(names) and _CONDITIONS.isdisjoint(names):
        return None
    if b"if-none-match" in names and scope["method"] in ("GET", "HEAD"):
        hidden |= {b"if-modified-since"}
        dropping = True
    else:
        dropping = False
    result: RawHeaders = []
    for name, (raw_name, value) in zip(names, headers, strict=True):
        if name in hidden:
            continue
        if name == b"if-none-match" and dropping:
            value = _tags_of_envelopes(value)
            if not value:
                continue
        elif name in _CONDITIONS:
            value = _TAG.sub(_app_s_own, value)
        result.append((raw_name, value))
    return result


def is_current(headers: Iterable[tuple[bytes, bytes]], tag: bytes) -> bool:
    """Return whether ``If-None-Match`` says that the client has what ``tag`` is of (section 13.1.2)."""
    tags: list[bytes] = []
    for name, value in headers:
        if name.lower() == b"if-none-match":
            if value.strip() == b"*":
                return True
            tags += _TAG.findall(value)
    match = _TAG.fullmatch(tag.strip())
    return match is not None and match[1] in tags


def _tags_of_envelopes(value: bytes) -> bytes:
    """Return the tags of envelopes alone, as the app knows them."""
    if value.strip() == b"*":
        return value
    tags: list[bytes] = _TAG.findall(value)
    return b", ".join(b'"%b"' % tag.removesuffix(_SUFFIX) for tag in tags if tag.endswith(_SUFFIX))


def _app_s_own(match: re.Match[bytes]) -> bytes:
    # Without the mark of a weak tag, which is ours: If-Match compares strongly and would always fail. An app whose own
    # tag is weak still refuses it, as it has to.
    return b'"%b"' % match[1].removesuffix(_SUFFIX) if match[1].endswith(_SUFFIX) else match[0]
