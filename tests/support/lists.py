"""Lists of numbers as text, every way to read them, and what they are by the rules."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from hypothesis import strategies as st

from ndwire import Field, MalformedArray, MalformedJSON, rewrite
from ndwire._scanning import scanner as scanner_module
from ndwire._wires import nested
from ndwire._wires.numbers import numerals, rectangle
from support.chunking import outcome, plain
from support.oracle import Unfit, array_of, parse

SIMDJSON: Any = vars(numerals)["_simdjson"]

# simdjson or None; from how many bytes on; up to how many bytes a flat list is short; bytes of a piece.
WAYS = [
    *((SIMDJSON, 0, 0, 5), (None, 0, 0, 5), (SIMDJSON, 0, 0, 999), (None, 1 << 20, 0, 999)),
    *((SIMDJSON, 0, 99, 999), (None, 0, 99, 999), (SIMDJSON, 60, 99, 30)),
]


def read_with(patch: pytest.MonkeyPatch, simdjson: Any, *, worth: int, short: int, piece: int, window: int = 1) -> None:
    """Read lists with or without simdjson, from so many bytes on, and in pieces of so many; see WAYS."""
    patch.setattr(numerals, "_simdjson", simdjson)
    patch.setattr(numerals, "_WORTH_SIMD", worth)
    patch.setattr(numerals, "_WORTH_SIMD_REAL", worth)
    for module, name, value in (
        (nested, "SHORT", short),
        (scanner_module, "SHORT", short),
        (nested, "PIECE_BYTES", piece),
        (numerals, "PIECE_BYTES", piece),
        (nested, "_WINDOW", window),
        (rectangle, "_WINDOW", window),
    ):
        patch.setattr(module, name, value)


EDGES = [0, 1, 2, 3, 4, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64, 65, 127, 128, 1023]
integers = st.one_of(
    st.integers(-300, 300),
    st.integers(-(1 << 66), 1 << 66),
    st.builds(
        lambda sign, bits, off: sign * ((1 << bits) + off),
        st.sampled_from([1, -1]),
        st.sampled_from(EDGES),
        st.integers(-2, 2),
    ),
    st.sampled_from([65504, 65519, 65520, 448, 464, 480, 57344, 61440, 10**300]),
).map(str)
decimals = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-2, 2, width=32),
    st.sampled_from([-0.0, 0.0, 1e39, -1e-320, 1e-300, 5e-324, 1e-45, 1e-8, 0.001, 65519.9, 448.5, 464.1, 3.4e38]),
).map(repr)
words = st.sampled_from(["null", "null", "NaN", "Infinity", "-Infinity"])
kinds = [
    *(integers, integers, decimals, decimals, st.one_of(integers, decimals), st.integers(0, 200).map(str)),
    *(st.one_of(integers, words), st.one_of(decimals, words), words, st.sampled_from(["true", "false"])),
    st.sampled_from(
        ["-0", "1.5", "true", "null", "nan", "+Infinity", "Infinit", "-NaN", "1null", "1-Infinity", "nullnull"]
    ),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw the text of nested lists of numbers, rectangular for the most part."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    kind = draw(st.sampled_from(kinds))
    rows: list[str] = draw(st.lists(kind, min_size=math.prod(shape), max_size=math.prod(shape)))
    if draw(st.integers(0, 9)) == 0:
        rows[draw(st.integers(0, len(rows) - 1))] = draw(
            st.sampled_from(["1", "[1]", "[]", "null", "true", "0.5", '"a"', "{}"])
        )
    comma = draw(st.sampled_from([",", ", ", " ,\n"]))
    for size in shape[::-1]:
        rows = [f"[{comma.join(rows[k : k + size])}]" for k in range(0, len(rows), size)]
    if draw(st.integers(0, 9)) == 0:
        # An empty row at the end.
        return f"[{rows[0]},[]]"
    return rows[0]


def expected(body: bytes, field: Field) -> Any:
    """Return the document of ``body``, or the class of the error."""
    try:
        array = array_of(parse(body)["x"], field)
    except Unfit:
        return MalformedArray
    except ValueError:
        return MalformedJSON
    if array is not None:
        return {"x": plain(array)}
    try:
        return orjson.loads(body)
    except ValueError:
        return MalformedJSON


def read_one(body: bytes, field: Field) -> None:
    right = expected(body, field)
    for chunks in (
        [body],
        [body[: len(body) // 2], body[len(body) // 2 :]],
        [body[k : k + 1] for k in range(len(body))],
    ):
        result = outcome(chunks, [field])
        assert (result.document if result.error is None else result.error) == right


def rewrite_one(body: bytes, field: Field) -> None:
    """A rewritten body gives every client what the list gives one with that field."""
    rewritten = rewrite(body, [field])
    right = expected(body, field)
    if isinstance(right, dict) and "$ndarray" in right["x"]:
        assert b'"data":"' in rewritten
        assert outcome([rewritten], [Field("x")]).document == right
    else:
        assert rewritten == body
