"""Which dtype the numbers of a list go to, and the words among them."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndwire import Field, MalformedArray, MalformedJSON, Parser, dumps, loads, pack_ndarray, rewrite, unpack_ndarray
from ndwire._contract.dtypes import DTYPES
from ndwire._wires.numbers.fitting import spans
from support.chunking import lawful, plain
from support.lists import SIMDJSON, WAYS, expected, read_one, read_with, rewrite_one, texts
from support.oracle import Unfit, array_of, parse

X = Field("x")


@settings(max_examples=400, deadline=None)
@given(texts(), st.lists(st.sampled_from(sorted(DTYPES)), max_size=4), st.sampled_from([None, "nan"]))
def test_lists_are_read_as_the_rules_say(text: str, dtypes: Any, nulls: Any) -> None:
    field = Field("x", dtypes=dtypes or None, nulls=nulls)
    body = f'{{"x":{text}}}'.encode()
    for simd, worth, short, piece in WAYS:
        with pytest.MonkeyPatch.context() as patch:
            read_with(patch, simd, worth=worth, short=short, piece=piece)
            read_one(body, field)
            if dtypes:
                rewrite_one(body, field)


CASES = [
    # The list, the dtypes, the dtype that it goes to: None for ordinary JSON, an error for no dtype.
    ("[16777217]", ("float32", "int32"), "int32"),
    ("[[16777217],[1]]", ("float32", "float64"), "float64"),
    ("[16777217]", ("float32",), "float32"),
    ("[16777217]", ("float16", "float32"), "float32"),
    ("[9007199254740993]", ("float64", "int64"), "int64"),
    ("[9007199254740993,9007199254740992]", ("float32", "float64"), "float32"),
    ("[1,2049]", ("float16", "uint8", "float32"), "float32"),
    ("[4000,7]", ("uint8", "float16", "int16"), "float16"),
    # More than 64 bits, which JSON parsers make floats of: only the digits tell.
    ("[1180591620717411303424,1]", ("float32", "float64"), "float32"),
    ("[1180591620717411303424,16777217]", ("float32", "float64"), "float64"),
    ("[18446744073709551617]", ("float32", "float64"), "float32"),
    ("[36893488147419111424]", ("float32", "float64"), "float64"),
    ("[18446744073709551617]", ("int64", "uint64"), MalformedArray),
    ("[-9223372036854775809]", ("int64",), MalformedArray),
    ("[-9223372036854775809]", None, "float64"),
    ("[9223372036854775808,-1]", None, "float64"),
    ("[9223372036854775808,-1]", ("float32", "float64"), "float32"),
    ("[9223372036854775809,-1]", ("float16", "float64"), "float64"),
    ("[9223372036854775807]", ("float64", "int64"), "int64"),
    ("[18446744073709551615]", ("float64", "uint64"), "uint64"),
    ("[18446744073709551615,0]", ("int64", "float16", "uint64"), "uint64"),
    ("[1" + 308 * "0" + "]", ("float32", "float64"), "float64"),
    # One point or exponent makes a list one of decimals.
    ("[1e-300,0.0]", ("float32", "float64"), "float64"),
    ("[1e-300,1e39]", ("float32", "float64"), "float64"),
    ("[1e-300]", ("float16", "float32"), "float16"),
    ("[1e-300,7e4]", ("float16", "float32"), "float32"),
    ("[16777217,0.5]", ("int32", "float32", "float64"), "float32"),
    ("[1e2]", ("int32",), MalformedArray),
    ("[18446744073709551617,0.5]", ("float32",), "float32"),
    ("[1e-400,1e-300]", ("float32", "float64"), "float64"),
    ("[-0,0]", ("float32",), "float32"),
    ("[-0.0]", ("int8", "float32"), "float32"),
    ("[true,false]", ("uint8", "bool"), "bool"),
    ("[[true],[false]]", ("bool",), "bool"),
    ("[true,0]", ("bool", "uint8"), None),
    ("[true,null]", ("bool",), None),
    ("[[true],[]]", ("bool",), None),
    ("[[true,false],[true]]", ("bool",), None),
    ("[true]", None, None),
    ("[1,0]", ("bool",), MalformedArray),
    # Ragged lists are ordinary whatever they hold.
    ("[[300],[]]", ("uint8",), None),
    ("[[3],[]]", ("uint8",), None),
    ("[[],[300]]", ("uint8",), None),
    ("[[[300]],[[]]]", ("uint8",), None),
    ("[[1.5],[]]", ("uint8",), None),
    ("[[300],[1,2]]", ("uint8",), None),
    ("[[300],[18446744073709551617],[]]", ("uint8",), None),
]


@pytest.mark.parametrize(("text", "dtypes", "right"), CASES)
def test_a_list_goes_to_the_first_dtype_that_holds_it(text: str, dtypes: Any, right: Any, reader: str) -> None:
    field = Field("x", dtypes=dtypes)
    body = f'{{"x":{text}}}'.encode()
    result = lawful(body, [field])
    if right is None:
        assert result.document == orjson.loads(body)
    elif right is MalformedArray:
        assert (result.error, result.offset) == (MalformedArray, 5)
    else:
        assert result.document is not None
        assert result.document["x"]["$ndarray"]["dtype"] == right
    assert (result.error or result.document) == expected(body, field)
    if dtypes:
        rewrite_one(body, field)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "text",
    [
        "[255,256]",
        "[257]",
        "[17,-16]",
        "[9,8]",
        "[448]",
        "[500]",
        "[61440]",
        "[0.1]",
        "[1e-9]",
        "[1e39]",
        "[500.5,1e-3]",
    ],
)
def test_small_floats_of_ml_dtypes_follow_the_rule(name: str, text: str, reader: str) -> None:
    pytest.importorskip("ml_dtypes")
    body = f'{{"x":{text}}}'.encode()
    for dtypes in ((name,), (name, "float32"), (name, "int32"), ("int8", name, "float16")):
        read_one(body, Field("x", dtypes=dtypes))
        rewrite_one(body, Field("x", dtypes=dtypes))


LAST = {
    "integers": ["200", "300", "16777217", "9007199254740993", "18446744073709551615", "36893488147419111424", "-7"],
    "decimals": ["0.5", "1e-300", "7e4", "1e39", "0.0", "9007199254740993"],
    "words": ["null", "NaN", "-Infinity", "16777217", "1.5"],
}
DTYPES_OF_LONG = [
    ("uint8", "int16", "int32"),
    ("uint8", "float16", "float32", "int64"),
    ("float32", "int32", "uint64"),
    ("float16", "float64"),
    ("float32", "float64"),
    ("float16",),
    ("int8", "bool", "float8_e5m2", "bfloat16"),
]


@pytest.mark.parametrize("n_bytes", [1_500, 20_000, 90_000])
@pytest.mark.parametrize("kind", LAST)
@pytest.mark.parametrize("simdjson", [SIMDJSON, None], ids=["simdjson", "orjson"])
def test_one_number_decides_wherever_it_stands(
    kind: str, n_bytes: int, simdjson: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ml_dtypes")
    read_with(monkeypatch, simdjson, worth=1 << 10, short=16 << 10, piece=64 << 10, window=1 << 20)
    usual = {"integers": "100,2,3", "decimals": "0.25,1,2", "words": "0,null,3"}[kind]
    n_rows = n_bytes // len(usual)
    names = [dtypes for dtypes in DTYPES_OF_LONG if kind != "words" or "float" in str(dtypes)]
    for number in LAST[kind]:
        for dtypes in names:
            field = Field("x", dtypes=dtypes, nulls="nan")
            try:
                # Which dtype it is depends on the different numbers only.
                short = array_of(parse(f"[[{usual}],[1,2,{number}]]"), field)
            except Unfit:
                short = None
            for at in (0, n_rows - 1):
                rows = [f"[{usual}]"] * n_rows
                rows[at] = f"[1,2,{number}]"
                body = f'{{"x":[{",".join(rows)}]}}'.encode()
                flat = body.replace(b"],[", b",").replace(b"[[", b"[").replace(b"]]", b"]")
                for text, shape in ((body, (n_rows, 3)), (flat, (-1,))):
                    if short is None:
                        assert read_in_chunks(text, field) is MalformedArray
                        assert rewrite(text, [field]) == text
                        continue
                    right = np.repeat(short[:1], n_rows, axis=0)
                    right[at] = short[1]
                    assert read_in_chunks(text, field) == {"x": plain(right.reshape(shape))}
                    assert plain(loads(rewrite(text, [field]), [X])) == {"x": plain(right.reshape(shape))}


def read_in_chunks(body: bytes, field: Field) -> Any:
    """Return a long body's document, or the class of the error, after reading it in a few chunkings."""
    results: list[Any] = []
    for step in (len(body), 1000, 70_000):
        parser = Parser([field])
        try:
            for start in range(0, len(body), step):
                parser.feed(body[start : start + step])
            results.append(plain(parser.close()))
        except (MalformedArray, MalformedJSON) as error:
            results.append(type(error))
    assert all(result == results[0] for result in results)
    return results[0]


