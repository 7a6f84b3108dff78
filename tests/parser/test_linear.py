"""Linear time, by counted work: bytes searched, bytes passed on, lines of Python run."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ndwire import Field, Parser, WireError
from ndwire._registry import Registry, registry_of
from support.sinks import Recorder, scan

FIELDS = (Field("x"), Field("data"), Field("raw", raw_dtype="uint8"))


class Counted:
    """A compiled pattern that counts the bytes that it looks at."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self.n_bytes = 0

    def search(self, data: Any, start: int = 0) -> Any:
        match = self.pattern.search(data, start)
        self.n_bytes += (match.end() if match else len(data)) - start
        return match

    def match(self, data: Any) -> Any:
        self.n_bytes += len(data)
        return self.pattern.match(data)


def npy(n_bytes: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(n_bytes, np.uint8))
    return file.getvalue()


HARD: dict[str, Callable[[int], bytes]] = {
    "white space before the colon": lambda n: b'{"x"' + b" " * n + b":1}",
    "white space before the value": lambda n: (
        b'{"x":' + b" \n" * (n // 2) + b'{"data":"AAEC","shape":[3],"dtype":"uint8"}}'
    ),
    "white space in the opening": lambda n: b'{"x":{' + b" " * n + b'"data"' + b"\t" * n + b":1}}",
    "white space in the tail": lambda n: b'{"x":{"data":"AAEC"' + b" " * n + b',"shape":[3],"dtype":"uint8"}}',
    "beginnings of names": lambda n: b'["' + b'","da' * (n // 5) + b'"]',
    "names that are no keys": lambda n: b"[" + b'"x",' * (n // 4) + b"1]",
    "names behind backslashes": lambda n: b'["' + b'\\"x\\"' * (n // 5) + b'"]',
    "nested names": lambda n: b'{"data":' * (n // 8) + b"1" + b"}" * (n // 8),
    "one long string": lambda n: b'["' + b"a" * n + b'"]',
    "one long blob": lambda n: (
        b'{"x":{"data":"' + b"AAAA" * (n // 4) + b'","shape":[%d],"dtype":"uint8"}}' % (n // 4 * 3)
    ),
    "an escaped blob": lambda n: (
        b'{"x":{"data":"' + b"AAA\\/" * (n // 5) + b'","shape":[%d],"dtype":"uint8"}}' % (n // 5 * 3)
    ),
    "backslashes in a blob": lambda n: b'{"x":{"data":"' + b"\\\\" * n,
    "escaped quotes in a blob": lambda n: b'{"x":{"data":"' + b'\\"' * n,
    "a long sidecar": lambda n: b'{"x":{"data":"","shape":[0],"dtype":"uint8","k":"' + b"\\\\" * n + b'"}}',
    "a sidecar of many": lambda n: (
        b'{"x":{"data":"","shape":[0],"dtype":"uint8","k":[' + b'{"a":"}"},' * (n // 10) + b"1]}}"
    ),
    "many arrays": lambda n: b"[" + b'{"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}},' * (n // 48) + b"1]",
    "a long list": lambda n: b'{"x":[' + b"1," * (n // 2) + b"1]}",
    "a list of rows": lambda n: b'{"x":[' + b"[1,2]," * (n // 6) + b"[1,2]]}",
    "a list that proves to be none": lambda n: b'{"x":[' + b"[1,2]," * (n // 6) + b'"]}',
    "a ragged list": lambda n: b'{"x":[' + b"[1,2]," * (n // 6) + b"[1]]}",
    "a list of lists of nothing": lambda n: b'{"x":[' + b"[]," * (n // 3) + b"[]]}",
    "many lists": lambda n: b"[" + b'{"x":[1,2]},' * (n // 12) + b"1]",
    "lists of objects": lambda n: b'{"x":[' + b'{"x":[1,{}]},' * (n // 13) + b"1]}",
    "open brackets": lambda n: b'{"x":' + b"[" * n,
    "many strings": lambda n: b"[" + b'{"x":"k05"},' * (n // 12) + b"1]",
    "an npy string": lambda n: b'{"x":"' + base64.b64encode(npy(n)) + b'"}',
    "a raw string": lambda n: b'{"raw":"' + b"AAAA" * (n // 4) + b'"}',
    "many suspects": lambda n: b"[" + b'{"x":{"k":1}},' * (n // 14) + b"1]",
}


def scanned(body: bytes, step: int) -> tuple[int, int]:
    """Return the bytes searched for names and the bytes passed to the sink."""
    registry = Registry(FIELDS)
    key, token = Counted(registry.key), Counted(registry.token)
    registry.key, registry.token = key, token  # type: ignore[assignment]  # they search and match all the same
    sink = scan((body[start : start + step] for start in range(0, len(body), step)), registry, Recorder())
    return key.n_bytes + token.n_bytes, len(sink.body)


def lines_run(body: bytes, step: int) -> int:
    """Return how many lines of ndwire run to read ``body``."""
    count = 0

    def local(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    def trace(frame: Any, event: str, argument: Any) -> Any:
        return local if "ndwire" in frame.f_code.co_filename else None

    registry_of(FIELDS)
    parser = Parser(FIELDS)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for start in range(0, len(body), step):
            parser.feed(body[start : start + step])
        parser.close()
    except WireError:
        pass
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 30])
def test_each_byte_is_searched_about_once_and_passed_on_once(name: str, step: int) -> None:
    body = HARD[name](5000)
    searched, passed = scanned(body, step)
    assert searched <= (12 if step == 1 else 3) * len(body) + 100
    assert passed == len(body)


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("step", [1, 4096, 1 << 30])
def test_twice_the_text_is_twice_the_work(name: str, step: int) -> None:
    size = 4000 if step == 1 else 20_000
    HARD[name](size)
    once, twice = lines_run(HARD[name](size), step), lines_run(HARD[name](2 * size), step)
    assert twice <= 2.3 * once + 300


def test_the_number_of_fields_costs_no_python() -> None:
    body = HARD["one long string"](20_000)
    many = tuple(Field(f"name{k}") for k in range(50))
    registry_of(many)
    parsers = Parser(FIELDS), Parser(many)
    counts: list[int] = []
    for parser in parsers:
        count = 0

        def local(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            count += 1
            return local

        before = sys.gettrace()
        sys.settrace(lambda frame, event, argument: local)
        try:
            parser.feed(body)
            parser.close()
        finally:
            sys.settrace(before)
        counts.append(count)
    assert counts[1] <= counts[0] + 5
