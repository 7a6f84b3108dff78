from __future__ import annotations

import mmap
import subprocess
import sys

import numpy as np
import pytest

from ndwire import LimitExceeded, MalformedArray, _buffers
from ndwire import _memory as memory
from ndwire._buffers import ArrayBuffer

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
from ndwire._memory import reserve
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

    monkeypatch.setattr(_buffers, "reserve", reserve)
    buffer = ArrayBuffer("x", 0, bound=1 << 30, limit=1 << 40, allocate=None)
    with pytest.raises(MemoryError):
        buffer.write(bytes(2 << 20))
    assert asked == [False, True]
