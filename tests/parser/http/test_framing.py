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
    MalformedJSON,
    Parser,
    ServerSentEvent,
    aiter_ndjson,
    aiter_sse,
    dumps,
    iter_ndjson,
    iter_sse,
)
from ndwire._http.events import EventStream
from ndwire._http.framing import Phase
from ndwire._http.ndjson import NDJSON
from support.chunking import partition, plain
from support.streams import FIELDS, collect, lawful

ENVELOPE = '{"a":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'


def by_the_standard(body: bytes) -> tuple[list[tuple[str, str, str]], bool]:
    """Return data, type and last id of each event, by the steps of the standard on the whole text.

    The second value is whether lines of unknown fields stand behind the last event that has data.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    found: list[tuple[str, str, str]] = []
    data: list[str] = []
    kind = last = ""
    stray = False
    lines = re.split(r"\r\n|\n|\r", text)
    for line in lines[:-1]:
        if not line:
            if data:
                found.append(("\n".join(data), kind or "message", last))
                stray = stray and not found[-1][0].strip(" \t\r\n")
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
        elif name not in ("", "id", "retry"):
            stray = True
    return found, stray


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
    events, stray = by_the_standard(body)
    for data, kind, last in events:
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
    only_line_ends = bool(body) and not body.removeprefix(b"\xef\xbb\xbf").strip(b"\r\n")
    assert (first[1] is not None) is (failed or stray or only_line_ends)


def test_documents_by_default() -> None:
    body = f"event: x\ndata: {ENVELOPE}\n\n: ping\n\ndata: 2\n\ndata: [DONE]\n\ndata: 3\n\n".encode()
    found, error = lawful(iter_sse, body)
    assert error is None
    assert found == [{"a": {"$ndarray": {"dtype": "uint8", "shape": [3], "hex": "000102"}}}, 2]


def test_a_failed_stream_stays_failed() -> None:
    framing = NDJSON(functools.partial(Parser, FIELDS), line_bytes=1000)
    assert framing.feed(b"1\nx\n2\n") == [1]
    for again in (functools.partial(framing.feed, b"3\n"), framing.close):
        with pytest.raises(MalformedJSON):
            again()


def test_what_follows_the_end_is_not_read() -> None:
    framing = EventStream(functools.partial(Parser, FIELDS), value_bytes=1000)
    assert framing.feed(b"data: 1\n\ndata: [DONE]\n\ndata: x\n\n") == [1]
    assert framing.phase is Phase.OVER
    assert framing.feed(b"data: x\n\n") == framing.close() == framing.close() == []
    with pytest.raises(RuntimeError, match="after close"):
        framing.feed(b"")


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
