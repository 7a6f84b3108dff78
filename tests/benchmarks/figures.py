"""The figures: each a ratio between rivals that took turns in one run."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator

import orjson

from benchmarks import bodies, rivals
from benchmarks.measure import Timing, in_turn
from ndwire import loads


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured ratio.

    Attributes:
        what: What was measured against what.
        value: The ratio of the medians.
        least: The ratio of the least times.
        at_most: What it is to be at the most.
        spread: The wider of the two spreads, as a part of the median.
        milliseconds: The median of the first of the two.
    """

    what: str
    value: float
    least: float
    at_most: float
    spread: float
    milliseconds: float


def _ratio(what: str, timings: dict[str, Timing], left: str, right: str, at_most: float) -> Figure:
    a, b = timings[left], timings[right]
    spread = max(a.spread, b.spread)
    return Figure(what, a.median / b.median, a.least / b.least, at_most, spread, a.median * 1000)


def large_array(scale: float, rounds: int) -> Iterator[Figure]:
    """One array of 90 MiB: whole and in chunks, against splicing, parsing first, and the floor."""
    body = bodies.routed(scale)
    run = {
        "whole": functools.partial(rivals.ndwire_whole, body),
        "floor": functools.partial(rivals.floor, body),
        "splice": functools.partial(rivals.splice, body),
        "slices": functools.partial(rivals.splice_slices, body),
        "parse": functools.partial(rivals.parse_then_decode, body),
    }
    for size in (256, 64, 16, 4):
        run[f"{size} KiB"] = functools.partial(rivals.ndwire_chunks, body, body.chunks(size << 10))
    timings = in_turn(run, rounds)
    yield _ratio("90 MiB array, whole / splice with views", timings, "whole", "splice", 0.5)
    yield _ratio("90 MiB array, whole / splice with slices", timings, "whole", "slices", 0.5)
    yield _ratio("90 MiB array, whole / orjson, then pybase64", timings, "whole", "parse", 0.15)
    yield _ratio("90 MiB array, whole / floor", timings, "whole", "floor", 1.8)
    for size, at_most in ((256, 1.8), (64, 2.5), (16, 4.0), (4, 8.0)):
        yield _ratio(f"90 MiB array, chunks of {size} KiB / floor", timings, f"{size} KiB", "floor", at_most)


def many_arrays(scale: float, rounds: int) -> Iterator[Figure]:
    """10,000 arrays of 6 KiB in one body."""
    body = bodies.embeddings(scale)
    run = {
        "whole": functools.partial(rivals.ndwire_whole, body),
        "64 KiB": functools.partial(rivals.ndwire_chunks, body, body.chunks(64 << 10)),
        "splice": functools.partial(rivals.splice, body),
    }
    timings = in_turn(run, rounds)
    yield _ratio("10,000 arrays, whole / splice with views", timings, "whole", "splice", 1.3)
    yield _ratio("10,000 arrays, chunks of 64 KiB / whole", timings, "64 KiB", "whole", 2.0)


def other_json(scale: float, rounds: int) -> Iterator[Figure]:
    """33 MB of other JSON and one small array."""
    body = bodies.remainder_heavy(scale)
    run = {
        "whole": functools.partial(rivals.ndwire_whole, body),
        "orjson": functools.partial(orjson.loads, body.remainder),
    }
    yield _ratio("33 MB of other JSON, whole / orjson of it", in_turn(run, rounds), "whole", "orjson", 1.35)


def lists(scale: float, rounds: int) -> Iterator[Figure]:
    """Nested lists of numbers, with pysimdjson where it is installed."""
    for kind, at_most in (("integers", 0.33), ("decimals", 0.33), ("token ids", 0.6), ("doubles", 0.7)):
        body = bodies.nested(kind, scale)
        run = {
            "ndwire": functools.partial(rivals.ndwire_whole, body),
            "orjson": functools.partial(rivals.parse_list, body),
        }
        yield _ratio(f"a list of {kind} / orjson + np.array", in_turn(run, rounds), "ndwire", "orjson", at_most)
    body = bodies.ordinary_list(scale)
    run = {
        "ndwire": functools.partial(rivals.ndwire_whole, body),
        "orjson": functools.partial(orjson.loads, body.text),
    }
    yield _ratio("a list that is no array / orjson", in_turn(run, rounds), "ndwire", "orjson", 1.3)


def tiny(rounds: int) -> float:
    """Return the microseconds that ``loads`` adds to ``orjson.loads`` for a tiny body without arrays."""
    fields = bodies.routed(0.0001).fields
    least = {"ndwire": float("inf"), "orjson": float("inf")}
    for _ in range(rounds * 5):
        start = time.perf_counter()
        for _ in range(2000):
            orjson.loads(bodies.TINY)
        middle = time.perf_counter()
        for _ in range(2000):
            loads(bodies.TINY, fields)
        end = time.perf_counter()
        least["orjson"] = min(least["orjson"], (middle - start) / 2000)
        least["ndwire"] = min(least["ndwire"], (end - middle) / 2000)
    return (least["ndwire"] - least["orjson"]) * 1e6


def all_figures(scale: float = 1.0, rounds: int = 7) -> Iterator[Figure]:
    """Measure everything."""
    yield from large_array(scale, rounds)
    yield from many_arrays(scale, rounds)
    yield from other_json(scale, rounds)
    yield from lists(scale, rounds)
