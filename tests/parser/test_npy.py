from __future__ import annotations

import base64
import io
import itertools
import warnings
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ndwire import Field, LimitExceeded, Limits, MalformedArray, Parser, loads
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
    "an old long integer": with_header(b"{'descr': '<i2', 'shape': (1L,), 'fortran_order': False", b"\0\0"),
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
