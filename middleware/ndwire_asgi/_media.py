"""Media types of bodies that are rewritten.

Source: RFC 8259 section 11 (JSON), RFC 6839 section 3.1 (+json), RFC 7464 and 8091 (json-seq), the WHATWG HTML standard
section 9.2 (event streams). The types of lines are nobody's standard; all of these are in use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Final, Literal

Framing = Literal["document", "lines", "events"]
"""Whether a body is one JSON document, one per line, or an event stream."""

FramingOf = Callable[[bytes], Framing | None]
"""What a ``Content-Type`` says about framing; empty bytes: there is none. None: the body is not to be rewritten."""

_FRAMINGS: Final = ("document", "lines", "events")
_DOCUMENTS: Final = frozenset((b"application/json", b"text/json"))
_LINES: Final = frozenset(
    b"application/" + name
    for name in (
        b"x-ndjson",
        b"ndjson",
        b"jsonl",
        b"x-jsonl",
        b"jsonlines",
        b"x-jsonlines",
        b"json-lines",
        # The record separators stand between documents, where they are text like any other.
        b"json-seq",
    )
)


@functools.lru_cache(maxsize=256)
def usual_framing(content_type: bytes) -> Framing | None:
    """Return how documents stand in a body of this type; None: it is none that is rewritten."""
    media_type = _media_type(content_type)
    if media_type in _DOCUMENTS:
        return "document"
    if media_type == b"text/event-stream":
        return "events"
    if media_type in _LINES:
        return "lines"
    if media_type.startswith(b"application/"):
        if media_type.endswith(b"+json"):
            return "document"
        if media_type.endswith(b"+json-seq"):
            return "lines"
    return None


def checked_framings(content_types: Mapping[str | None, Framing]) -> FramingOf:
    """Return what content types mean, the usual ones and those of the caller.

    Args:
        content_types: Media types, without parameters, and how documents stand in such bodies. None: bodies without a
            type.

    Raises:
        ValueError: A type or a framing is none.
    """
    framings: dict[bytes, Framing] = {}
    for media_type, framing in content_types.items():
        if framing not in _FRAMINGS:
            raise ValueError(f'content_types must give "document", "lines" or "events", not {framing!r}')
        if media_type is not None and ("/" not in media_type or ";" in media_type):
            raise ValueError(f"content_types are media types without parameters, or None, unlike {media_type!r}")
        framings[b"" if media_type is None else media_type.strip().lower().encode()] = framing
    if not framings:
        return usual_framing

    @functools.lru_cache(maxsize=256)
    def framing_of(content_type: bytes) -> Framing | None:
        return framings.get(_media_type(content_type)) or usual_framing(content_type)

    return framing_of


def _media_type(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()
