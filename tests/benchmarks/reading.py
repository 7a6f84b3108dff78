"""Reading: figures of ``loads`` and ``Parser`` against the ways that people read such bodies today."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from benchmarks import bodies, rivals
from benchmarks.measure import Figure, Timing, in_turn, ratio
from ndwire import Field, Parser, loads

_MORE_FIELDS = tuple(Field(f"name_of_field_{number}", dtypes=("int16",)) for number in range(7))


def large_array(scale: float, rounds: int) -> Iterator[Figure]:
    """One array of 90 MiB: whole and in chunks, against everything else."""
    body = bodies.routed(scale)
    run = {
        "ndwire": functools.partial(rivals.ndwire_whole, body),
        "floor": functools.partial(rivals.floor, body),
        "bare": functools.partial(rivals.bare, body),
        "splice": functools.partial(rivals.splice, body),
        "splice with slices": functools.partial(rivals.splice_slices, body),
        "orjson, pybase64": functools.partial(rivals.parse_then_decode, body),
        "json, base64": functools.partial(rivals.json_then_base64, body),
        "msgspec, bytes": functools.partial(rivals.msgspec_bytes, body),
        "msgspec, Raw": functools.partial(rivals.msgspec_raw, body),
    }
    for size in (256, 64, 16, 4):
        run[f"{size} KiB"] = functools.partial(rivals.ndwire_chunks, body, body.chunks(size << 10))
    timings = in_turn(run, rounds, slow=("json, base64",))
    yield ratio("90 MiB array, whole / splice", timings, "ndwire", "splice", 0.42)
    yield ratio("90 MiB array, whole / splice with slices", timings, "ndwire", "splice with slices")
    yield ratio("90 MiB array, whole / orjson + pybase64", timings, "ndwire", "orjson, pybase64", 0.12)
    yield ratio("90 MiB array, whole / json + base64", timings, "ndwire", "json, base64")
    yield ratio("90 MiB array, whole / msgspec with bytes", timings, "ndwire", "msgspec, bytes")
    yield ratio("90 MiB array, whole / msgspec with Raw", timings, "ndwire", "msgspec, Raw")
    yield ratio("90 MiB array, whole / floor", timings, "ndwire", "floor", 1.6)
    # What no reader that decodes with pybase64 can do better than.
    yield ratio("90 MiB array, nothing but decoding and orjson / floor", timings, "bare", "floor")
    for size, bound in ((256, 1.6), (64, 2.0), (16, 3.3), (4, 6.0)):
        yield ratio(f"90 MiB array, chunks of {size} KiB / floor", timings, f"{size} KiB", "floor", bound)
    for name in ("floor", "splice", "splice with slices", "orjson, pybase64", "json, base64", "msgspec, bytes"):
        milliseconds = timings[name].median * 1000
        yield Figure(f"90 MiB array, {name}", milliseconds, "ms", spread=timings[name].spread)


def closing(scale: float, rounds: int) -> Iterator[Figure]:
    """What is left to do when the last chunk has come."""
    body = bodies.routed(scale)
    seconds: list[float] = []
    for _ in range(rounds):
        parser = Parser(body.fields, content_length=len(body.text))
        for chunk in body.chunks(256 << 10):
            parser.feed(chunk)
        start = time.perf_counter()
        document = parser.close()
        seconds.append(time.perf_counter() - start)
        del document
    timings = {
        "close": Timing(tuple(seconds)),
        **in_turn({"orjson": functools.partial(orjson.loads, body.remainder)}, rounds),
    }
    yield ratio("close() after the last chunk / orjson of the remainder", timings, "close", "orjson", 1.2)


def pushed(scale: float, rounds: int) -> Iterator[Figure]:
    """ijson is fed as well, but for its time, which grows with the square of a string: a tenth of the body."""
    body = bodies.routed(scale / 10)
    run = {
        "ndwire": functools.partial(rivals.ndwire_chunks, body, body.chunks(64 << 10)),
        "ijson": functools.partial(rivals.ijson_push, body, body.chunks(64 << 10)),
    }
    timings = in_turn(run, rounds, slow=("ijson",))
    yield ratio("9 MiB array, chunks of 64 KiB / ijson", timings, "ndwire", "ijson")


def many_arrays(scale: float, rounds: int) -> Iterator[Figure]:
    """10,000 arrays of 6 KiB in one body."""
    body = bodies.embeddings(scale)
    run = {
        "whole": functools.partial(rivals.ndwire_whole, body),
        "64 KiB": functools.partial(rivals.ndwire_chunks, body, body.chunks(64 << 10)),
        "splice": functools.partial(rivals.splice, body),
    }
    timings = in_turn(run, rounds)
    yield ratio("10,000 arrays, whole / splice", timings, "whole", "splice", 1.3)
    yield ratio("10,000 arrays, chunks of 64 KiB / splice", timings, "64 KiB", "splice", 1.6)


def experts(scale: float, rounds: int) -> Iterator[Figure]:
    """32k tokens x 48 layers x 8 experts as uint8, against the nested lists that servers send otherwise."""
    body = bodies.experts(scale)
    lists = bodies.experts_as_lists(scale / 4)
    run = {
        "ndwire": functools.partial(rivals.ndwire_whole, body),
        "splice": functools.partial(rivals.splice, body),
        "lists, ndwire": functools.partial(rivals.ndwire_whole, lists),
        "lists, orjson": functools.partial(rivals.parse_list, lists),
        "lists, json": functools.partial(rivals.json_list, lists),
    }
    timings = in_turn(run, rounds, slow=("lists, orjson", "lists, json"))
    yield ratio("32k x 48 x 8 uint8, whole / splice", timings, "ndwire", "splice")
    yield ratio("8k x 48 x 8 as lists, ndwire / orjson + np.array", timings, "lists, ndwire", "lists, orjson", 0.3)
    yield ratio("8k x 48 x 8 as lists, ndwire / json + np.array", timings, "lists, ndwire", "lists, json")


def other_json(scale: float, rounds: int) -> Iterator[Figure]:
    """33 MB of other JSON and one small array."""
    body = bodies.remainder_heavy(scale)
    run = {
        "whole": functools.partial(rivals.ndwire_whole, body),
        "8 fields": functools.partial(loads, body.text, (*body.fields, *_MORE_FIELDS)),
        "orjson": functools.partial(orjson.loads, body.remainder),
    }
    timings = in_turn(run, rounds)
    yield ratio("33 MB of other JSON, whole / orjson of it", timings, "whole", "orjson", 1.25)
    yield ratio("33 MB of other JSON, 8 fields / 1 field", timings, "8 fields", "whole", 1.1)


def lists(scale: float, rounds: int) -> Iterator[Figure]:
    """Nested lists of numbers, with pysimdjson where it is installed."""
    for kind, bound in (("integers", 0.3), ("decimals", 0.3), ("token ids", 0.55), ("doubles", 0.65)):
        body = bodies.nested(kind, scale)
        run = {
            "ndwire": functools.partial(rivals.ndwire_whole, body),
            "orjson": functools.partial(rivals.parse_list, body),
        }
        yield ratio(f"a list of {kind} / orjson + np.array", in_turn(run, rounds), "ndwire", "orjson", bound)
    body = bodies.ordinary_list(scale)
    run = {
        "ndwire": functools.partial(rivals.ndwire_whole, body),
        "orjson": functools.partial(orjson.loads, body.text),
    }
    yield ratio("a list that is no array / orjson", in_turn(run, rounds), "ndwire", "orjson", 1.3)


def huge(scale: float, rounds: int) -> Iterator[Figure]:
    """1 GiB of array takes as long for each byte as 16 MiB do."""
    run: dict[str, Callable[[], Any]] = {}
    lengths: dict[str, int] = {}
    for name, size in (("1 GiB", 1 << 30), ("16 MiB", 1 << 24)):
        body = bodies.flat(max(int(size * scale), 1 << 10))
        run[name] = functools.partial(rivals.ndwire_chunks, body, body.chunks(256 << 10))
        lengths[name] = len(body.text)
        run[f"{name}, copied"] = functools.partial(rivals.floor, body)
        lengths[f"{name}, copied"] = len(body.text)
    timings = in_turn(run, max(rounds // 2, 1))
    per_byte = {name: Timing(tuple(s / lengths[name] for s in timing.seconds)) for name, timing in timings.items()}
    figure = ratio("time for each byte, 1 GiB / 16 MiB", per_byte, "1 GiB", "16 MiB", 1.15)
    yield dataclasses.replace(figure, milliseconds=timings["1 GiB"].median * 1000)
    copied = ratio("the same of copying: fresh memory costs more", per_byte, "1 GiB, copied", "16 MiB, copied")
    yield dataclasses.replace(copied, milliseconds=timings["1 GiB, copied"].median * 1000)


def tiny(rounds: int) -> Figure:
    """Measure what ``loads`` adds to ``orjson.loads`` for a tiny body without arrays."""
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
    microseconds = (least["ndwire"] - least["orjson"]) * 1e6
    return Figure("tiny body without arrays, loads - orjson.loads", microseconds, "µs", 1.0)


def figures(scale: float, rounds: int) -> Iterator[Figure]:
    """Measure everything."""
    for measure in (large_array, closing, pushed, many_arrays, experts, other_json, lists, huge):
        yield from measure(scale, rounds)
    yield tiny(rounds)
