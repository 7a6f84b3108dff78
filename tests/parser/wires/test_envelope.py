from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ndwire import Field, LimitExceeded, Limits, MalformedArray, loads, pack_ndarray, unpack_ndarray
from ndwire._contract.dtypes import DTYPES
from support.chunking import lawful, outcome

X = Field("x")
GOOD: dict[str, Any] = {"data": "AAECAwQF", "shape": [2, 3], "dtype": "uint8"}


@given(st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 3), max_size=3), st.booleans())
def test_packing_and_unpacking(dtype: str, shape: list[int], ascii_only: bool) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(DTYPES[dtype])
    envelope = pack_ndarray(array.T, sidecar={"start": 1})
    text = json.dumps({"x": envelope}, ensure_ascii=ascii_only).encode()
    for result, sidecar in (
        unpack_ndarray(envelope, X),
        unpack_ndarray(json.loads(text)["x"], X),
        loads(text, [Field("x", sidecar=True)])["x"],
    ):
        assert (result.dtype, result.shape) == (array.dtype, array.T.shape)
        assert result.tobytes() == array.T.tobytes()
        assert sidecar == {"start": 1}
        assert result.flags.writeable
        assert result.flags.c_contiguous


def test_the_form() -> None:
    assert pack_ndarray(np.array([1, 2], ">i2")) == {"data": "AQACAA==", "shape": [2], "dtype": "int16"}
    assert pack_ndarray(np.float32(1)) == {"data": "AACAPw==", "shape": [], "dtype": "float32"}
    assert list(pack_ndarray(np.zeros(1), sidecar={"k": 1})) == ["data", "shape", "dtype", "k"]
    assert orjson.loads(orjson.dumps(pack_ndarray(np.zeros((2, 0))))) == {
        "data": "",
        "shape": [2, 0],
        "dtype": "float64",
    }


@pytest.mark.parametrize(
    ("values", "dtypes", "expected"),
    [
        (np.array([0, 255]), ("uint8", "int16"), "uint8"),
        (np.array([0, 256]), ("uint8", "int16"), "int16"),
        (np.array([-1]), ("uint8", "int16"), "int16"),
        (np.array([], np.int64), ("uint8",), "uint8"),
        (np.array([5], np.uint8), ("int32",), "int32"),
        (np.array([1.5], np.float32), ("float16", "float64"), "float64"),
        (np.array([1.5], np.float32), ("float32",), "float32"),
        (np.array([1.5], np.float16), ("uint8", "float32"), "float32"),
        (np.array([True]), ("uint8", "bool"), "bool"),
        (np.array([1j]), ("complex128",), "complex128"),
    ],
)
def test_narrowing(values: NDArray[Any], dtypes: tuple[str, ...], expected: str) -> None:
    envelope = pack_ndarray(values, dtypes=dtypes)
    assert envelope["dtype"] == expected
    assert unpack_ndarray(envelope, X).array.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("values", "dtypes"),
    [
        (np.array([70000]), ("uint8", "int16")),
        (np.array([1.5]), ("float32", "int64")),
        (np.array([True]), ("uint8",)),
        (np.array([1]), ("float64",)),
        (np.array([1j]), ("float64",)),
        (np.array([1]), ("int7",)),
    ],
)
def test_nothing_holds_it(values: NDArray[Any], dtypes: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"none of|not a dtype"):
        pack_ndarray(values, dtypes=dtypes)


@pytest.mark.parametrize("value", [[1, 2], "x", None, np.array([None]), np.array(["s"]), np.zeros(1, "V2")])
def test_what_is_no_array_of_the_wire(value: Any) -> None:
    with pytest.raises(TypeError):
        pack_ndarray(value)


def test_sidecars_may_not_be_named_like_the_envelope_s_keys() -> None:
    with pytest.raises(ValueError, match="data or shape"):
        pack_ndarray(np.zeros(1), sidecar={"shape": 1, "data": 2})


@pytest.mark.parametrize("data", ["AAECAwQF", b"AAECAwQF", bytearray(b"AAECAwQF"), memoryview(b"AAECAwQF")])
def test_data_may_be_text_or_bytes(data: Any) -> None:
    assert unpack_ndarray({**GOOD, "data": data}, X).array.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("shape", [(2, 3), [np.int64(2), np.uint8(3)], np.array([2, 3]).tolist()])
def test_shapes_may_hold_numpy_s_integers(shape: Any) -> None:
    envelope = {**GOOD, "shape": shape}
    before = dict(envelope)
    assert unpack_ndarray(envelope, X).array.shape == (2, 3)
    assert envelope == before


@pytest.mark.parametrize(
    "change",
    [
        {"data": None},
        {"data": 3},
        {"data": "AAEC"},
        {"data": "AA!C"},
        {"data": "AAECAwQé"},
        {"data": "AB=="},
        {"shape": [6.0]},
        {"shape": [True, 6]},
        {"shape": [np.bool_(True), 6]},
        {"shape": [-6]},
        {"shape": "6"},
        {"shape": 6},
        {"shape": b"\x06"},
        {"shape": bytearray(b"\x06")},
        {"shape": [5]},
        {"dtype": "object"},
        {"dtype": np.dtype("uint8")},
        {"dtype": None},
    ],
)
def test_broken_envelopes(change: dict[str, Any]) -> None:
    with pytest.raises(MalformedArray) as caught:
        unpack_ndarray({**GOOD, **change}, X)
    assert caught.value.offset is None