@pytest.mark.parametrize(
    ("text", "dtypes", "right"),
    [
        ("[null]", ("float32",), [math.nan]),
        ("[NaN,Infinity,-Infinity,1]", ("float32",), [math.nan, math.inf, -math.inf, 1]),
        ("[ [ null , 1.5 ] , [ -Infinity , NaN ] ]", ("float16",), [[math.nan, 1.5], [-math.inf, math.nan]]),
        ("[1,null]", ("uint8", "float32"), [1, math.nan]),
        ("[1,null]", None, [1, math.nan]),
        ("[16777217,null]", ("float32", "float64"), [16777217, math.nan]),
        ("[9223372036854775809,null]", ("uint64", "float32"), [2.0**63, math.nan]),
        ("[1e-300,null]", ("float32", "float64"), [1e-300, math.nan]),
        ("[Infinity]", ("float8_e4m3fn", "float16"), [math.inf]),
        ("[NaN]", ("float8_e4m3fn",), [math.nan]),
        ("[Infinity]", ("float8_e4m3fn",), MalformedArray),
        ("[1e39,null]", ("float32",), MalformedArray),
        # No dtype of the field has a NaN: the list stays, or is no JSON.
        ("[1,null]", ("int32",), "ordinary"),
        ("[NaN]", ("int32",), MalformedJSON),
        ("[1,null]", ("complex64", "bool"), "ordinary"),
        ("[[1,null],[2]]", ("float32",), "ordinary"),
        ("[[null],[]]", ("float32",), "ordinary"),
        ("[[],[null]]", ("float32",), "ordinary"),
        ("[null,[1]]", ("float32",), "ordinary"),
        ('[null,"a"]', ("float32",), "ordinary"),
        ("[null,true]", ("float32", "bool"), "ordinary"),
        ("[[NaN],[]]", ("float32",), MalformedJSON),
        *(
            (f"[1.5,{word}]", ("float32",), MalformedJSON)
            for word in (
                *("nan", "+Infinity", "Infinit", "Infinityy", "-NaN", "inf", "nul", "nulll", "None", "--Infinity"),
                *("1null", "null1", "-null", "1.null", "1enull", "1-Infinity", "nullnull", "NaN NaN", "nuNaNll", "-"),
                *("null,", ",null", "f", "u", "a", "- Infinity"),
            )
        ),
    ],
)
def test_nulls_count_as_nan_where_the_field_says_so(text: str, dtypes: Any, right: Any, reader: str) -> None:
    pytest.importorskip("ml_dtypes")
    field = Field("x", dtypes=dtypes, nulls="nan")
    body = f'{{"x":{text},"y":0}}'.encode()
    result = lawful(body, [field])
    if isinstance(right, list):
        assert result.document is not None
        array = loads(body, [field])["x"]
        assert array.dtype.kind in "fV"
        assert np.array_equal(array.astype(np.float64), right, equal_nan=True)
        if dtypes:
            assert plain(loads(rewrite(body, [field]), [X])) == result.document
        return
    assert result.error is (None if right == "ordinary" else right)
    if dtypes:
        assert rewrite(body, [field]) == body
    if right == "ordinary":
        assert result.document == orjson.loads(body)


