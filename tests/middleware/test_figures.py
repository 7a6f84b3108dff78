"""What the middleware costs in time and memory; ``make bench`` prints the figures themselves."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

from benchmarks.serving import overhead, small_lists, stall, throughput


def test_they_run() -> None:
    cost = overhead(rounds=1, requests=5)
    assert cost.bare > 0
    assert throughput(small_lists(10, 1000), rounds=1) > 0
    for whole in (True, False):
        assert stall(500, whole=whole).n_bytes > 500_000


def held(measure: Callable[[], float], at_most: float) -> None:
    """Measure up to five times: a machine that is busy now may not be so a second later."""
    least = float("inf")
    for _ in range(5):
        least = min(least, measure())
        if least <= at_most:
            return
    assert least <= at_most


# Twice of what is promised, for machines that are slow or busy.


@pytest.mark.timed
def test_cost_of_a_request_that_does_not_ask() -> None:
    held(lambda: overhead().unasked, 8)


@pytest.mark.timed
def test_cost_of_a_response_without_arrays() -> None:
    # The request's tags and ranges, the declared length and the budget of all responses are looked at as well.
    held(lambda: overhead().asked, 45)


@pytest.mark.timed
def test_speed_of_small_lists() -> None:
    held(lambda: 1 / throughput(small_lists(300)), 1 / 30)


@pytest.mark.timed
@pytest.mark.parametrize("whole", [True, False])
def test_the_loop_goes_on(whole: bool) -> None:
    pytest.importorskip("simdjson")
    held(lambda: stall(whole=whole).milliseconds, 30)


PRELUDE = """
import asyncio, sys
from ndwire import Field
from ndwire_asgi import NDArrayMiddleware
def resident(key):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
def measure(messages, clients=1, **options):
    sent = 0
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for message in messages:
            message = bytes(memoryview(message))  # a copy, as apps send new text each time
            await send({"type": "http.response.body", "body": message, "more_body": True})
            if clients > 1:
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})
    async def send(message):
        nonlocal sent
        sent += len(message.get("body", b""))
    async def run():
        fields = [Field("x", dtypes=("uint8", "int16"))]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"prefer", b"ndarray=envelope")]}
        middleware = NDArrayMiddleware(app, fields, **options)
        await asyncio.gather(*(middleware(dict(scope), None, send) for _ in range(clients)))
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    asyncio.run(run())
    print(resident("VmHWM") - before, sent)
"""


def run(code: str) -> tuple[int, int]:
    """Return the bytes of memory that were added, and the bytes that were sent."""
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    added, sent = result.stdout.split()
    return int(added), int(sent)


@pytest.mark.timed
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_long_body_with_small_arrays() -> None:
    added, sent = run(
        """
        piece = b'{"x":[1,2,3,400],"text":"%b"},' % (b"a word and another " * 3450)
        measure([b"["] + [piece] * (2 ** 30 // len(piece)) + [b"0]"], max_hold_bytes=1 << 20)
        """
    )
    assert sent > 2**30
    assert added <= (1 << 20) + (8 << 20)


@pytest.mark.timed
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_list_that_may_not_be_held() -> None:
    added, sent = run(
        """
        piece = b"17," * 20000
        measure([b'{"x":['] + [piece] * 4000 + [b"0]}"], max_hold_bytes=16 << 20)
        """
    )
    assert sent == 4000 * 60000 + 9
    assert added <= (16 << 20) + (8 << 20)


# Lists of 30 MiB, which may be held, and of 100 MB, which may not.
@pytest.mark.timed
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("clients", "messages", "mebibytes"), [(4, 1600, 200), (1, 520, 100), (4, 520, 300), (16, 520, 500)]
)
def test_memory_on_request(clients: int, messages: int, mebibytes: int) -> None:
    added, sent = run(
        f"""
        piece = b"17," * 20000
        measure([b'{{"x":['] + [piece] * {messages} + [b"0]}}"], clients={clients})
        """
    )
    assert sent > clients * messages * 20000
    assert added <= mebibytes << 20
