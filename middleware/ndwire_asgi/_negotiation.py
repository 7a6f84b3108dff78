"""Which requests get envelopes, and what that depends on. Pure functions.

Source: RFC 7240 (Prefer), RFC 9110 section 12.5.5 (Vary).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from ndwire_asgi._preferences import first_preference

When = Literal["preferred", "always"] | Callable[[Mapping[str, Any]], bool]
"""Who gets envelopes: those who ask, all, or those whom a function of the ASGI scope chooses."""

PREFERENCE: Final = b"ndarray"
ENVELOPE: Final = b"envelope"
APPLIED: Final = (b"preference-applied", b"ndarray=envelope")
SCOPE_KEY: Final = "ndwire_asgi"
"""Where in the scope a middleware leaves its decision."""

_PREFER: Final = b"prefer"
_PREFER_LENGTH: Final = len(_PREFER)
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class Negotiated:
    """What a middleware decided about one request, for the responses inside of it.

    Attributes:
        envelopes: Whether arrays go out as envelopes.
        vary: The names of the request's headers that this depended on.
        applied: Whether the response is to say so.
        outer: What another middleware, outside of this one, decided, if that was in favour of envelopes.
        written: Whether somebody inside has written the response as one of envelopes.
    """

    __slots__ = ("applied", "envelopes", "outer", "vary", "written")

    def __init__(self, *, envelopes: bool, vary: Sequence[bytes], applied: bool) -> None:
        self.envelopes = envelopes
        self.vary = vary
        self.applied = applied
        self.outer: Negotiated | None = None
        self.written = False

    def claim(self) -> None:
        """Say to the middlewares outside that the response is done, headers and all."""
        decision: Negotiated | None = self
        while decision is not None:
            decision.written = True
            decision = decision.outer


_BY_PREFER: Final = (b"Prefer",)

NOT_ASKED: Final = Negotiated(envelopes=False, vary=_BY_PREFER, applied=False)
"""The decision about all requests that could have asked for envelopes, and did not."""


def negotiate(when: When, vary: Sequence[bytes], scope: Mapping[str, Any]) -> Negotiated:
    """Decide about one request.

    Args:
        when: Who gets envelopes.
        vary: What that depends on, as ``checked_vary`` gives it.
        scope: The request's ASGI scope.
    """
    preferred = prefers_envelope(scope)
    if when == "preferred":
        return Negotiated(envelopes=True, vary=vary, applied=True) if preferred else NOT_ASKED
    envelopes = when == "always" or (callable(when) and bool(when(scope)))
    return Negotiated(envelopes=envelopes, vary=vary, applied=envelopes and preferred)


def prefers_envelope(scope: Mapping[str, Any]) -> bool:
    """Return whether a request asks for envelopes: ``Prefer: ndarray=envelope``.

    The first ``ndarray`` preference counts, as RFC 7240 section 2 has it.

    Args:
        scope: An ASGI HTTP scope.
    """
    for name, value in scope.get("headers", ()):
        if len(name) == _PREFER_LENGTH and name.lower() == _PREFER:
            preference = ndarray_preference(value)
            if preference is not None:
                return preference == ENVELOPE
    return False


@functools.lru_cache(maxsize=64)
def ndarray_preference(header: bytes) -> bytes | None:
    """Return the value of the first ``ndarray`` preference in a header line."""
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


def checked_vary(when: When, vary: Sequence[str] | None) -> tuple[bytes, ...]:
    """Return the names of the headers that ``when`` depends on.

    Args:
        when: Who gets envelopes.
        vary: What its caller says that a function depends on; None: ``Prefer``.

    Raises:
        ValueError: ``when`` is no function, so that there is nothing to say, or one of the names is none.
        TypeError: ``vary`` is one string.
    """
    if vary is None:
        return () if when == "always" else _BY_PREFER
    if isinstance(vary, str):
        raise TypeError(f"vary must be a sequence of header names, such as ({vary!r},)")
    if not callable(when):
        raise ValueError(f"vary says what a function depends on, and when is {when!r}")
    for name in vary:
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"vary holds {name!r}, which is no header's name")
    return tuple(name.encode() for name in vary)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Return whether calling ``function`` gives a coroutine, also where it is an object with ``__call__``."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
