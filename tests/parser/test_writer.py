from __future__ import annotations

import dataclasses
import sys
import types
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ndwire import Dump, Field, Packed, dumps, iter_dumps, load, loads
from ndwire._dtypes import DTYPES

A = Field("a")
STANDARD = [name for name, dtype in DTYPES.items() if dtype.isbuiltin == 1]


@st.composite
def arrays(draw: st.DrawFn) -> NDArray[Any]:
    """Draw an array of any dtype, shape, byte order, layout and bits, NaN payloads included."""
    dtype = DTYPES[draw(st.sampled_from(list(DTYPES)))]
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    size = int(np.prod(shape))
    raw = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
    if dtype.kind == "b":
        raw = bytes(byte & 1 for byte in raw)
    array = np.frombuffer(raw, dtype).reshape(shape)
    match draw(st.sampled_from(["plain", "fortran", "strided", "reversed", "swapped"])):
        case "fortran":
            return np.asfortranarray(array)
        case "strided" if array.ndim:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        case "reversed" if array.ndim:
            return array[::-1]
        case "swapped" if dtype.kind != "b":
            return array.byteswap().view(dtype.newbyteorder())
        case _:
            return array


def same_bits(left: NDArray[Any], right: NDArray[Any]) -> bool:
    native = right if right.dtype.isnative else right.astype(right.dtype.newbyteorder("="))
    return left.dtype == native.dtype and left.shape == right.shape and left.tobytes() == native.tobytes()


@given(arrays(), st.integers(1, 64))
def test_round_trip(array: NDArray[Any], piece_bytes: int) -> None:
    document = {"k": [1, {"a": array}], "z": "end"}
    dump = iter_dumps(document, piece_bytes=piece_bytes)
    pieces = list(dump)
    assert sum(map(len, pieces)) == dump.content_length
    assert b"".join(pieces) == dumps(document)
    assert list(dump) == pieces
    result = load(pieces, [A])
    assert same_bits(result["k"][1]["a"], array)
    assert result["z"] == "end"


@given(arrays(), st.integers(1, 64))
def test_nested_lists_are_as_orjson_writes_them(array: NDArray[Any], piece_bytes: int) -> None:
    if array.dtype.kind == "c":
        with pytest.raises(TypeError, match=r"at \$\.a: arrays of dtype .*complex.* cannot be nested"):
            dumps({"a": array}, arrays="nested")
        with pytest.raises(TypeError, match="complex"):
            iter_dumps({"a": array}).nested()
        return
    pieces = list(iter_dumps({"a": array, "b": 1}, arrays="nested", piece_bytes=piece_bytes))
    native = array.astype(array.dtype.newbyteorder("=")) if array.dtype.isbuiltin != 2 else array.astype(np.float32)
    if array.ndim:
        expected = orjson.dumps({"a": np.ascontiguousarray(native), "b": 1}, option=orjson.OPT_SERIALIZE_NUMPY)
    else:
        expected = orjson.dumps({"a": native[()], "b": 1}, option=orjson.OPT_SERIALIZE_NUMPY)
    assert b"".join(pieces) == expected
    assert b"".join(iter_dumps({"a": array, "b": 1}, piece_bytes=piece_bytes).nested()) == expected
    assert iter_dumps({"a": array}, arrays="nested").content_length is None


def test_the_form_of_an_envelope() -> None:
    document = {"a": Packed(np.array([[1, 2]], ">i2"), {"start": 3, "k": "é"}), "b": [np.array(5, np.uint8)]}
    assert dumps(document).decode() == (
        '{"a":{"data":"AQACAA==","shape":[1,2],"dtype":"int16","start":3,"k":"é"},'
        '"b":[{"data":"BQ==","shape":[],"dtype":"uint8"}]}'
    )
    assert dumps(np.zeros(0, np.int8)) == b'{"data":"","shape":[0],"dtype":"int8"}'
    assert dumps({"a": Packed(np.array([1]), {"start": 3})}, arrays="nested") == b'{"a":[1]}'


def test_numpy_scalars_are_numbers() -> None:
    scalars = [np.float32(0.1), np.float64("nan"), np.int64(-5), np.uint64(2**64 - 1), np.bool_(True), np.float16(1.5)]
    for arrays_as in ("envelope", "nested"):
        assert dumps(scalars, arrays=arrays_as) == b"[0.1,null,-5,18446744073709551615,true,1.5]"
    with pytest.raises(TypeError, match=r"at \$\[0\]: a scalar of dtype complex128"):
        dumps([np.complex128(1)])
    if "bfloat16" in DTYPES:
        assert dumps([DTYPES["bfloat16"].type(1.5)]) == b"[1.5]"