def test_nulls_are_ordinary_by_default(reader: str) -> None:
    for text, error in (("[1.5,null]", None), ("[1.5,NaN]", MalformedJSON), ("[Infinity]", MalformedJSON)):
        body = f'{{"x":{text}}}'.encode()
        assert lawful(body, [Field("x", dtypes=("float32",))]).error is error
        assert rewrite(body, [Field("x", dtypes=("float32",))]) == body


@pytest.mark.parametrize("wide", [False, True])
def test_what_dumps_writes_for_nan_comes_back(*, wide: bool) -> None:
    array = np.array([[1.5, math.nan], [math.nan, -2]], "float64" if wide else "float32")
    field = Field("x", dtypes=(array.dtype.name,), nulls="nan")
    assert np.array_equal(loads(dumps({"x": array}, arrays="nested"), [field])["x"], array, equal_nan=True)


@pytest.mark.parametrize("state", ["raise", "warn"])
def test_numpys_error_state_of_the_caller_does_not_matter(state: Any, reader: str) -> None:
    pytest.importorskip("ml_dtypes")
    with np.errstate(all=state):
        for text in ("[1e-300,7e4]", "[70000]", "[Infinity]"):
            body = f'{{"x":{text}}}'.encode()
            for dtypes in (("float16",), ("float16", "float32"), ("float8_e4m3fn", "float16")):
                field = Field("x", dtypes=dtypes, nulls="nan")
                found = read_in_chunks(body, field)
                with np.errstate(all="ignore"):
                    assert found == expected(body, field)


