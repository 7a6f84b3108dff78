"""Resident memory, each measurement in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.timed, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

PRELUDE = """
import numpy as np, orjson
from ndwire import Field, Parser, dumps, iter_dumps
def resident(key="VmRSS"):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
def reset():
    open("/proc/self/clear_refs", "w").write("5")
def peak():
    return resident("VmHWM")
"""


def run(code: str) -> int:
    """Return the number that ``code`` prints."""
    script = PRELUDE + textwrap.dedent(code)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


LARGE = """
tokens = 122880
rest = {"token_ids": list(range(tokens)), "logprobs": [k / 7 for k in range(tokens)]}
routes = np.ones((tokens, 48, 8), np.int16)
"""


@pytest.mark.parametrize("step", [65536, 1 << 20])
def test_a_large_array_of_known_length(step: int) -> None:
    parsed = run(
        LARGE
        + """
text = orjson.dumps({"choices": [rest]})
before = resident(); reset()
document = orjson.loads(text)
print(peak() - before)
"""
    )
    added = run(
        LARGE
        + f"""
dump = iter_dumps({{"choices": [{{**rest, "routed_experts": routes}}]}}, piece_bytes={step})
parser = Parser([Field("routed_experts")], content_length=dump.content_length)
pieces = iter(dump)
parser.feed(next(pieces))
before = resident(); reset()
for piece in pieces:
    parser.feed(piece)
document = parser.close()
assert document["choices"][0]["routed_experts"].sum() == routes.size
print(peak() - before)
"""
    )
    assert added <= 90 * 2**20 + parsed + (8 << 20)


def test_a_large_array_of_unknown_length() -> None:
    added = run(
        LARGE
        + """
dump = iter_dumps({"choices": [{"routed_experts": routes}]}, piece_bytes=65536)
parser = Parser([Field("routed_experts")])
before = resident(); reset()
for piece in dump:
    parser.feed(piece)
document = parser.close()
print(peak() - before)
"""
    )
    assert added <= (90 + 50) * 2**20


def test_many_arrays_that_the_chunks_cut() -> None:
    added = run("""
vectors = np.random.default_rng(0).standard_normal((10000, 1536)).astype(np.float32)
body = dumps({"data": [{"index": k, "embedding": vectors[k]} for k in range(10000)]})
parser = Parser([Field("embedding")], content_length=len(body))
before = resident(); reset()
for start in range(0, len(body), 65536):
    parser.feed(body[start : start + 65536])
document = parser.close()
assert np.array_equal(document["data"][-1]["embedding"], vectors[-1])
print(peak() - before)
""")
    arrays = 10_000 * 1536 * 4
    remainder = 10_000 * 500
    assert added <= 1.25 * (arrays + remainder)
