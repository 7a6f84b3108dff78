"""Linear time, by counted work (bytes searched, bytes passed on, lines of Python run), and by CPU time.

Counts are exact, and see nothing of the work within one call of ``re`` or ``find``; CPU time sees all of it.
"""

from __future__ import annotations

import base64
import io
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from fuzz.known import cases
from fuzz.linear.entries import DOCUMENTS, EVENTS, HEADERS, LINES, TOKENS, Read
from fuzz.linear.law import is_linear
from fuzz.linear.measure import slow
from ndwire import Field, Parser, WireError
from ndwire._scanning.registry import Registry, registry_of
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

DRIFT = b'{"x":{"k":1,"data":0,"shape":0,"dtype":0}}'

HARD_FOR_RE: dict[str, Callable[[int], bytes]] = {
    "drift again and again": lambda n: b"[" + (DRIFT + b",") * (n // 43) + b"1]",
    "drift before escaped quotes": lambda n: b"[" + DRIFT + b',"' + b'\\"' * (n // 3) + b'"]',
    "drift under escaped names": lambda n: b"[" + (DRIFT.replace(b"x", b"\\u0078") + b",") * (n // 48) + b"1]",
    "drift under an escaped name before escaped quotes": lambda n: (
        b"[" + DRIFT.replace(b"x", b"\\u0078") + b',"' + b'\\"' * (n // 3) + b'"]'
    ),
    "escaped quotes before drift under an escaped name": lambda n: (
        b'["' + b'\\"' * (n // 3) + b'",' + DRIFT.replace(b"x", b"\\u0078") + b"]"
    ),
    "an array whose metadata come first": lambda n: (
        b'{"x":{"shape":[%d],"dtype":"uint8","data":"' % (n // 4 * 3) + b"AAAA" * (n // 4) + b'"}}'
    ),
    "a shape of many dimensions": lambda n: b'{"x":{"data":"","shape":[0' + b",0" * (n // 2) + b'],"dtype":"uint8"}}',
    "an npy header of many dimensions": lambda n: (
        b'{"x":"' + base64.b64encode(b"\x93NUMPY\x01\x00\xff\xff{'shape':(" + b"0," * (n // 3)) + b'"}'
    ),
    "levels of suspects": lambda n: b'{"x":' * (n // 5),
    "closed levels of suspects": lambda n: b'{"x":' * (n // 6) + b"1" + b"}" * (n // 6),
    "escaped solidi in a blob": lambda n: (
        b'{"x":{"data":"' + b"\\u002f" * (n // 24 * 4) + b'","shape":[1],"dtype":"x"}}'
    ),
    "a mixed list": lambda n: b'{"x":[' + b"1,1.5,null," * (n // 11) + b"true]}",
    "a list of blanks": lambda n: b'{"x":[' + b" " * n + b"1]}",
    "a list of rows of blanks": lambda n: b'{"x":[' + b"[ ]," * (n // 4) + b"[ ]]}",
    "one long number": lambda n: b'{"x":[' + b"1" * n + b"]}",
    "one long decimal": lambda n: b'{"x":[0.' + b"1" * n + b"]}",
    "commas without numbers": lambda n: b'{"x":[' + b"," * n + b"]}",
    "closing brackets": lambda n: b'{"x":[' + b"]" * n,
    "backslashes": lambda n: b'["' + b"\\" * n,
    "backslashes before names": lambda n: b'["' + b'\\\\"x":' * (n // 6),
    "quotes": lambda n: b'"' * n,
    "bytes that are no UTF-8": lambda n: b'["' + b"\xff" * n + b'"]',
    "emoji and a fault": lambda n: b'["' + "\N{GRINNING FACE}".encode() * (n // 4) + b'"x]',
    "byte order marks": lambda n: b"\xef\xbb\xbf" * (n // 3),
    "hidden arrays": lambda n: b"{" + b'"x":[1],' * (n // 8) + b'"x":1}',
    "a known tail that is not the tail": lambda n: (
        b"[" + b'{"x":{"data":"","shape":[0],"dtype":"uint8","k":{}}},' * (n // 53) + b"1]"
    ),
}

HARD_LINES: dict[str, Callable[[int], bytes]] = {
    "blank lines": lambda n: b"\n" * n + b"1\n",
    "blank lines of CR": lambda n: b"\r\n" * (n // 2) + b"1\n",
    "lines of blanks": lambda n: b" \n" * (n // 2),
    "a line of blanks": lambda n: b" " * n + b"\n",
    "short documents": lambda n: b'{"x":[1]}\n' * (n // 10),
    "lines that are cut": lambda n: b'{"x":[1\n' * (n // 8),
    "tails that the line's end cuts": lambda n: b'{"x":{"data":""\n' * (n // 16),
    "blobs that the line's end cuts": lambda n: b'{"x":{"data":"A\n' * (n // 16),
    "a long document": lambda n: b'{"x":[' + b"1," * (n // 2) + b"1]}\n",
}

HARD_EVENTS: dict[str, Callable[[int], bytes]] = {
    "LF": lambda n: b"\n" * n,
    "CR": lambda n: b"\r" * n,
    "CRLF": lambda n: b"\r\n" * (n // 2),
    "comments": lambda n: b":\n" * (n // 2),
    "a long comment": lambda n: b":" + b"a" * n + b"\n",
    "a long id": lambda n: b"id:" + b"a" * n + b"\ndata: 1\n\n",
    "a long type": lambda n: b"event: " + b"a" * n + b"\ndata: 1\n\n",
    "a long name": lambda n: b"a" * n + b"\n",
    "many ids": lambda n: b"id:a\n" * (n // 5) + b"data: 1\n\n",
    "data in short lines": lambda n: b"data:[\n" * (n // 7) + b"\n",
    "empty data": lambda n: b"data\n" * (n // 5) + b"\n",
    "blank data": lambda n: b"data:  \n" * (n // 8) + b"\n",
    "almost done": lambda n: b"data: [DONE]" + b" " * n + b"x\n\n",
    "long data": lambda n: b'data: {"x":[' + b"1," * (n // 2) + b"1]}\n\n",
    "tails that the line's end cuts": lambda n: b'data:{"x":{"data":""\n' * (n // 21),
    "short events": lambda n: b'data: {"x":[1]}\n\n' * (n // 17),
}

HARD_HEADERS: dict[str, Callable[[int], bytes]] = {
    "semicolons in a string": lambda n: b'ndarray="' + b";" * n,
    "semicolons": lambda n: b"ndarray" + b";" * n,
    "commas": lambda n: b"ndarray" + b"," * n,
    "quotes": lambda n: b"ndarray=" + b'"' * n,
    "backslashes": lambda n: b'ndarray="' + b"\\" * n,
    "blanks": lambda n: b"ndarray" + b" " * n + b"=envelope",
    "parameters": lambda n: b"ndarray=envelope" + b";a=b" * (n // 4),
    "a parameter in sections": lambda n: b"ndarray=envelope" + b"".join(b";a*%d=x" % k for k in range(n // 9)),
    "a section and its parameter": lambda n: b"ndarray=envelope;a*=x;a*0=y" + b" " * n,
    "a section of many digits": lambda n: b"ndarray=envelope;a*" + b"1" * n,
    "other preferences": lambda n: b"wait=1," * (n // 7) + b"ndarray=envelope",
    "equals": lambda n: b"ndarray" + b"=" * n,
}

HARD_TOKENS: dict[str, Callable[[int], bytes]] = {
    "tokens": lambda n: b"[" + b'{"logprob":-0.5,"token":"token_id:7"},' * (n // 38) + b'{"logprob":0}]',
    "a token of many digits": lambda n: b'[{"logprob":-0.5,"token":"token_id:' + b"1" * (n // 100 + 1) + b'"}]',
    "other members": lambda n: b'[{"logprob":-0.5' + b',"a":[1]' * (n // 8) + b"}]",
    "levels": lambda n: b"[" * n,
    "triples": lambda n: b"[" + b"[-0.5,7,null]," * (n // 14) + b"[-0.5,7,null]]",
}

# The other entries run the same code, and are for the fuzzers.
FEW = {name: DOCUMENTS[name] for name in ("loads", "Parser, in chunks of 256", "Rewriter, in chunks of 256")}

FAMILIES: dict[str, tuple[Mapping[str, Callable[[int], bytes]], Mapping[str, Read]]] = {
    "document": ({**HARD, **HARD_FOR_RE}, FEW),
    "lines": (HARD_LINES, LINES),
    "events": (HARD_EVENTS, EVENTS),
    "header": (HARD_HEADERS, HEADERS),
    "tokens": (HARD_TOKENS, TOKENS),
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


@pytest.mark.timed
@pytest.mark.parametrize("case", cases(*(f"{family}: {name}" for family in FAMILIES for name in FAMILIES[family][0])))
def test_four_times_the_text_takes_at_most_eight_times_the_cpu_time(case: str) -> None:
    family, _, name = case.partition(": ")
    texts, entries = FAMILIES[family]
    found = {entry: slow(texts[name], read, enough_seconds=0.03) for entry, read in entries.items()}
    assert not any(found.values()), {entry: str(result) for entry, result in found.items() if result}


@pytest.mark.timed
@pytest.mark.parametrize("case", cases(*(f"random parts {seed}" for seed in range(10))))
def test_random_parts_take_linear_time(case: str) -> None:
    chance = random.Random(case)
    for _ in range(3):
        is_linear(chance.randbytes(8), chance)
