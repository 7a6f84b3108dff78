from __future__ import annotations

import dataclasses
import pathlib
import sys
import types
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ndwire import Dump, Field, Packed, dumps, iter_dumps, load, loads, pack_ndarray
from ndwire._contract.dtypes import DTYPES

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
        ({"a": np.ma.masked_array([1, 2], [False, True])}, "$.a", "would lose its mask"),
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
    def failing(thing: Any) -> Any:
        if isinstance(thing, Opaque):
            return [np.array([None])]
        raise LookupError("nothing known about it")

    with pytest.raises(
        TypeError, match=r"in what default returned: nothing known about it \(an array of dtype object;"
    ):
        dumps({"a": Opaque(1)}, default=failing)
    with pytest.raises(TypeError, match=r"at \$\.a: nothing known about it \(object is neither JSON nor an array\)"):
        dumps({"a": object()}, default=failing)
    with pytest.raises(TypeError, match=r"at \$\.a\.inner: vars\(\) argument must have __dict__"):
        dumps({"a": types.SimpleNamespace(inner=VOID)}, default=vars)

    def silent(thing: Any) -> Any:
        raise TypeError

    with pytest.raises(TypeError, match=r"at \$: TypeError \(object is neither JSON nor an array\)"):
        dumps(object(), default=silent)

    def strict(thing: Any) -> Any:
        raise ValueError("out of range")

    with pytest.raises(ValueError, match=r"at \$: out of range \("):
        dumps(object(), default=strict)
    with pytest.raises(TypeError, match="recursion limit"):
        dumps(np.array(["s"]), default=lambda thing: thing)


def test_the_place_of_a_refusal_is_found_in_any_object() -> None:
    around = types.SimpleNamespace(numpy=np, kind=Holder, sys=sys)
    around.self = around
    around.deep = {"k" * 500: [Slotted(VOID)]}
    with pytest.raises(TypeError) as caught:
        dumps(around, default=lambda thing: vars(thing)["deep"])
    text = "k" * 79
    assert str(caught.value).startswith(f"at $.deep['{text}...][0].a: vars() argument")
    around.deep = None
    with pytest.raises(TypeError, match=r"^in what default returned: "):
        dumps(around, default=lambda thing: [np.array([None])] if thing is around else vars(thing))


@dataclasses.dataclass(slots=True)
class Slotted:
    a: NDArray[Any]


# Values that the wire lacks, each with what default makes of it.
LACKING: dict[str, Any] = {
    "text": np.array(["s", "t"]),
    "bytes": np.array([b"s"]),
    "dates": np.array(["2026-11-30"], "M8[D]"),
    "durations": np.array([3], "m8[s]"),
    "objects": np.array([None, 1]),
    "a structured array": np.zeros(2, "i2,f4"),
    "void": VOID,
    "a long double": np.zeros(1, np.longdouble),
    "a masked array": np.ma.masked_array([1, 2], [False, True]),
    "a masked constant": np.ma.masked,
    "a scalar date": np.datetime64("2026-11-30"),
    "a scalar duration": np.timedelta64(3, "s"),
    "a complex scalar": np.complex128(1j),
    "a structured scalar": np.zeros(2, "i2,f4")[0],
    "a scalar of bytes": np.bytes_(b"s"),
    "packed text": Packed(np.array(["s"]), {"start": 1}),
    "packed nothing": Packed(3, {}),  # type: ignore[arg-type]  # the point of the case
}


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.parametrize("arrays_as", ["envelope", "nested"])
def test_default_is_asked_for_what_the_wire_lacks(name: str, arrays_as: Any) -> None:
    asked: list[Any] = []

    def default(thing: Any) -> Any:
        asked.append(thing)
        return {"what": name, "a": np.arange(2, dtype=np.int8)}

    body = dumps({"before": np.zeros(1), "it": LACKING[name], "k": 1}, arrays=arrays_as, default=default)
    result = loads(body, [A])
    assert len(asked) == 1
    assert asked[0] is LACKING[name]
    assert result["it"]["what"] == name
    assert result["it"]["a"].tolist() == [0, 1]
    assert result["k"] == 1
    with pytest.raises(TypeError, match=r"at \$\.it: "):
        dumps({"it": LACKING[name]}, arrays=arrays_as)


def test_default_is_not_asked_for_what_the_wire_has() -> None:
    def default(thing: Any) -> Any:
        raise AssertionError(thing)

    document = {"a": np.zeros(2, ">f4"), "b": np.float16(1), "c": Packed(np.zeros(1), {"k": 1})}
    for arrays_as in ("envelope", "nested"):
        assert dumps(document, arrays=arrays_as, default=default) == dumps(document, arrays=arrays_as)
    with pytest.raises(ValueError, match="a sidecar cannot be named data"):
        dumps(Packed(np.zeros(1), {"data": 1}), default=default)
    with pytest.raises(TypeError, match="must be a mapping"):
        dumps(Packed(np.zeros(1), [1]), default=default)  # type: ignore[arg-type]  # the point of the case


