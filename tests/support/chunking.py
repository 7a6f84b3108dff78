"""The law's helper: feed a body in many cuts, and insist that nothing but the cut differs."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ndwire import ArrayReady, Field, Packed, Parser, WireError


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a body led to, in a form that can be compared."""

    arrays: list[Any]
    document: Any = None
    error: type[WireError] | None = None
    offset: int | None = None
    message: str = ""


def plain(value: Any) -> Any:
    """Return a document with its arrays in the notation of the vectors."""
    if isinstance(value, Packed):
        return {"$packed": {"array": plain(value.array), "sidecar": value.sidecar}}
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        assert value.flags.writeable
        assert value.dtype.isnative
        little = value.astype(value.dtype.newbyteorder("<")) if value.dtype.isbuiltin == 1 else value
        return {"$ndarray": {"dtype": value.dtype.name, "shape": list(value.shape), "hex": little.tobytes().hex()}}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def plain_event(event: ArrayReady) -> Any:
    """Return an event in a form that can be compared."""
    return event.name, event.ordinal, plain(event.array), event.sidecar, event.offset


def outcome(chunks: Iterable[bytes], fields: Sequence[Field], **options: Any) -> Outcome:
    """Feed ``chunks`` to a parser, close it, and ask it again."""
    parser = Parser(fields, **options)
    arrays: list[Any] = []
    try:
        for chunk in chunks:
            arrays += map(plain_event, parser.feed(chunk))
        document = parser.close()
    except WireError as error:
        for again in (parser.close, lambda: parser.feed(b"x")):
            try:
                again()
            except WireError as second:
                assert (type(second), second.offset, str(second)) == (type(error), error.offset, str(error))
            else:
                raise AssertionError("a failed parser works again") from error
        return Outcome(arrays, None, type(error), error.offset, str(error))
    assert parser.close() is document
    return Outcome(arrays, plain(document))


def partition(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut ``body`` at ``cuts``."""
    edges = [0, *sorted(cuts), len(body)]
    return [body[i:j] for i, j in itertools.pairwise(edges)]


def chunkings(body: bytes, *, seed: int = 0, every_cut: int | None = None, partitions: int = 12) -> Iterator[list[Any]]:
    """Yield ``body`` whole, in other types, byte by byte, with empty chunks, cut in two everywhere, and at random.

    Args:
        body: The body.
        seed: Of the random cuts.
        every_cut: Longer bodies are cut in two at so many places only. By default that is everywhere up to a few KiB.
        partitions: How many random partitions.
    """
    yield [body]
    yield [bytearray(body)]
    yield [memoryview(body)]
    singles = [body[k : k + 1] for k in range(len(body))]
    yield singles
    yield [piece for single in singles for piece in (b"", single, b"")]
    step = max(len(body) // (every_cut or max(8_000_000 // (len(body) + 1), 100)), 1)
    for cut in range(0, len(body) + 1, step):
        yield [body[:cut], body[cut:]]
    chance = random.Random(seed)
    for _ in range(partitions):
        yield partition(body, [chance.randint(0, len(body)) for _ in range(chance.randint(2, 9))])


def lawful(body: bytes, fields: Sequence[Field], *, every_cut: int | None = None, **options: Any) -> Outcome:
    """Return the outcome of ``body`` after checking that it is the same in every chunking."""
    first = outcome([body], fields, **options)
    for chunks in chunkings(body, every_cut=every_cut):
        assert outcome(chunks, fields, **options) == first, chunks
    known = outcome([body[: len(body) // 2], body[len(body) // 2 :]], fields, content_length=len(body), **options)
    assert known == first
    return first