def test_options_and_default_are_orjson_s() -> None:
    class Thing:
        pass

    document = {"b": np.arange(2, dtype=np.int8), "a": Thing(), 3: np.arange(1, dtype=np.uint8)}
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
    body = dumps(document, default=lambda thing: {"t": np.array([7], np.int8)}, option=options)
    assert body.endswith(b"}\n")
    result = loads(body, [Field("3"), Field("b"), Field("t")])
    assert list(result) == ["3", "a", "b"]
    assert (result["3"].tolist(), result["a"]["t"].tolist(), result["b"].tolist()) == ([0], [7], [0, 1])
    pretty = dumps({"a": np.arange(2)}, option=orjson.OPT_INDENT_2)
    assert loads(pretty, [A])["a"].tolist() == [0, 1]


def test_call_order_is_output_order() -> None:
    document = {f"k{k}": {"a": np.array([k]), "l": [{"a": np.array([k, k])}]} for k in range(40)}
    for option in (0, orjson.OPT_SORT_KEYS, orjson.OPT_INDENT_2):
        result = loads(dumps(document, option=option), [A])
        for k in range(40):
            assert result[f"k{k}"]["a"].tolist() == [k]
            assert result[f"k{k}"]["l"][0]["a"].tolist() == [k, k]


@dataclasses.dataclass
class Holder:
    a: NDArray[Any]


class Opaque:
    def __init__(self, a: Any) -> None:
        self.inner = a


VOID = np.zeros(2, "V3")


@pytest.mark.parametrize(
    ("document", "where", "said"),
    [
        ({"choices": [1, {"a": np.array([None])}]}, "$.choices[1].a", "dtype object"),
        ({"a": np.array(["s"])}, "$.a", "dtype <U1"),
        ([VOID], "$[0]", r"dtype \|V3"),
        ((1, np.zeros(2, "i2,f4")), "$[1]", r"dtype \[\('f0'"),
        (np.zeros(1, "M8[s]"), "$", r"dtype datetime64\[s\]"),
        (np.zeros(1, np.longdouble), "$", "dtype "),
        ({"a": Packed(VOID, {})}, "$.a", r"dtype \|V3"),
        ({"a": Packed(3, {})}, "$.a", "Packed holds a int"),  # type: ignore[arg-type]  # the point of the case
        (Holder(VOID), "$.a", r"dtype \|V3"),
        ({"a": object()}, "$.a", "object is neither JSON nor an array"),
        ({"a": np.ma.masked_array([1, 2], [False, True])}, "$.a", "masked array"),
        ({"a": Packed(np.zeros(1), {"k": object()})}, "$.a", "object"),
        ({"a": Packed(np.zeros(1), {3: 1})}, "$.a", "must be strings"),  # type: ignore[dict-item]  # the point of the case
        ({"a": Packed(np.zeros(1), [1])}, "$.a", "must be a mapping"),  # type: ignore[arg-type]  # the point of the case
    ],
)
def test_refusals_say_where(document: Any, where: str, said: str) -> None:
    with pytest.raises(TypeError, match=said) as caught:
        iter_dumps(document)
    assert str(caught.value).startswith(f"at {where}: ")


@pytest.mark.parametrize("key", ["data", "shape", "dtype"])
def test_a_sidecar_named_like_a_key_of_the_envelope(key: str) -> None:
    with pytest.raises(ValueError, match=rf"at \$\.a: a sidecar cannot be named {key}"):
        dumps({"a": Packed(np.zeros(1), {key: 1})})


def test_refusals_of_what_default_returned() -> None:
    with pytest.raises(TypeError, match="in what default returned: an array of dtype object"):
        dumps({"a": Opaque(1)}, default=lambda thing: [np.array([None])])

    def failing(thing: Any) -> Any:
        raise LookupError("nothing known about it")

    with pytest.raises(TypeError, match=r"at \$\.a: nothing known about it"):
        dumps({"a": Opaque(1)}, default=failing)
    with pytest.raises(TypeError, match=r"at \$\.a\.inner: "):
        dumps({"a": types.SimpleNamespace(inner=VOID)}, default=vars)


