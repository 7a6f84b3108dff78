"""How streams end and fail, what they may hold, and what floods of nothing cost."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from ndwire import (
    Field,
    IncompleteBody,
    LimitExceeded,
    Limits,
    MalformedArray,
    MalformedJSON,
    Parser,
    aiter_sse,
    iter_ndjson,
    iter_sse,
)
from ndwire._contract.strings import end_of_line
from ndwire._http.events import Chunk, EventStream
from ndwire._http.framing import Framing
from ndwire._http.ndjson import NDJSON
from support.streams import FIELDS, collect, lawful


@pytest.mark.parametrize(
    ("body", "found", "error"),
    [
        (b"data: 1\n\ndata: 2", [1, 2], None),
        (b"data: 1\n\ndata: [2", [1], IncompleteBody),
        (b"data: 1\n\ndata: [2\n", [1], IncompleteBody),
        (b"data: 1\n\ndata: x\n\ndata: 3\n\n", [1], MalformedJSON),
        (b'data: 1\n\ndata: {"a":{"data":"A!AA"\n\n', [1], MalformedArray),
        (b'data: {"a":{"data":"AA', [], IncompleteBody),
        (b"", [], None),
        (b"\xef\xbb\xbf\r\n: c\n\ndata: 1\n\n", [1], None),
        (b"\xef\xbb\xbf: c\n\n", [], None),
        (b": keep-alive\n\n", [], None),
        (b"retry: 3\n", [], None),
        (b"event: ping\n\n", [], None),
        (b"data:   \ndata:\t\n\n", [], None),
    ],
)
def test_ends_and_faults(body: bytes, found: list[Any], error: Any) -> None:
    result = lawful(iter_sse, body)
    assert (result[0], result[1] and result[1][0]) == (found, error)


@pytest.mark.parametrize(
    ("body", "found", "error"),
    [
        (b"data: [DONE]", [], None),
        (b"data: [DONE]\n\n<html>", [], None),
        (b"data:[DONE]\t  \n\ndata: x\n\n", [], None),
        (b"data:   [DONE]" + b" " * 30 + b"\ndata:\ndata: \n\ndata: x\n\n", [], None),
        (b"data: [DONE]x\n\n", [], MalformedJSON),
        (b"data: [DONE]" + b" " * 10 + b"x\n\n", [], MalformedJSON),
        (b"data: [DONE]" + b" " * 10 + b'{"a":1}\n\ndata: 2\n\n', [], MalformedJSON),
        (b"data: [DONE]\ndata: 1\n\n", [], MalformedJSON),
        (b"data: [DO NE]\n\n", [], MalformedJSON),
        (b"data: 1\n\ndata: [DONE", [1], MalformedJSON),
    ],
)
def test_nothing_but_blanks_stands_beside_the_end(body: bytes, found: list[Any], error: Any) -> None:
    result = lawful(iter_sse, body)
    assert (result[0], result[1] and result[1][0]) == (found, error)


@pytest.mark.parametrize(
    ("body", "offset", "beginning"),
    [
        (b"<html>502</html>", 0, "<html>502</html>"),
        (b'{"error":{"code":400}}', 0, '{"error":{"code":400}}'),
        (b'{\n "error": {\n  "code": 400}}\n', 0, '{\n "error": {\n  "code": 400}}\n'),
        (b"\xef\xbb\xbf<html>", 0, "\ufeff<html>"),
        (b"x" * 500, 0, "x" * 120),
        (b"x: " + b"y" * 500, 0, "x: " + "y" * 117),
        (b"gzip? \x1f\x8b", 0, "gzip? \x1f\ufffd"),
        (b": a comment\n\nno event\n\n", 13, "no event\n\n"),
        (b'data: 1\n\nerror: {"code":500}\n\n', 9, 'error: {"code":500}\n\n'),
        (b"data: 1\n\n\nerror: 5\n\n: ping\n\nevent: x\n\n", 10, "error: 5\n\n: ping\n\nevent: x\n\n"),
        (b"data: 1\n\nerror", 9, "error"),
        (b"error\n\nstop", 0, "error\n\nstop"),
        (b"data: 1\n\n\nerror: 5\n\ndata: \n\n", 10, "error: 5\n\ndata: \n\n"),
    ],
)
def test_lines_that_are_no_events_are_not_an_empty_success(body: bytes, offset: int, beginning: str) -> None:
    found, error = lawful(iter_sse, body)
    assert found == [1] * body.startswith(b"data")
    assert error[:2] == (MalformedJSON, offset)
    assert repr(beginning) in error[2]
    assert MalformedJSON.retryable


@pytest.mark.parametrize("body", [b"error: 5\ndata: 1\n\n", b"error: 5\n\ndata: 1\nx: 1\n\n", b"data: 1\nx\n\n"])
def test_unknown_fields_before_or_within_an_event_are_ignored(body: bytes) -> None:
    assert lawful(iter_sse, body) == ([1], None)
    assert lawful(iter_sse, body + b"data: [DONE]\n\n") == ([1], None)
    # Some servers end every stream with it, also behind an error that is no event.
    found, error = lawful(iter_sse, body + b"error: 5\n\ndata: [DONE]\n\n")
    assert found == [1]
    assert error[:2] == (MalformedJSON, len(body))


@pytest.mark.parametrize("body", [b"\n", b"\r\n" * 3, b"\n\r\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n"])
def test_line_ends_alone_are_no_stream(body: bytes) -> None:
    found, error = lawful(iter_sse, body)
    assert found == []
    assert error[:2] == (MalformedJSON, 0)
    assert lawful(iter_sse, body + b": ping") == ([], None)
    assert lawful(iter_sse, b"") == ([], None)


@pytest.mark.parametrize(
    "cut", [b"d", b"dat", b"data", b"data:", b"data: ", b"data: \n", b"event: err", b"event: e\n", b"id"]
)
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"data: 1\n\n", b": c\n\n"])
def test_a_stream_that_ends_within_an_event_is_incomplete(before: bytes, cut: bytes) -> None:
    found, error = lawful(iter_sse, before + cut)
    assert found == [1] * (b"1" in before)
    assert error[:2] == (IncompleteBody, len(before + cut))


@pytest.mark.parametrize(
    ("body", "found", "offset"),
    [
        (b"", [], 0),
        (b": c\n\n", [], 5),
        (b"data: 1\n\n", [1], 9),
        (b"data: 1\n\ndata: 2", [1, 2], 16),
        (b"data: 1\n\ndata: [DONE]\n\n", [1], None),
        (b"data: 1\n\ndata: [DONE]", [1], None),
    ],
)
def test_the_end_can_be_required(body: bytes, found: list[Any], offset: int | None) -> None:
    result = lawful(iter_sse, body, done="required")
    assert result[0] == found
    assert (result[1] and result[1][:2]) == (None if offset is None else (IncompleteBody, offset))
    assert lawful(iter_sse, body) == (found, None)


def test_a_stream_that_is_cut_anywhere_never_looks_whole() -> None:
    body = b'id: 1\ndata: [1]\n\n: c\n\nevent: e\ndata: {"k":\ndata: 2}\n\nretry: 5\n\ndata: [3]\n\ndata: [DONE]\n\n'
    complete = [[1], {"k": 2}, [3]]
    for k in range(len(body)):
        found, error = collect(iter_sse, [body[:k]], done="required")
        assert found == complete[: len(found)]
        assert (error is None) is (b"[DONE]" in body[:k])
        found, error = collect(iter_sse, [body[:k]])
        assert found == complete[: len(found)]
        rest = body[:k].rpartition(b"\n\n")[2]
        between = rest == b"" or rest.startswith((b":", b"retry:"))
        assert (error is None) is (between or rest.rstrip(b"\n").endswith((b"[1]", b"}", b"[3]", b"[DONE]")))


@pytest.mark.parametrize("read", [iter_sse, aiter_sse])
def test_what_the_end_can_be(read: Any) -> None:
    with pytest.raises(ValueError, match="done must be"):
        read([], FIELDS, done=True)


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
        (b"\xef\xbb\xbf", [], None),
        (b"\xef\xbb\xbf\r\n1\n", [1], None),
        (b"1\n\xef\xbb\xbf \n2\n", [1, 2], None),
        (b"\xef\xbb\xbe\n1\n", [], MalformedJSON),
        (b"\xef\xbb\xbf1\n\xef\xbb\xbf2", [1, 2], None),
        (b"\xef\xbb\xbf[1\n", [], IncompleteBody),
    ],
)
def test_ndjson(body: bytes, found: list[Any], error: Any) -> None:
    result = lawful(iter_ndjson, body)
    assert (result[0], result[1] and result[1][0]) == (found, error)


@pytest.mark.parametrize(
    ("read", "body", "found", "offset"),
    [
        (iter_sse, b"id: 1234567\ndata: 1\n\n", [1], None),
        (iter_sse, b"data: 1\n\nid: 123456789\ndata: 1\n\n", [1], 12),
        (iter_sse, b"event:123456789", [], 6),
        (iter_sse, b"data: [\ndata: 2345678]\nid: 123456789\n\n", [], 8),
        (iter_sse, b"x: 123456789\nretry: 123456789\n:123456789\ndata: 1\n\n", [1], None),
        (iter_sse, b"data: [DONE]  \n\n", [], None),
        (iter_sse, b"data: [DONE]   \n\n", [], 8),
        (iter_sse, b"data: " + b" " * 9 + b"\n\n", [], 8),
        (iter_ndjson, b" " * 8 + b"\n" + b" " * 8 + b"\n1\n", [1], None),
        (iter_ndjson, b"1\n" + b" " * 9 + b"\n1\n", [1], 8),
        (iter_ndjson, b" \n" * 20 + b"1\n", [1], None),
    ],
)
def test_limits_count_for_all_that_is_held(read: Any, body: bytes, found: list[Any], offset: int | None) -> None:
    result = lawful(read, body, limits=Limits(remainder_bytes=8))
    assert result[0] == found
    assert (result[1] and result[1][:2]) == (None if offset is None else (LimitExceeded, offset))


def test_offsets_count_the_byte_order_mark() -> None:
    mark = b"\xef\xbb\xbf"
    assert lawful(iter_ndjson, mark + b'{"a":x}\n')[1][:2] == (MalformedJSON, 8)
    assert lawful(iter_sse, mark + b"\n\nstray\n")[1][:2] == (MalformedJSON, 5)


def steps(body: bytes, *, size: int | None = None) -> int:
    """Return how often an event stream changes its state."""
    count = 0

    class Counting(EventStream):
        def _step(self, chunk: Chunk, i: int, out: list[Any]) -> int:
            nonlocal count
            count += 1
            return super()._step(chunk, i, out)

    framing = Counting(functools.partial(Parser, FIELDS), value_bytes=1 << 30)
    for start in range(0, len(body), size or len(body)):
        assert not framing.feed(body[start : start + (size or len(body))])
    return count


@pytest.mark.parametrize("before", [b"", b"data: 1\n", b": c\n"])
@pytest.mark.parametrize("unit", [b"\n", b"\r", b"\r\n", b":\n", b":\r\n", b":x\r", b": ping\n\n", b":\n\r\n\r"])
def test_floods_of_nothing_are_skipped_at_once(before: bytes, unit: bytes) -> None:
    if before.startswith(b"data") and not unit.startswith(b":"):
        before = b""
    if before.startswith(b"data"):
        unit = unit.rstrip(b"\r\n") + b"\r\n"
    assert steps(before + unit * 50_000) < 20


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
@pytest.mark.parametrize("length", [0, 7, 255, 256, 257, 5000])
def test_no_line_end_is_searched_far_behind_its_line(end: bytes, length: int) -> None:
    searched = 0

    class Counting(bytes):
        def find(self, byte: Any, start: Any = 0, stop: Any = None) -> int:
            nonlocal searched
            found = super().find(byte, start, stop)
            searched += (found if found >= 0 else stop) - start
            return found

    data = Counting((b"x" * length + end) * 1000)
    i = 0
    for number in range(1000):
        at = end_of_line(data, i, len(data))
        assert at == number * (length + len(end)) + length
        i = at + len(end)
    assert end_of_line(data, i, len(data)) == len(data)
    assert searched < 8 * len(data) + 600_000


def test_blank_lines_of_ndjson_cost_no_parser() -> None:
    def never() -> Parser:
        raise AssertionError("no document has begun")

    framing = NDJSON(never, line_bytes=1 << 30)
    for size in (1, 100_000):
        for _ in range(100):
            assert not framing.feed(b"\n" * size)
    assert not framing.feed(b" \t\r\n" * 100_000)
    assert not framing.close()


@pytest.mark.parametrize(
    "make", [functools.partial(EventStream, value_bytes=9), functools.partial(NDJSON, line_bytes=9)]
)
def test_an_exception_of_the_caller_s_stops_the_stream(make: Callable[..., Framing]) -> None:
    def loads(text: Any) -> Any:
        if b"2" in bytes(text):
            raise KeyError("mine")
        return json.loads(text)

    framing = make(functools.partial(Parser, [Field("a")], json_loads=loads))
    assert framing.feed(b"data: 1\n\n" if isinstance(framing, EventStream) else b"1\n") == [1]
    with pytest.raises(KeyError):
        framing.feed(b"data: 2\n\n" if isinstance(framing, EventStream) else b"2\n")
    for again in (functools.partial(framing.feed, b""), framing.close, framing.check):
        with pytest.raises(RuntimeError, match="stopped"):
            again()


def test_a_fault_behind_a_document_is_not_kept_back_until_more_comes() -> None:
    def chunks() -> Any:
        yield b"1\nx\n"
        raise AssertionError("nothing is read behind a fault")

    reading = iter_ndjson(chunks(), FIELDS)
    assert next(reading) == 1
    with pytest.raises(MalformedJSON):
        next(reading)


@pytest.mark.parametrize("read", [iter_sse, iter_ndjson])
def test_chunks_are_bytes(read: Any) -> None:
    for chunk in (200_000_000, "text", None):
        with pytest.raises(TypeError, match="must be bytes-like"):
            list(read([chunk], FIELDS))


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_big_chunks_are_worked_through_in_windows(make: Callable[[bytes], Any]) -> None:
    lines = b"[%b]\n" % b",".join([b"1"] * 300_000)
    assert [len(found) for found in iter_ndjson([make(lines * 3)], FIELDS)] == [300_000] * 3
