from __future__ import annotations

import base64
import io
import itertools
import warnings
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ndwire import Field, LimitExceeded, Limits, MalformedArray, Parser, loads, rewrite
from ndwire._contract.dtypes import DTYPES, dtype_name
from ndwire._wires.npy_header import dtype_of, parse_header
from support.chunking import lawful, outcome

X = Field("x")


def npy_file(array: NDArray[Any], version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    npy_format.write_array(file, array, version)
    return file.getvalue()


def body_of(file: bytes) -> bytes:
    return b'{"x":"' + base64.b64encode(file) + b'"}'


def with_header(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes((version, 0)) + length + header + data


@pytest.mark.parametrize("dtype", ["?", "u1", "<i2", ">i2", "<f4", ">f8", "<c8", ">c16", "<u8", "<f2"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (3, 0, 2), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_saves_comes_back(dtype: str, shape: tuple[int, ...], order: Any) -> None:
    array = np.asarray(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype), order=order)
    for version in ((1, 0), (2, 0), (3, 0)):
        file = npy_file(array, version)
        for body in (body_of(file), body_of(file).replace(b"/", rb"\/").replace(b"+", rb"\u002b")):
            whole = loads(body, [X])["x"]
            assert whole.dtype == array.dtype.newbyteorder("=")
            assert whole.flags.c_contiguous
            assert whole.flags.writeable
            assert whole.tobytes() == array.astype(whole.dtype).tobytes()
            assert outcome([body[k : k + 1] for k in range(len(body))], [X]) == outcome([body], [X])


@pytest.mark.parametrize("array", [np.ones((3, 5), "<i4"), np.ones((3, 5), ">i4"), np.asfortranarray(np.ones((3, 5)))])
@pytest.mark.parametrize("known", [True, False])
def test_allocate(array: NDArray[Any], *, known: bool) -> None:
    given: list[tuple[int, NDArray[np.uint8]]] = []

    def allocate(name: str, n_bytes: int) -> NDArray[np.uint8]:
        given.append((n_bytes, np.zeros(n_bytes, np.uint8)))
        return given[-1][1]

    body = body_of(npy_file(array))
    parser = Parser([X], allocate=allocate, content_length=len(body) if known else None)
    parser.feed(body)
    result = parser.close()["x"]
    ((n_bytes, buffer),) = given
    assert n_bytes == array.nbytes
    assert np.shares_memory(buffer, result)
    assert np.array_equal(result, array)


def test_large_files_in_chunks() -> None:
    array = np.random.default_rng(0).integers(0, 255, (100_000, 4, 8), np.uint8)
    body = body_of(npy_file(array))
    for step, known in itertools.product((5000, 65536, 1 << 30), (True, False)):
        parser = Parser([X], content_length=len(body) if known else None)
        events = [event for k in range(0, len(body), step) for event in parser.feed(body[k : k + step])]
        assert np.array_equal(events[0].array, array)
        assert events[0].array.flags.writeable


HEADER = b"{'descr': '<i2', 'fortran_order': False, 'shape': (1,)}"
BROKEN = {
    "an empty header": with_header(b""),
    "no dict": with_header(b"12"),
    "a key too few": with_header(b"{'descr': '<i2', 'shape': (1,)}", b"\0\0"),
    "a key too many": with_header(b"{'descr': '<i2', 'shape': (1,), 'fortran_order': False, 'k': 1}", b"\0\0"),
    "a negative dimension": with_header(b"{'descr': '<i2', 'shape': (-1,), 'fortran_order': False}"),
    "a bool as dimension": with_header(b"{'descr': '|u1', 'shape': (True,), 'fortran_order': False}", b"\0"),
    "a shape that is no tuple": with_header(b"{'descr': '|u1', 'shape': 1, 'fortran_order': False}", b"\0"),
    "a huge shape": with_header(b"{'descr': '<i8', 'shape': (1000000000000,), 'fortran_order': False}", b"\0" * 8),
    "a shape beyond NumPy's": with_header(
        b"{'descr': '<i8', 'shape': (4611686018427387904, 0), 'fortran_order': False}"
    ),
    "65 dimensions": with_header(b"{'descr': '|u1', 'shape': (" + b"1," * 65 + b"), 'fortran_order': False}", b"\0"),
    "objects": with_header(b"{'descr': '|O', 'shape': (1,), 'fortran_order': False}", b"\0" * 8),
    "strings": with_header(b"{'descr': '|S1', 'shape': (1,), 'fortran_order': False}", b"\0"),
    "void": with_header(b"{'descr': '|V1', 'shape': (1,), 'fortran_order': False}", b"\0"),
    "dates": with_header(b"{'descr': '<M8[s]', 'shape': (1,), 'fortran_order': False}", b"\0" * 8),
    "no dtype": with_header(b"{'descr': 'nonsense', 'shape': (1,), 'fortran_order': False}", b"\0"),
    "a subarray": with_header(b"{'descr': ('<i2', (2,)), 'shape': (1,), 'fortran_order': False}", b"\0" * 4),
    "code": with_header(b"__import__('os').abort()"),
    "deep nesting": with_header(b"(" * 9000),
    "a bad escape": with_header(b"{'descr': '<i2', 'shape': (1,), 'fortran_order': '\\d'}", b"\0\0"),
    "no end": with_header(b"{'descr': '<i2', 'shape': (1L,), 'fortran_order': False", b"\0\0"),
    "something behind the end": with_header(HEADER + b" 1", b"\0\0"),
    "a key twice": with_header(HEADER[:-1] + b", 'shape': (1,)}", b"\0\0"),
    "a shape of one number": with_header(HEADER.replace(b"(1,)", b"(1)"), b"\0\0"),
    "a long dimension": with_header(HEADER.replace(b"1,", b"1" * 5000 + b","), b"\0\0"),
    "a padded dimension": with_header(HEADER.replace(b"1,", b"01,"), b"\0\0"),
    "an expression": with_header(HEADER.replace(b"1,", b"1+1,"), b"\0\0"),
    "no byte order and no code": with_header(HEADER.replace(b"<i2", b""), b"\0\0"),
    "a structured dtype": with_header(HEADER.replace(b"'<i2'", b"[('a', '<i2')]"), b"\0\0"),
    "two bytes of anything": with_header(HEADER.replace(b"<i2", b"|V2"), b"\0\0"),
    "not latin-1": with_header("{'descr': 'é', 'shape': (1,), 'fortran_order': False}".encode(), b"\0", 3),
    "a long header": with_header(b" " * 10_001, b"", 2),
    "a header of 4 GiB": b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
    "version 0": b"\x93NUMPY\x00\x00\x00\x00",
    "version 1.1": b"\x93NUMPY\x01\x01\x00\x00",
    "the magic alone": b"\x93NUMPY",
    "a length that is cut": b"\x93NUMPY\x02\x00\x01",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str) -> None:
    result = lawful(body_of(BROKEN[name]), [X], every_cut=60)
    assert (result.error, result.offset) == (MalformedArray, 5)


def test_more_bytes_than_the_shape_has_are_refused_before_they_are_kept() -> None:
    file = npy_file(np.zeros(3, np.uint8))
    parser = Parser([X])
    with pytest.raises(MalformedArray, match="more than the 3 bytes"):
        parser.feed(body_of(file + bytes(200_000))[:-2])


def test_limits_count_the_array_without_its_header() -> None:
    body = body_of(npy_file(np.zeros((2, 3), np.int32)))
    assert lawful(body, [X], limits=Limits(array_bytes=24, total_array_bytes=24)).error is None
    assert lawful(body, [X], limits=Limits(array_bytes=23)).error is LimitExceeded
    assert lawful(body, [X], limits=Limits(ndim=1)).error is LimitExceeded
    both = b"[" + body + b"," + body + b"]"
    result = lawful(both, [X], limits=Limits(total_array_bytes=47))
    assert (result.error, len(result.arrays)) == (LimitExceeded, 1)


def test_the_field_s_rules_apply() -> None:
    def check(array: NDArray[Any]) -> None:
        raise ValueError("no")

    body = body_of(npy_file(np.zeros((2, 3), np.int32)))
    for field in (Field("x", ndim=1), Field("x", dtypes=("int8",)), Field("x", check=check)):
        assert lawful(body, [field]).error is MalformedArray


def test_a_string_that_only_looks_like_one() -> None:
    for text in ("k05VTVBX", "k05VTVB\\u005a", "", "k", "k05VTVB", "\\", "\\\\k05VTVBZ", '\\"'):
        body = b'{"x":"' + text.encode() + b'","y":{"x":"' + text.encode() + b'"}}'
        if text != "\\":
            assert lawful(body, [X]).document == orjson.loads(body)


ODD = {
    "as Python 2 wrote it": b"{'descr': '<i2', 'fortran_order': False, 'shape': (2L, 3L), }",
    "one long dimension": b"{'descr': '<i2', 'fortran_order': False, 'shape': (6L,), }",
    "texts of Python 2": b"{u'descr': u'<i2', u'fortran_order': False, u'shape': (2, 3)}",
    "double quotes": b'{"descr": "<i2", "fortran_order": False, "shape": (2, 3)}',
    "another order": b"{'shape': (2, 3), 'fortran_order': False, 'descr': '<i2'}",
    "no space": b"{'descr':'<i2','fortran_order':False,'shape':(2,3)}",
    "much space": b" {\n'descr' :\t'<i2' ,\r\n 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , }   \n",
    "a name": b"{'descr': 'int16', 'fortran_order': False, 'shape': (2, 3)}",
    "a letter": b"{'descr': 'h', 'fortran_order': False, 'shape': (2, 3)}",
    "no order": b"{'descr': '|i2', 'fortran_order': False, 'shape': (2, 3)}",
    "the machine's order": b"{'descr': '=i2', 'fortran_order': False, 'shape': (2, 3)}",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("action", ["error", "default"])
def test_headers_of_other_writers_provoke_no_warning(name: str, action: Any) -> None:
    body = body_of(with_header(ODD[name], np.arange(6, dtype="<i2").tobytes()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        result = loads(body, [X])["x"]
    assert not caught
    assert result.dtype == np.int16
    assert result.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert lawful(body, [X], every_cut=60).error is None


@pytest.mark.parametrize("name", BROKEN)
def test_broken_headers_provoke_no_warning(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        assert outcome([body_of(BROKEN[name])], [X]).error is MalformedArray
    assert not caught


PIECES = [
    *(b"{ } ( ) , : 'descr' 'shape' 'fortran_order' True False u L 1 2 0 -1 1.0 None [ ] #".split(b" ")),
    *(b"'<i2' '>f4' '|b1' '<V2' '|O' '<M8[s]' 'int8' '?' (2,) (2,3) () (2) (2L,) '\\d' \\".split(b" ")),
    *(b" ", b"\n", b"\t", b'"', b"'", b"''"),
]


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Draw the header of a plain array with some of its tokens exchanged."""
    tokens = [*b"{ 'descr' : '<i2' , 'fortran_order' : False , 'shape' : (2,3) , }".split(b" ")]
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(tokens)))
        tokens[start : start + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(PIECES), max_size=2))
    return draw(st.sampled_from([b"", b" "])).join(tokens)


@given(headers(), st.sampled_from([1, 2, 3]))
def test_what_is_read_is_what_numpy_reads(header: bytes, version: int) -> None:
    ours = parse_header(header)
    file = with_header(header, version=version)
    read = npy_format.read_array_header_1_0 if version == 1 else npy_format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shape, fortran, dtype = read(io.BytesIO(file[8:]))
        except Exception:
            assert ours is None or dtype_of(ours.descr, None) is None
            return
    if ours is None:
        # Nothing that a writer sends: expressions, comments, texts in pieces.
        assert header.strip() not in (option.strip() for option in ODD.values())
        return
    assert (ours.shape, ours.fortran_order) == (shape, fortran)
    known = dtype_of(ours.descr, None)
    assert known == (dtype if dtype_name(dtype) is not None else None)


EXTENDED = [name for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2") if name in DTYPES]


@pytest.mark.parametrize("name", EXTENDED)
def test_dtypes_that_npy_files_do_not_name(name: str) -> None:
    dtype = DTYPES[name]
    array = np.arange(6).reshape(2, 3).astype(dtype)
    for order in ("C", "F"):
        body = body_of(npy_file(np.asarray(array, order=order)))
        result = loads(body, [Field("x", dtypes=(name,))])["x"]
        assert result.dtype == dtype
        assert np.array_equal(result, array)
        assert lawful(body, [Field("x", dtypes=(name,))], every_cut=60).error is None
        # They may be anything where the field leaves a choice.
        for dtypes in (None, (name, "float32"), ("float32",)):
            assert lawful(body, [Field("x", dtypes=dtypes)], every_cut=20).error is MalformedArray
        # The rewriter reads them alike.
        envelope = rewrite(body, [Field("x", dtypes=(name,), wires=("npy",))])
        assert b'"dtype":"%b"' % name.encode() in envelope
        assert np.array_equal(loads(envelope, [X])["x"], array)
        for dtypes in (None, (name, "float32"), ("float32",)):
            assert rewrite(body, [Field("x", dtypes=dtypes, wires=("npy",))]) == body


@pytest.mark.parametrize("code", ["<V2", "|V2", "V2"])
def test_two_bytes_of_anything_are_what_the_field_says_alone(code: str) -> None:
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    values = np.array([1.5, -2], dtype)
    header = b"{'descr': '%b', 'fortran_order': False, 'shape': (2,)}" % code.encode()
    result = loads(body_of(with_header(header, values.tobytes())), [Field("x", dtypes=("bfloat16",))])["x"]
    assert (result.dtype, result.tolist()) == (dtype, [1.5, -2])
    swapped = header.replace(code.encode(), b">V2")
    with pytest.raises(MalformedArray, match=r"is an npy file of dtype '>V2'"):
        loads(body_of(with_header(swapped, values.tobytes())), [Field("x", dtypes=("bfloat16",))])
