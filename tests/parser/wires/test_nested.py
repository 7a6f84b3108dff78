from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ndwire import Field, LimitExceeded, Limits, MalformedArray, MalformedJSON, Parser, loads
from ndwire._wires.numbers import numerals
from support.chunking import lawful, plain
from support.lists import read_one
from support.modules import without
from support.oracle import array_of

X = Field("x")


@settings(max_examples=200, deadline=None)
@given(st.text("[],0123-+.e \n", max_size=24))
def test_soup_is_read_as_orjson_reads_it(text: str) -> None:
    body = b'{"x":[' + text.encode() + b"]}"
    result = lawful(body, [X], every_cut=30)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        assert result.error is MalformedJSON
        return
    if result.error is None:
        array = array_of(document["x"], X)
        assert result.document == {"x": document["x"] if array is None else plain(array)}


@pytest.mark.parametrize(
    ("text", "dtypes", "expected"),
    [
        ("[0.1,0.2,70000.5,0.3]", ("float16", "float32"), "float32"),
        ("[0.1,0.2,70000.5,1e200,0.3]", ("float16", "float32", "float64"), "float64"),
        ("[1,2,300,4]", ("uint8", "int16"), "int16"),
        ("[200,2,-1,4]", ("uint8", "int8", "int16"), "int16"),
        ("[1,300,70000,16777217]", ("uint8", "int16", "float32"), "float32"),
        ("[[1,2],[300,4],[5,-6]]", ("uint8", "uint16", "int32"), "int32"),
        ("[1,70000,2]", ("uint8", "float16"), None),
        ("[1,70000,2,x]", ("uint8",), "malformed"),
    ],
)
def test_a_list_moves_on_to_the_next_dtype(text: str, dtypes: tuple[str, ...], expected: Any, reader: str) -> None:
    result = lawful(b'{"x":' + text.encode() + b"}", [Field("x", dtypes=dtypes)])
    if expected == "malformed":
        assert result.error is MalformedJSON
    elif expected is None:
        assert result.error is MalformedArray
    else:
        values = np.array(json.loads(text), np.float64).astype(expected)
        assert result.document == {"x": plain(values)}


def test_integers_at_the_edges_of_64_bits(reader: str) -> None:
    for value in (-(1 << 63), -(1 << 63) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64):
        for nested in ([value], [1, value], [[1], [value]]):
            for dtypes in (None, ("int64",), ("uint64", "float64"), ("int64", "float32")):
                read_one(json.dumps({"x": nested}).encode(), Field("x", dtypes=dtypes))


@pytest.mark.parametrize(
    "text",
    [
        b"[[1,],[2]]",
        b"[[1,2],[3,\n] 4]",
        b"[[1,2],,[3,4]]",
        b"[1,2,,3,4]",
        b"[1,2, ,3]",
        b"[1 2,3]",
        b"[[1]2,[3]]",
        b"[[1,2],[3,4]5]",
        b"[[1,2],[3]4,5]",
        b"[[1,2]-[3,4]]",
        b"[01,2]",
        b"[1,2.]",
        b"[1,2e]",
        b"[1,NaN]",
        b"[--1]",
        b"[1,1e400]",
    ],
)
def test_what_is_no_json_is_refused(text: bytes, reader: str) -> None:
    result = lawful(b'{"x":' + text + b"}", [X])
    assert result.error is MalformedJSON


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_long_lists(separators: tuple[str, str]) -> None:
    for array in (np.arange(60_000).reshape(-1, 3, 4), np.arange(50_000) / 7, np.arange(40_000).reshape(-1, 1)):
        body = json.dumps({"x": array.tolist(), "y": 1}, separators=separators).encode()
        for step in (1000, 65536, 1 << 30):
            parser = Parser([X])
            events = [event for k in range(0, len(body), step) for event in parser.feed(body[k : k + step])]
            assert np.array_equal(events[0].array, array)
            assert events[0].array.dtype == array.dtype
            assert parser.close()["y"] == 1


