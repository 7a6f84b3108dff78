"""Every vector, in every chunking, through every entry point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import ndwire
from ndwire import WireError, aload, load, loads
from support.chunking import Outcome, lawful, plain
from support.vectors import Vector, vectors

FILES = ("envelope", "envelope_errors", "npy", "raw", "nested", "numbers")


def check(vector: Vector, result: Outcome) -> None:
    expect = vector.expect
    if "value" in expect:
        assert result.error is None, result.message
        assert result.document == expect["value"]
    else:
        assert result.error is not None
        assert issubclass(result.error, getattr(ndwire, expect["error"])), result
        if "offset" in expect:
            assert result.offset == expect["offset"]
    if "arrays" in expect:
        events = [
            {"name": name, "ordinal": ordinal, "sidecar": sidecar} for name, ordinal, _, sidecar, _ in result.arrays
        ]
        assert events == expect["arrays"]
    if result.error is None:
        assert [event[2] for event in result.arrays] == list(arrays_in(result.document))


def arrays_in(document: Any) -> Any:
    """Yield the arrays of a plain document in its order."""
    if isinstance(document, dict):
        if "$ndarray" in document:
            yield document
            return
        items = [document["$packed"]["array"]] if "$packed" in document else list(document.values())
        for item in items:
            yield from arrays_in(item)
    elif isinstance(document, list):
        for item in document:
            yield from arrays_in(item)


@vectors(*FILES)
def test_parser(vector: Vector) -> None:
    check(vector, lawful(vector.body, vector.fields))


def one_call(read: Any) -> Outcome:
    try:
        return Outcome([], plain(read()))
    except WireError as error:
        return Outcome([], None, type(error), error.offset, str(error))


@vectors(*FILES)
def test_one_call(vector: Vector) -> None:
    body, fields = vector.body, vector.fields
    expect = {key: value for key, value in vector.expect.items() if key != "arrays"}

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    results = [
        one_call(lambda: loads(body, fields)),
        one_call(lambda: loads(bytearray(body), tuple(fields))),
        one_call(lambda: loads(memoryview(body), fields)),
        one_call(lambda: load([body[:9], body[9:]], fields)),
        one_call(lambda: load([body], fields, content_length=len(body))),
        one_call(lambda: asyncio.run(aload(pieces(), fields))),
    ]
    assert all(result == results[0] for result in results)
    if "value" in expect:
        assert results[0].document == expect["value"]
    else:
        assert results[0].error is not None
        assert issubclass(results[0].error, getattr(ndwire, expect["error"]))
        assert "offset" not in expect or results[0].offset == expect["offset"]


def test_the_vectors_are_there() -> None:
    assert len(vectors(*FILES).args[1]) == 58 + 119 + 32 + 10 + 72 + 105


def test_check_can_fail() -> None:
    good: Vector = vectors("envelope").args[1][0].values[0]
    with pytest.raises(AssertionError):
        check(good, Outcome([], {"choices": []}))
