"""Resident memory while a body streams in, in a process for each: what it takes beyond the arrays and the document."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Figure

_SCRIPT = """
import sys
import numpy as np, orjson
from ndwire import Field, Parser, iter_dumps
tokens, known = int(sys.argv[1]), sys.argv[2] == "known"
def resident(key):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
def reset():
    open("/proc/self/clear_refs", "w").write("5")
rest = {"token_ids": list(range(tokens)), "logprobs": [k / 7 for k in range(tokens)]}
text = orjson.dumps({"choices": [rest]})
orjson.loads(text)
before = resident("VmRSS"); reset()
document = orjson.loads(text)
parsed = resident("VmHWM") - before
del document
routes = np.ones((tokens, 48, 8), np.int16)
dump = iter_dumps({"choices": [{**rest, "routed_experts": routes}]}, piece_bytes=65536)
parser = Parser([Field("routed_experts")], content_length=dump.content_length if known else None)
pieces = iter(dump)
parser.feed(next(pieces))
before = resident("VmRSS"); reset()
for piece in pieces:
    parser.feed(piece)
document = parser.close()
print(resident("VmHWM") - before - routes.nbytes - parsed)
"""


def figures(tokens: int = 122_880) -> Iterator[Figure]:
    """Measure both."""
    if sys.platform != "linux":
        return
    for known, bound in (("known", 4.0), ("unknown", 50.0)):
        arguments = [sys.executable, "-c", _SCRIPT, str(tokens), known]
        result = subprocess.run(arguments, capture_output=True, text=True, check=True)
        what = f"memory beyond arrays and document, length {known}"
        yield Figure(what, int(result.stdout) / 2**20, "MiB", bound)