def test_lists_whose_rows_nest_differently_are_ordinary(reader: str) -> None:
    for text in ("[[[1],2],3]", "[[[1],[2]],[3]]", "[[1],[[2]]]", "[[],[1]]", "[[1],[]]", "[[[1]],[[]]]"):
        assert lawful(b'{"x":%b}' % text.encode(), [X]).document == {"x": json.loads(text)}


def test_the_array_is_ready_with_its_last_bracket() -> None:
    parser = Parser([X])
    assert parser.feed(b'{"x":[[1,2],[3,4]') == []
    (event,) = parser.feed(b"]")
    assert (event.array.tolist(), event.offset, event.sidecar) == ([[1, 2], [3, 4]], 5, {})


def test_an_empty_list_meets_any_ndim(reader: str) -> None:
    for text, ndim, shape in [
        ("[]", 3, (0, 0, 0)),
        ("[[],[]]", 3, (2, 0, 0)),
        ("[ [ ] ]", None, (1, 0)),
        ("[]", 1, (0,)),
    ]:
        result = loads(b'{"x":' + text.encode() + b"}", [Field("x", ndim=ndim, dtypes=("uint8",))])["x"]
        assert (result.shape, result.dtype) == (shape, np.uint8)
    with pytest.raises(MalformedArray):
        loads(b'{"x":[[]]}', [Field("x", ndim=1)])


@pytest.mark.parametrize("dtypes", [("bool",), ("complex64",), ("bool", "complex128")])
def test_bool_and_complex_take_no_numbers(dtypes: tuple[str, ...], reader: str) -> None:
    assert lawful(b'{"x":[1,0]}', [Field("x", dtypes=dtypes)]).error is MalformedArray


def test_limits(reader: str) -> None:
    body = b'[{"x":[[1,2],[3,4]]},{"x":[1]}]'
    for limits, error, delivered in [
        (Limits(list_bytes=13), None, 2),
        (Limits(list_bytes=12), LimitExceeded, 0),
        (Limits(ndim=1), LimitExceeded, 0),
        (Limits(arrays=1), LimitExceeded, 1),
        (Limits(array_bytes=31), LimitExceeded, 0),
        (Limits(total_array_bytes=39), LimitExceeded, 1),
        (Limits(total_array_bytes=40), None, 2),
    ]:
        result = lawful(body, [X], limits=limits)
        assert (result.error, len(result.arrays)) == (error, delivered), limits
    assert lawful(b'{"x":[1,2,3,"a"]}', [X], limits=Limits(list_bytes=7)).error is None
    assert lawful(b'{"x":[1,2,3,"a"]}', [X], limits=Limits(list_bytes=6)).error is LimitExceeded


def test_allocate_and_check() -> None:
    given: list[NDArray[np.uint8]] = []

    def allocate(name: str, n_bytes: int) -> NDArray[np.uint8]:
        given.append(np.zeros(n_bytes + 1, np.uint8))
        assert n_bytes == 8
        return given[-1]

    result = loads(b'{"x":[[1,2],[3,4]]}', [Field("x", dtypes=("int16",))], allocate=allocate)["x"]
    assert np.shares_memory(result, given[0])
    assert result.tolist() == [[1, 2], [3, 4]]

    def check(array: NDArray[Any]) -> None:
        raise ValueError("no")

    assert lawful(b'{"x":[1]}', [Field("x", check=check)]).error is MalformedArray


def test_ordinary_lists_stay_byte_for_byte(reader: str) -> None:
    for text in (b"[true,false]", b"[null]", b"[1,[2]]", b"[[1],[2,3]]", b"[[],[1]]", b"[" * 65 + b"]" * 65, b"[{}]"):
        result = lawful(b'{"x":' + text + b"}", [X])
        assert result.document == {"x": orjson.loads(text)}


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(without("simdjson", numerals, monkeypatch))["_simdjson"] is None


def test_a_short_flat_list_has_one_dimension() -> None:
    assert loads(b'{"x":[1,2]}', [Field("x", ndim=1)])["x"].tolist() == [1, 2]
    result = lawful(b'{"x":[1,2]}', [Field("x", ndim=2)])
    assert (result.error, result.offset) == (MalformedArray, 5)