def test_default_is_asked_for_complex_numbers_where_there_are_no_envelopes() -> None:
    def default(thing: Any) -> Any:
        return {"real": thing.real, "imag": thing.imag}

    document = {"a": np.array([1 + 2j]), "b": np.arange(2)}
    nested = b'{"a":{"real":[1.0],"imag":[2.0]},"b":[0,1]}'
    assert dumps(document, arrays="nested", default=default) == nested
    dump = iter_dumps(document, default=default)
    assert loads(b"".join(dump), [A])["a"].tolist() == [1 + 2j]
    assert b"".join(dump.nested()) == nested
    pretty = iter_dumps(document, default=default, option=orjson.OPT_INDENT_2).nested()
    assert b"".join(pretty) == dumps(document, arrays="nested", default=default, option=orjson.OPT_INDENT_2)


class TestWhatWouldLoseMoreThanNumbers:
    """Objects with ``__array__`` that say more than an array can."""

    def refused(self, value: Any, lost: str) -> None:
        with pytest.raises(TypeError, match=rf"^at \$\.a: a {type(value).__name__} would lose {lost}"):
            dumps({"a": value})
        with pytest.raises(TypeError, match="would lose"):
            pack_ndarray(value)
        assert dumps({"a": value}, default=lambda thing: type(thing).__name__) == orjson.dumps(
            {"a": type(value).__name__}
        )

    def test_pandas(self) -> None:
        pandas = pytest.importorskip("pandas")
        self.refused(pandas.DataFrame({"x": [1, 2], "y": [3, 4]}), "the names of its columns")
        self.refused(pandas.Series([1, 2], index=["x", "y"]), "its index")
        self.refused(pandas.array([1, None]), "its nulls")
        self.refused(pandas.array([1.5, None]), "its nulls")
        self.refused(pandas.Index([1, None], dtype="Int64"), "its nulls")
        # These are numbers and nothing else.
        for plain in (pandas.array([1, 2]), pandas.Index([1, 2]), pandas.Series([1, 2]).to_numpy()):
            assert loads(dumps({"a": plain}), [A])["a"].tolist() == [1, 2]
        assert loads(dumps({"a": pandas.RangeIndex(3)}), [A])["a"].tolist() == [0, 1, 2]
        not_a_number = loads(dumps({"a": pandas.Index([1.5, float("nan")])}), [A])["a"]
        assert np.array_equal(not_a_number, [1.5, np.nan], equal_nan=True)
        for other in (pandas.Index(["x"]), pandas.MultiIndex.from_tuples([(1, 2)])):
            with pytest.raises(TypeError, match="an array of dtype object"):
                dumps({"a": other})
        records = dumps(
            {"a": pandas.DataFrame({"x": [1, 2]})},
            default=lambda frame: {name: frame[name].to_numpy() for name in frame},
        )
        assert loads(records, [Field("x")])["a"]["x"].tolist() == [1, 2]

    def test_polars(self) -> None:
        polars = pytest.importorskip("polars")
        self.refused(polars.DataFrame({"x": [1, 2]}), "the names of its columns")
        self.refused(polars.Series([1, None]), "its nulls")
        assert loads(dumps({"a": polars.Series([1, 2])}), [A])["a"].tolist() == [1, 2]

    def test_xarray(self) -> None:
        xarray = pytest.importorskip("xarray")
        self.refused(xarray.DataArray([1, 2], dims="x", coords={"x": [5, 6]}), "its coordinates")
        self.refused(xarray.Dataset({"v": ("x", [1])}), "its coordinates")
        self.refused(xarray.Variable("x", [1, 2]), "the names of its dimensions")

    @pytest.mark.parametrize(
        ("attribute", "lost"),
        [
            ("unit", "its unit"),
            ("units", "its unit"),
            ("mask", "its mask"),
            ("column_names", "the names of its columns"),
        ],
    )
    def test_subclasses_and_strangers(self, attribute: str, lost: str) -> None:
        numbers = np.arange(3)
        quantity = type("Quantity", (np.ndarray,), {attribute: property(lambda self: 1)})
        self.refused(numbers.view(quantity), lost)
        stranger = type("Stranger", (), {attribute: 1, "__array__": lambda self, dtype=None, copy=None: numbers})
        self.refused(stranger(), lost)

    def test_columns_of_arrow(self) -> None:
        class Column:
            null_count = 0

            def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
                return np.arange(2)

        column = Column()
        assert loads(dumps({"a": column}), [A])["a"].tolist() == [0, 1]
        column.null_count = 1
        self.refused(column, "its nulls")

    def test_what_array_returns_is_judged_in_its_turn(self) -> None:
        class Variable:
            def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
                return np.ma.masked_array([1, 2], [False, True])

        with pytest.raises(TypeError, match=r"at \$\.a: a MaskedArray would lose its mask"):
            dumps({"a": Variable()})

    def test_plain_subclasses_lose_nothing(self, tmp_path: pathlib.Path) -> None:
        pages = np.memmap(tmp_path / "pages", np.uint8, "w+", shape=(2,))
        matrix = np.zeros((1, 2), np.uint8).view(np.matrix)
        assert [item["a"].tolist() for item in loads(dumps([{"a": pages}, {"a": matrix}]), [A])] == [[0, 0], [[0, 0]]]


def test_what_fails_to_give_its_array() -> None:
    class Sparse:
        def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
            raise RuntimeError("too large for a dense array")

    class OnTheDevice:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it is on the device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    for value, said in ((Sparse(), "too large for a dense array"), (OnTheDevice(), "")):
        name = type(value).__name__
        with pytest.raises(TypeError, match=rf"at \$: a {name} that gives no array: .*{said}"):
            dumps(value)
        assert dumps(value, default=lambda thing: type(thing).__name__) == orjson.dumps(name)


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
