"""What the headers of a request and a response say about envelopes. Pure functions.

Source: RFC 7240 (Prefer), RFC 9110 section 12.5.5 (Vary).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from email.message import Message
from typing import Any, Final, Literal, cast
from urllib.request import parse_http_list

When = Literal["preferred", "always"] | Callable[[Mapping[str, Any]], bool]
RawHeaders = list[tuple[bytes, bytes]]

PREFERENCE: Final = "ndarray"
ENVELOPE: Final = "envelope"
APPLIED: Final = (b"preference-applied", b"ndarray=envelope")
_PREFER: Final = b"prefer"
_VARY: Final = b"vary"


def prefers_envelope(scope: Mapping[str, Any]) -> bool:
    """Return whether a request asks for envelopes: ``Prefer: ndarray=envelope``.

    The first ``ndarray`` preference counts, as RFC 7240 section 2 has it.

    Args:
        scope: An ASGI HTTP scope.
    """
    for name, value in scope.get("headers", ()):
        # Most requests have no such header; its grammar is read only where the word occurs at all.
        if name.lower() == _PREFER and PREFERENCE.encode() in value.lower():
            preference = _first_preference(value.decode("latin-1"))
            if preference is not None:
                return preference == ENVELOPE
    return False


def _first_preference(header: str) -> str | None:
    for item in parse_http_list(header):
        message = Message()
        message["prefer"] = item
        parameters = message.get_params([], header="prefer")
        if parameters and parameters[0][0].lower() == PREFERENCE:
            return parameters[0][1]
    return None


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
    if inspect.iscoroutinefunction(when) or inspect.iscoroutinefunction(type(when).__call__):
        raise TypeError("when must be a plain function: what a coroutine function returns is always true")
    return cast("When", when)


def wants_envelope(when: When, scope: Mapping[str, Any]) -> bool:
    """Return whether this request gets envelopes."""
    if callable(when):
        return bool(when(scope))
    return when == "always" or prefers_envelope(scope)


def extend_vary(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return ``headers`` with ``Prefer`` among the names in ``Vary``."""
    result = list(headers)
    for index, (name, value) in enumerate(result):
        if name.lower() == _VARY:
            names = [item.strip().lower() for item in value.split(b",")]
            if b"*" in names or _PREFER in names:
                return result
            result[index] = (name, value + b", Prefer")
            return result
    result.append((_VARY, b"Prefer"))
    return result