@pytest.mark.parametrize("key", ["data", "shape", "dtype"])
def test_a_key_is_missing(key: str) -> None:
    with pytest.raises(MalformedArray):
        unpack_ndarray({name: value for name, value in GOOD.items() if name != key}, X)


def test_the_field_s_rules_apply() -> None:
    def check(array: NDArray[Any]) -> None:
        raise ValueError("never")

    for field in (Field("x", ndim=1), Field("x", dtypes=("int8",)), Field("x", check=check)):
        with pytest.raises(MalformedArray):
            unpack_ndarray(GOOD, field)


def test_the_memory_is_the_array_s_own() -> None:
    data = bytearray(base64.b64encode(bytes(6)))
    array = unpack_ndarray({**GOOD, "data": data}, X).array
    data[:] = b"A" * 8
    array[:] = 7
    assert array.sum() == 42


DEEP = b"[" * 990 + b"]" * 990
MEMBERS = {
    "a deep shape": (b'"shape":%b,"dtype":"uint8"' % DEEP, "the dimension [[[[...]]]] in its shape"),
    "a deep object as shape": (
        b'"shape":{"a":%b},"dtype":"uint8"' % DEEP[1:-1],
        "the shape {'a': [[[...]]]}, not a list",
    ),
    "a deep dtype": (b'"shape":[],"dtype":%b' % DEEP, "the dtype [[[[...]]]], which the wire does not know"),
    "an object as dtype": (b'"shape":[],"dtype":{"name":"int8"}', "the dtype {'name': 'int8'}, which"),
    "a long shape": (b'"shape":"%b","dtype":"uint8"' % (b"9" * 3000), "9..., not a list"),
    "no shape": (b'"dtype":"uint8","type":"text","k":1', "without shape: beside data it holds ['dtype', 'type', 'k']"),
    "nothing": (b'"data2":1', "without dtype and shape: beside data it holds ['data2']"),
    "a negative dimension": (b'"shape":[2,-1],"dtype":"uint8"', "the dimension -1 in its shape"),
    "an infinite dimension": (b'"shape":[1e999],"dtype":"uint8"', "in its shape"),
    "a dimension beyond NumPy's": (
        b'"shape":[9223372036854775808],"dtype":"uint8"',
        "the dimension 9223372036854775808 in",
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_errors_name_the_field_and_what_stood_there(name: str) -> None:
    members, said = MEMBERS[name]
    body = b'[{"x":{"data":"",%b}}]' % members
    result = lawful(body, [X], every_cut=100)
    if b"1e999" in members:
        # Whatever the JSON parser makes of it, it is no dimension.
        assert result.error is not None
        return
    assert (result.error, result.offset) == (MalformedArray, 6)
    assert "'x' has" in result.message
    assert said in result.message
    assert len(result.message) < 250


def test_an_envelope_with_nothing_but_data() -> None:
    result = lawful(b'{"x":{"data":""}}', [X])
    assert result.error is MalformedArray
    assert "beside data it holds nothing" in result.message


def test_dimensions_are_counted_before_they_are_looked_at() -> None:
    for number, error in ((65, MalformedArray), (400_000, MalformedArray), (3, LimitExceeded)):
        body = b'{"x":{"data":"","shape":[%b"a"],"dtype":"uint8"}}' % (b"0," * (number - 1))
        assert outcome([body], [X], limits=Limits(ndim=2)).error is error
    body = b'{"x":{"data":"","shape":[%b0],"dtype":"uint8"}}' % (b"0," * 399_999)
    result = outcome([body], [X])
    assert (result.error, result.offset) == (MalformedArray, 5)
    assert "has 400000 dimensions" in result.message


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_dtype_that_needs_a_package_names_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(DTYPES, name, raising=False)
    body = b'{"x":{"data":"","shape":[0],"dtype":"%b"}}' % name.encode()
    result = lawful(body, [X])
    assert result.error is MalformedArray
    assert f"the dtype '{name}', which the wire does not know (it needs the package ml_dtypes)" in result.message


@pytest.mark.parametrize("value", [None, [1], "text", 3])
def test_what_is_no_envelope(value: Any) -> None:
    with pytest.raises(MalformedArray, match="'x' is no envelope, but "):
        unpack_ndarray(value, X)


def test_dimensions_of_any_size_are_an_error_of_ours() -> None:
    for dimension in (2**63, 10**5000, -(10**5000)):
        with pytest.raises(MalformedArray, match="the dimension"):
            unpack_ndarray({**GOOD, "shape": [dimension, 0]}, X)
    with pytest.raises(MalformedArray, match="holds 6 bytes"):
        unpack_ndarray({**GOOD, "shape": [2**63 - 1] * 64}, X)