def test_a_long_list_is_never_held_in_64_bits() -> None:
    # The last number sends it to the third dtype, and float32 lost digits of the first: it is read anew.
    text = b'{"x":[16777217' + b",1000000" * 250_000 + b",-1.5]}"
    field = Field("x", dtypes=("float16", "float32"))
    tracemalloc.start()
    try:
        parser = Parser([field])
        for start in range(0, len(text), 1 << 16):
            parser.feed(text[start : start + (1 << 16)])
        array = parser.close()["x"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert array.dtype == np.float32
    # The text, the memory for as many numbers as it may hold, and the array.
    assert peak < len(text) + 4 * (len(text) // 2) + array.nbytes + (2 << 20)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("wider", ["float16", "bfloat16", "float32"])
def test_floats_of_one_byte_go_to_any_wider_float(name: str, wider: str) -> None:
    pytest.importorskip("ml_dtypes")
    every = np.arange(256, dtype=np.uint8).view(DTYPES[name])
    envelope = pack_ndarray(every, dtypes=("uint8", wider))
    assert envelope["dtype"] == wider
    wide = unpack_ndarray(envelope, X).array
    assert np.array_equal(wide.astype(np.float64), every.astype(np.float64), equal_nan=True)
    with pytest.raises(ValueError, match="none of"):
        pack_ndarray(every, dtypes=("float8_e4m3fn" if name == "float8_e5m2" else "float8_e5m2", "int32"))


def test_every_dtype_of_numbers_says_which_integers_it_holds() -> None:
    for name, dtype in DTYPES.items():
        if dtype.kind in "iufV":
            assert spans(name, 0, 1)
            assert not spans(name, -(1 << 100), 1 << 100)
