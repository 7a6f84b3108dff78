from __future__ import annotations

import asyncio
import functools
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndwire import (
    Field,
    IncompleteBody,
    MalformedArray,
    MalformedJSON,
    ServerSentEvent,
    WireError,
    aiter_ndjson,
    aiter_sse,
    dumps,
    iter_ndjson,
    iter_sse,
)
from support.chunking import partition, plain

FIELDS = (Field("a"),)
ENVELOPE = '{"a":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'


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


def by_the_standard(body: bytes) -> list[tuple[str, str, str]]:
    """Return data, type and last id of each event, by the steps of the standard on the whole text."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    found: list[tuple[str, str, str]] = []
    data: list[str] = []
    kind = last = ""
    lines = re.split(r"\r\n|\n|\r", text)
    for line in lines[:-1]:
        if not line:
            if data:
                found.append(("\n".join(data), kind or "message", last))
            data, kind = [], ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            kind = value
        elif name == "id" and "\0" not in value:
            last = value
    return found


LINES = [
    *("data: 1", "data:2", "data:  3", "data", "data:", "data: {", 'data: "k":1}', "data: [4,", "data: 5]", "event: e"),
    *("event", "event: f", "id: 7", "id", "id: \0x", ": comment", ":", "retry: 3", "other: x", "datax: 9", "data : 8"),
    *("", "", "", "data: " + ENVELOPE, "eventeventeventevent: 1", "é: 1"),
]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\r", "\r\n"])), max_size=12),
    st.booleans(),
    st.integers(0, 999),
)
def test_event_streams_by_the_standard(lines: list[tuple[str, str]], mark: object, seed: int) -> None:
    body = ("\ufeff" * bool(mark) + "".join(line + end for line, end in lines) + "\n\n").encode()
    first = collect(iter_sse, [body], events=True)
    chance = random.Random(seed)
    for chunks in (
        [body[k : k + 1] for k in range(len(body))],
        partition(body, [chance.randrange(len(body)) for _ in range(3)]),
    ):
        assert collect(iter_sse, chunks, events=True) == first
    expected: list[Any] = []
    failed = False
    for data, kind, last in by_the_standard(body):
        if not data.strip(" \t\r\n"):
            continue
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            failed = True
            break
        if isinstance(document, dict) and "a" in document:
            document = {"a": {"$ndarray": {"dtype": "uint8", "shape": [3], "hex": "000102"}}}
        expected.append(ServerSentEvent(document, kind, last))
    assert first[0] == expected
    assert (first[1] is not None) is failed


def test_documents_by_default() -> None:
    body = f"event: x\ndata: {ENVELOPE}\n\n: ping\n\ndata: 2\n\ndata: [DONE]\n\ndata: 3\n\n".encode()
    found, error = lawful(iter_sse, body)
    assert error is None
    assert found == [{"a": {"$ndarray": {"dtype": "uint8", "shape": [3], "hex": "000102"}}}, 2]


@pytest.mark.parametrize(
    ("body", "found", "error"),
    [
        (b"data: 1\n\ndata: 2", [1, 2], None),
        (b"data: 1\n\ndata: [2", [1], IncompleteBody),
        (b"data: 1\n\ndata: [2\n", [1], IncompleteBody),
        (b"data: 1\n\ndat", [1], None),
        (b"data: 1\n\ndata: x\n\ndata: 3\n\n", [1], MalformedJSON),
        (b'data: 1\n\ndata: {"a":{"data":"A!AA"\n\n', [1], MalformedArray),
        (b'data: {"a":{"data":"AA', [], IncompleteBody),
        (b"data: [DONE]", [], None),
        (b"data: [DONE] \n\ndata: x\n\n", [], None),
        (b"data: [DONE]x\n\n", [], MalformedJSON),
        (b"", [], None),
        (b"\xef\xbb\xbf", [], None),
        (b"data:   \ndata:\t\n\n", [], None),
    ],
)
def test_ends_and_faults(body: bytes, found: list[Any], error: Any) -> None:
    result = lawful(iter_sse, body)
    assert (result[0], result[1] and result[1][0]) == (found, error)


@pytest.mark.parametrize(
    ("body", "found", "error"),
    [
        (b"1\n\n 2 \r\n[3]\n", [1, 2, [3]], None),
        (b"1\n2", [1, 2], None),
        (b"1\n[2", [1], IncompleteBody),
        (b"1\nx\n3\n", [1], MalformedJSON),
        (b'1\n{"a":{"data":"A!AA"}}\n', [1], MalformedArray),
        (b"", [], None),
        (b" \n\t\r\n", [], None),
        (b"[1,\n2]\n", [], IncompleteBody),
    ],
)
def test_ndjson(body: bytes, found: list[Any], error: Any) -> None:
    result = lawful(iter_ndjson, body)
    assert (result[0], result[1] and result[1][0]) == (found, error)


def test_a_failed_stream_stays_failed() -> None:
    from ndwire._framing import NDJSON
    from ndwire._parser import Parser

    framing = NDJSON(functools.partial(Parser, FIELDS))
    assert framing.feed(b"1\nx\n2\n") == [1]
    for again in (functools.partial(framing.feed, b"3\n"), framing.close):
        with pytest.raises(MalformedJSON):
            again()


def test_what_follows_the_end_is_not_read() -> None:
    from ndwire._framing import EventStream
    from ndwire._parser import Parser

    framing = EventStream(functools.partial(Parser, FIELDS))
    assert framing.feed(b"data: 1\n\ndata: [DONE]\n\ndata: x\n\n") == [1]
    assert framing.done
    assert framing.feed(b"data: x\n\n") == framing.close() == []


def test_a_blob_within_an_event_is_decoded_while_it_arrives() -> None:
    import tracemalloc

    array = np.arange(8_000_000, dtype=np.uint8)
    document = dumps({"a": array})
    for read, head, tail in ((iter_sse, b"data: ", b"\n\n"), (iter_ndjson, b"", b"\n")):
        body = head + document + tail
        tracemalloc.start()
        (found,) = read((body[k : k + 65536] for k in range(0, len(body), 65536)), FIELDS)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.array_equal(found["a"], array)
        assert peak < 10_000_000


def test_leaving_early_closes_nothing_that_is_not_ours() -> None:
    chunks = iter([b"1\n2\n", b"3\n"])
    for document in iter_ndjson(chunks, FIELDS):
        assert document == 1
        break
    assert next(chunks) == b"3\n"


def test_asynchronously() -> None:
    async def chunks(body: bytes) -> AsyncIterator[bytes]:
        for k in range(0, len(body), 3):
            yield body[k : k + 3]

    async def run() -> None:
        body = f"data: {ENVELOPE}\n\ndata: 2\n\ndata: [DONE]\n\nrubbish".encode()
        assert [plain(item) async for item in aiter_sse(chunks(body), FIELDS)] == collect(iter_sse, [body])[0]
        events = [item async for item in aiter_sse(chunks(b"id: 3\ndata: 1\n\ndata: 2"), FIELDS, events=True)]
        assert events == [ServerSentEvent(1, "message", "3"), ServerSentEvent(2, "message", "3")]
        body = f"{ENVELOPE}\n2\n3".encode()
        assert [plain(item) async for item in aiter_ndjson(chunks(body), FIELDS)] == collect(iter_ndjson, [body])[0]

    asyncio.run(run())
