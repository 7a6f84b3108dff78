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

from ndwire import Field, MalformedArray, loads, pack_ndarray, unpack_ndarray
from ndwire._dtypes import DTYPES

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
