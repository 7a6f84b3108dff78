"""The law for streams: whatever the cuts, the same documents, then the same error."""

from __future__ import annotations

import random
from typing import Any

from ndwire import Field, ServerSentEvent, WireError
from support.chunking import partition, plain

FIELDS = (Field("a"),)


def collect(read: Any, chunks: Any, **options: Any) -> tuple[list[Any], Any]:
    """Return what comes out before the end or an error, and the error."""
    found: list[Any] = []
    try:
        for item in read(chunks, FIELDS, **options):
            one = ServerSentEvent(plain(item.data), *item[1:]) if options.get("events") else plain(item)
            found.append(one)
    except WireError as error:
        return found, (type(error), error.offset, str(error))
    return found, None


def every_cut(body: bytes, seed: int = 0) -> list[list[bytes]]:
    chance = random.Random(seed)
    return [
        [body],
        [body[k : k + 1] for k in range(len(body))],
        *([body[:k], body[k:]] for k in range(len(body) + 1)),
        *(partition(body, [chance.randrange(len(body) + 1) for _ in range(5)]) for _ in range(5)),
    ]


def lawful(read: Any, body: bytes, **options: Any) -> tuple[list[Any], Any]:
    first = collect(read, [body], **options)
    for chunks in every_cut(body):
        assert collect(read, chunks, **options) == first, chunks
    return first
