from __future__ import annotations

import base64
import functools
import mmap
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ndwire import Field, LimitExceeded, MalformedArray, Parser
from ndwire._buffers import array_buffer
from ndwire._buffers import reservation as memory
from ndwire._buffers.array_buffer import ArrayBuffer

KINDS = [memory.Heap, *([memory.Mapping] if sys.platform == "linux" else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_reservations_grow_and_shrink(kind: type[memory.Heap | memory.Mapping]) -> None:
    for final in (1, 4096, 70_000, 9_999_000, 10_000_000):
        reservation = kind(50_000)
        reservation.view[:3] = b"abc"
        reservation.resize(10_000_000, 3)
        assert bytes(reservation.view[:3]) == b"abc"
        reservation.view[3:10_000_000] = bytes(9_999_997)
        whole = np.frombuffer(reservation.finish(final), np.uint8)
        assert len(whole) == final
        assert bytes(whole[:3]) == b"abc"[:final]
        whole.flags.writeable = True
        whole[0] = 7


def test_a_heap_keeps_less_than_a_page() -> None:
    reservation = memory.Heap(5000)
    assert reservation.finish(4000).base is not None
    assert memory.Heap(50_000).finish(4000).base is None


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are for Linux")
def test_a_kernel_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 99_999)
    assert len(memory.Mapping(8 << 20).view) == 8 << 20


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("bound", [0, 3_000_000, 1_500_000, 100_000_000])
def test_large_arrays_on_every_platform(platform: str, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform != sys.platform == "linux":
        monkeypatch.setattr(sys, "platform", platform)
    buffer = ArrayBuffer("x", 0, bound=bound, limit=1 << 40, allocate=None)
    expected = np.arange(3_000_000, dtype=np.uint8).tobytes()
    for start in range(0, len(expected), 100_000):
        buffer.write(expected[start : start + 100_000])
    assert bytes(buffer.finish()) == expected


def test_the_lower_of_claim_and_limit_trips() -> None:
    for limit, exact, error in [(5, 7, LimitExceeded), (7, 5, MalformedArray), (5, 5, MalformedArray)]:
        buffer = ArrayBuffer("x", 0, bound=0, limit=limit, allocate=None, exact=exact)
        buffer.write(bytes(5))
        with pytest.raises(error):
            buffer.write(bytes(3))


def test_a_claim_caps_what_is_reserved() -> None:
    buffer = ArrayBuffer("x", 0, bound=0, limit=1 << 40, allocate=None, exact=1_200_000)
    for _ in range(12):
        buffer.write(bytes(100_000))
    assert len(buffer.finish()) == 1_200_000


@pytest.mark.skipif(sys.platform != "linux", reason="limits its addresses as Linux does")
def test_a_length_that_there_is_no_memory_for_is_no_error_while_less_comes() -> None:
    script = """
import resource
import numpy as np
from ndwire import Field, Limits, Parser, dumps
body = dumps({"x": np.arange(3_000_000, dtype=np.uint8)})
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
limits = Limits(array_bytes=1 << 40, total_array_bytes=1 << 40)
parser = Parser([Field("x")], content_length=10**11, limits=limits)
arrays = [ready.array for start in range(0, len(body), 65536) for ready in parser.feed(body[start : start + 65536])]
assert arrays[0].sum() == np.arange(3_000_000, dtype=np.uint8).sum()
try:
    parser.close()
except ValueError as error:
    print(type(error).__name__)
from ndwire._buffers.reservation import reserve
for growing in (False, True):
    try:
        reserve(1 << 40, growing=growing)
    except MemoryError:
        print("MemoryError")
reservation = reserve(40 << 20, growing=True)
try:
    reservation.resize(1 << 40, 0)
except MemoryError:
    print("MemoryError")
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["IncompleteBody", *["MemoryError"] * 3], result.stderr


def test_what_the_growing_reservation_has_no_memory_for_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def reserve(n_bytes: int, *, growing: bool) -> memory.Reservation:
        asked.append(growing)
        raise MemoryError

    monkeypatch.setattr(array_buffer, "reserve", reserve)
    buffer = ArrayBuffer("x", 0, bound=1 << 30, limit=1 << 40, allocate=None)
    with pytest.raises(MemoryError):
        buffer.write(bytes(2 << 20))
    assert asked == [False, True]


def plain(n_bytes: int) -> Any:
    return np.zeros(n_bytes + 64, np.uint8)


REFUSED: dict[str, tuple[Callable[[int], Any], str]] = {
    "nothing": (lambda n: None, "not None"),
    "bytes": (bytearray, "a uint8 array, not bytearray"),
    "another dtype": (lambda n: np.zeros(n, np.int8), "not one of int8"),
    "a masked array": (lambda n: np.ma.masked_array(plain(n), mask=False), "not <numpy.ma.MaskedArray>"),
    "a matrix": (lambda n: plain(n).view(np.matrix), "not <numpy.matrix>"),
    "too small": (lambda n: np.zeros(n - 1, np.uint8), "at least"),
    "strided": (lambda n: np.zeros(2 * n, np.uint8)[::2], "C-contiguous"),
    "read-only": (lambda n: np.frombuffer(bytes(n), np.uint8), "writable"),
    "unaligned": (lambda n: plain(n)[1:], "a multiple of 8 bytes"),
    "half aligned": (lambda n: plain(n)[4:], "a multiple of 8 bytes"),
}
VALUES = np.arange(2_000_000, dtype=np.float32)
FILE = b"\x93NUMPY\x01\x00v\x00" + b"{'descr':'>f4','fortran_order':True,'shape':(2,3)}".ljust(118) + bytes(24)
BODIES = {
    "an envelope": b'{"x":{"data":"AAAAAA==","shape":[1],"dtype":"float32"}}',
    "a large envelope": b'{"x":{"data":"%b","shape":[2000000],"dtype":"float32"}}' % base64.b64encode(VALUES.tobytes()),
    "a list": b'{"x":[1,2,3]}',
    "a Fortran-ordered npy file": b'{"x":"%b"}' % base64.b64encode(FILE),
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_allocate_may_not_return(kind: str, body: str) -> None:
    allocate, said = REFUSED[kind]
    for content_length in (None, len(BODIES[body])):
        parser = Parser([Field("x")], allocate=lambda name, n: allocate(n), content_length=content_length)
        with pytest.raises(TypeError, match=r"allocate\('x', \d+\) must return") as caught:
            parser.feed(BODIES[body])
        assert said in str(caught.value)


class Mine(np.ndarray[Any, Any]):
    pass


def the_same(buffer: Any, name: str, n_bytes: int) -> Any:
    return buffer


@pytest.mark.parametrize("body", BODIES)
def test_what_allocate_may_return(body: str, tmp_path: pathlib.Path) -> None:
    pages = np.memmap(tmp_path / "pages", np.uint8, "w+", shape=(9_000_000,))
    [expected] = Parser([Field("x")]).feed(BODIES[body])
    for given in (plain(9_000_000), pages, plain(9_000_000).view(Mine), plain(9_000_000).reshape(64, -1)):
        [event] = Parser([Field("x")], allocate=functools.partial(the_same, given)).feed(BODIES[body])
        assert type(event.array) is np.ndarray
        assert event.array.flags.aligned
        assert np.shares_memory(event.array, given)
        assert np.array_equal(event.array, expected.array)


def test_no_bytes_need_no_alignment() -> None:
    body = b'{"x":{"data":"","shape":[0],"dtype":"float64"}}'
    [event] = Parser([Field("x")], allocate=lambda name, n: plain(64)[1:1]).feed(body)
    assert event.array.shape == (0,)


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are for Linux")
def test_a_mapping_that_the_kernel_refuses_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryError, match="Cannot allocate"):
        memory.reserve(64 << 20, growing=True)