def test_what_orjson_itself_refuses() -> None:
    with pytest.raises(TypeError, match="Dict key must be str"):
        dumps({1: 2})
    with pytest.raises(TypeError, match="64-bit"):
        dumps([2**70])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arrays": "lists"}, "arrays must be"),
        ({"option": orjson.OPT_SERIALIZE_NUMPY}, "OPT_SERIALIZE_NUMPY"),
        ({"piece_bytes": 0}, "piece_bytes"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        iter_dumps({}, **options)


def test_a_fragment_with_a_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        dumps([orjson.Fragment(b"\0"), np.zeros(1)])
    assert dumps({"\0": "\0", "a": np.zeros(0, np.int8)}).startswith(b'{"\\u0000":"\\u0000","a":{"data"')


def test_the_first_piece_is_out_before_an_array_is_read() -> None:
    read: list[int] = []

    class Watched(np.ndarray[Any, Any]):
        pass

    array = np.zeros(1_000_000).view(Watched)
    pieces = iter(iter_dumps({"first": 1, "a": array}))
    assert next(pieces) == b'{"first":1,"a":'
    array[:] = 1
    assert b"8D8" in b"".join(pieces)
    assert not read


def test_pieces_are_neither_tiny_nor_large() -> None:
    many = dumps([{"a": np.arange(3)} for _ in range(10_000)])
    pieces = list(iter_dumps([{"a": np.arange(3)} for _ in range(10_000)], piece_bytes=65536))
    assert b"".join(pieces) == many
    assert len(pieces) < len(many) / 65536 + 3
    large = list(iter_dumps({"a": np.zeros(3_000_000, np.uint8)}, piece_bytes=65536))
    assert max(map(len, large)) < 2 * 65536
    nested = list(iter_dumps({"a": np.zeros((3, 1, 500_000), np.uint8)}, arrays="nested", piece_bytes=65536))
    assert max(map(len, nested)) < 2 * 65536


class TestTensors:
    """Stand-ins with the methods that torch's tensors have; the real ones where torch is installed."""

    def tensor(self, array: NDArray[Any], dtype: str, called: list[str]) -> Any:
        class Tensor:
            def __init__(self) -> None:
                self.dtype = f"torch.{dtype}"

            def __getattr__(self, name: str) -> Any:
                if name in ("detach", "cpu", "resolve_conj", "resolve_neg"):
                    called.append(name)
                    return lambda: self
                raise AttributeError(name)

            def detach(self) -> Any:
                called.append("detach")
                return self

            def view(self, other: Any) -> Any:
                called.append(f"view {other}")
                return self

            def numpy(self) -> NDArray[Any]:
                return array

        Tensor.__module__ = "torch"
        return Tensor()

    def test_they_are_brought_to_the_host(self) -> None:
        called: list[str] = []
        body = dumps({"a": self.tensor(np.arange(3.0), "float64", called)})
        assert loads(body, [A])["a"].tolist() == [0, 1, 2]
        assert called == ["detach", "cpu", "resolve_conj", "resolve_neg"]

    @pytest.mark.parametrize(("dtype", "width"), [("bfloat16", "int16"), ("float8_e5m2", "uint8")])
    def test_dtypes_that_numpy_lacks(self, dtype: str, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(int16="int16", uint8="uint8"))
        called: list[str] = []
        bits = np.arange(4).astype(width)
        tensor = self.tensor(bits, dtype, called)
        if dtype not in DTYPES:
            with pytest.raises(TypeError, match="ml_dtypes"):
                dumps({"a": tensor})
            return
        result = loads(dumps({"a": tensor}), [A])["a"]
        assert result.dtype == DTYPES[dtype]
        assert result.tobytes() == bits.tobytes()
        assert called[-1] == f"view {width}"

    def test_without_ml_dtypes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(DTYPES, "bfloat16", raising=False)
        with pytest.raises(TypeError, match="need the package ml_dtypes"):
            dumps({"a": self.tensor(np.zeros(1), "bfloat16", [])})

    def test_real_ones(self) -> None:
        torch = pytest.importorskip("torch")
        grad = torch.arange(3.0, requires_grad=True)
        negated = torch.complex(torch.ones(2), torch.ones(2)).conj().imag
        half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
        result = loads(dumps({"a": grad, "b": negated, "c": half.T}), [A, Field("b"), Field("c")])
        assert result["a"].tolist() == [0, 1, 2]
        assert result["b"].tolist() == [-1, -1]
        assert result["c"].astype(np.float32).tolist() == [1.5, -2.0]

    def test_array_protocols(self) -> None:
        class ViaArray:
            def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
                return np.arange(3, dtype=np.int16)

        class ViaDLPack:
            def __dlpack__(self, **_: Any) -> Any:
                return np.arange(4, dtype=np.int32).__dlpack__()

            def __dlpack_device__(self) -> tuple[int, int]:
                return 1, 0

        result = loads(dumps({"a": ViaArray(), "b": ViaDLPack()}), [A, Field("b")])
        assert (result["a"].tolist(), result["b"].tolist()) == ([0, 1, 2], [0, 1, 2, 3])
        with pytest.raises(TypeError, match="neither JSON nor an array"):
            dumps({"a": ViaArray})


def test_a_dump_is_a_value_of_its_own() -> None:
    dump = iter_dumps({"a": np.zeros(2, np.int8)})
    assert isinstance(dump, Dump)
    assert dump.content_length == len(dumps({"a": np.zeros(2, np.int8)}))
    assert iter_dumps(5).content_length == 1
    assert list(iter_dumps(5)) == [b"5"]
    assert b"".join(iter_dumps(np.zeros(2, np.int8), piece_bytes=1)) == dumps(np.zeros(2, np.int8))
