"""The benchmarks run once, tiny, so that they cannot rot; what they promise is held against generous bounds."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as bench
from benchmarks import bodies, endtoend, memory, reading, rivals, serving, writing
from benchmarks.bodies import Body
from benchmarks.measure import Figure, Timing, ratio
from benchmarks.reading import large_array, lists, many_arrays


def test_reading_runs() -> None:
    figures = list(reading.figures(scale=0.002, rounds=1))
    assert len(figures) == 35
    assert all(figure.value > 0 for figure in figures[:-1])


def test_writing_and_serving_run() -> None:
    assert len(list(writing.figures(scale=0.002, rounds=1))) == 4
    assert len(list(serving.figures(scale=0.01))) == 11


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_runs() -> None:
    assert len(list(memory.figures(tokens=200))) == 2


def test_end_to_end_runs() -> None:
    figures = list(endtoend.figures(tokens=200, rounds=1, at_once=2))
    assert len(figures) == 70
    traces = endtoend.trace(tokens=200)
    assert set(traces) == {endtoend.NDWIRE, endtoend.SPLICE, endtoend.ORJSON}
    assert all(samples[0][1] == 0 for samples in traces.values())
    assert len(list(endtoend.peaks(traces, "one"))) == 5


def test_the_command(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--scale", "0.001", "--rounds", "1", "--out", str(tmp_path / "new")])
    few = [Figure(what, 1.0, "ms") for what in bench.TIMES.values()]
    for module in (memory, writing, serving, endtoend):
        monkeypatch.setattr(module, "figures", lambda *_: [])
    monkeypatch.setattr(reading, "figures", lambda *_: few)
    ways = (endtoend.NDWIRE, endtoend.SPLICE, endtoend.ORJSON)
    monkeypatch.setattr(endtoend, "trace", lambda *_: {way: [(0.0, 0), (1.0, 5)] for way in ways})
    bench.main()
    report = json.loads((tmp_path / "new" / "benchmarks.json").read_text())
    names = [figure["what"] for figure in report["figures"]]
    assert names[: len(bench.TIMES)] == list(bench.TIMES.values())
    assert len(names) == len(bench.TIMES) + 10
    assert report["machine"]["numpy"] == np.__version__
    for name in ("time.svg", "memory.svg"):
        assert "<svg" in (tmp_path / "new" / name).read_text()
    assert "0 of 0 bounds are met" in capsys.readouterr().out


def test_figures_know_whether_they_are_met() -> None:
    assert Figure("x", 1.0).is_met
    assert Figure("x", 1.0, bound=1.0).is_met
    assert not Figure("x", 1.1, bound=1.0).is_met
    assert Figure("x", 70, "MB/s", 60).is_met
    assert not Figure("x", 50, "MB/s", 60).is_met
    timings = {"a": Timing((1.0, 2.0, 9.0)), "b": Timing((4.0, 4.0, 4.0))}
    assert (ratio("x", timings, "a", "b").value, ratio("x", timings, "a", "b").least) == (0.5, 0.25)


@pytest.mark.parametrize("make", [bodies.routed, bodies.embeddings, bodies.remainder_heavy, bodies.experts])
def test_all_rivals_read_the_same(make: Callable[[float], Body]) -> None:
    body = make(0.002)
    documents: list[Any] = [
        rivals.ndwire_whole(body),
        rivals.ndwire_chunks(body, body.chunks(1000)),
        rivals.splice(body),
        rivals.parse_then_decode(body),
        rivals.json_then_base64(body),
    ]
    if len(body.arrays) == 1:
        documents += [rivals.splice_slices(body), rivals.ijson_push(body, body.chunks(1000))]
    for document in documents:
        holders = document["choices"] if "choices" in document else document["data"]
        for holder, array in zip(holders, body.arrays, strict=True):
            assert np.array_equal(holder[body.name], array)
            assert holder[body.name].dtype == array.dtype
    assert all(np.array_equal(a, b) for a, b in zip(rivals.floor(body)[0], body.arrays, strict=True))
    assert np.array_equal(rivals.bare(body)[0], body.arrays[0])


def test_msgspec_reads_the_same() -> None:
    body = bodies.routed(0.001)
    for read in (rivals.msgspec_bytes, rivals.msgspec_raw):
        document, arrays = read(body)
        assert len(document.choices[0].token_ids) == len(arrays[0])
        assert np.array_equal(arrays[0], body.arrays[0])


def held(measure: Callable[[], Iterable[Figure]], bounds: dict[str, float]) -> None:
    """Measure up to five times; a machine that is busy with other things now may not be so a second later."""
    least: dict[str, float] = {}
    for _ in range(5):
        for figure in measure():
            if figure.least is not None:
                least[figure.what] = min(least.get(figure.what, figure.least), figure.least)
        if all(least[what] <= bound for what, bound in bounds.items()):
            return
    assert {what: (least[what], bound) for what, bound in bounds.items() if least[what] > bound} == {}


@pytest.mark.timed
def test_speed_of_a_large_array() -> None:
    held(
        lambda: large_array(1.0, 3),
        {
            "90 MiB array, whole / splice": 0.8,
            "90 MiB array, whole / orjson + pybase64": 0.22,
            "90 MiB array, whole / floor": 2.2,
            "90 MiB array, chunks of 64 KiB / floor": 2.8,
        },
    )


@pytest.mark.timed
def test_speed_of_lists() -> None:
    pytest.importorskip("simdjson")
    kinds = {"integers": 0.33, "decimals": 0.33, "token ids": 0.6, "doubles": 0.7}
    bounds = {f"a list of {kind} / orjson + np.array": 1.3 * bound for kind, bound in kinds.items()}
    held(lambda: lists(0.3, 4), {**bounds, "a list that is no array / orjson": 1.5})


@pytest.mark.timed
def test_speed_of_many_arrays() -> None:
    held(lambda: many_arrays(0.3, 4), {"10,000 arrays, chunks of 64 KiB / splice": 2.2})
