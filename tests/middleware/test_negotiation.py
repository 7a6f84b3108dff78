from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import pytest

from ndwire_asgi import prefers_envelope
from ndwire_asgi._negotiation import checked_vary, checked_when, negotiate


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], False),
        ([b"ndarray=envelope"], True),
        ([b"respond-async, ndarray=envelope; wait=3"], True),
        ([b'ndarray="envelope"'], True),
        ([b"NDArray = envelope"], True),
        ([b'foo="a, ndarray=nested", ndarray=envelope'], True),
        ([b"respond-async", b"ndarray=envelope"], True),
        ([b"ndarray=nested, ndarray=envelope"], False),
        ([b"ndarray=nested", b"ndarray=envelope"], False),
        ([b"ndarray=envelope, ndarray=nested"], True),
        ([b"ndarray"], False),
        ([b"ndarray="], False),
        ([b"ndarray=envelopes"], False),
        ([b"x-ndarray=envelope"], False),
        ([b"foo; ndarray=envelope"], False),
        ([b'foo="ndarray=envelope"'], False),
        ([b"respond-async"], False),
        ([b", ,ndarray=envelope"], True),
        ([b"ndarray=envelope\xff"], False),
    ],
)
def test_prefer(values: list[bytes], expected: object) -> None:
    for name in (b"prefer", b"Prefer"):
        assert (
            prefers_envelope({"headers": [(b"accept", b"ndarray=envelope"), *((name, v) for v in values)]}) is expected
        )


def test_a_scope_without_headers() -> None:
    assert prefers_envelope({}) is False


def wants_envelope(when: Any, scope: Any) -> bool:
    return negotiate(when, checked_vary(when, None), scope).envelopes


def test_when() -> None:
    scope: dict[str, Any] = {"headers": [(b"prefer", b"ndarray=envelope")], "path": "/x"}
    assert wants_envelope(checked_when("preferred"), scope)
    assert not wants_envelope(checked_when("preferred"), {})
    assert wants_envelope(checked_when("always"), {})
    decide = checked_when(lambda scope: scope["path"] == "/x")
    assert wants_envelope(decide, scope)
    assert not wants_envelope(decide, {"path": "/y"})


async def coroutine(scope: Mapping[str, Any]) -> bool:
    return False


class Async:
    async def __call__(self, scope: Mapping[str, Any]) -> bool:
        return False


@pytest.mark.parametrize("when", [coroutine, Async(), functools.partial(coroutine), 3, None])
def test_when_of_another_type(when: Any) -> None:
    with pytest.raises(TypeError, match="when must be"):
        checked_when(when)


def test_when_of_another_name() -> None:
    with pytest.raises(ValueError, match="when must be"):
        checked_when("sometimes")
