"""The benchmarks run once, tiny, so that they cannot rot; what they promise is held against generous bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks import bodies, rivals
from benchmarks.bodies import Body
from benchmarks.figures import Figure, all_figures, large_array, lists, many_arrays, tiny


def test_they_run() -> None:
    figures = list(all_figures(scale=0.002, rounds=1))
    assert len(figures) == 16
    assert all(figure.value > 0 for figure in figures)
    assert tiny(1) < 100


@pytest.mark.parametrize("make", [bodies.routed, bodies.embeddings, bodies.remainder_heavy])
def test_all_rivals_read_the_same(make: Callable[[float], Body]) -> None:
    body = make(0.002)
    documents: list[Any] = [
        rivals.ndwire_whole(body),
        rivals.ndwire_chunks(body, body.chunks(1000)),
        rivals.splice(body),
        rivals.parse_then_decode(body),
    ]
    if len(body.arrays) == 1:
        documents.append(rivals.splice_slices(body))
    for document in documents:
        holders = document["choices"] if "choices" in document else document["data"]
        for holder, array in zip(holders, body.arrays, strict=True):
            assert np.array_equal(holder[body.name], array)
            assert holder[body.name].dtype == array.dtype
    assert all(np.array_equal(a, b) for a, b in zip(rivals.floor(body)[0], body.arrays, strict=True))


def held(measure: Callable[[], Iterable[Figure]], bounds: dict[str, float]) -> None:
    """Measure up to five times; a machine that is busy with other things now may not be so a second later."""
    least: dict[str, float] = {}
    for _ in range(5):
        for figure in measure():
            least[figure.what] = min(least.get(figure.what, figure.least), figure.least)
        if all(least[what] <= bound for what, bound in bounds.items()):
            return
    assert {what: (least[what], bound) for what, bound in bounds.items() if least[what] > bound} == {}


@pytest.mark.timed
def test_speed_of_a_large_array() -> None:
    held(
        lambda: large_array(1.0, 3),
        {
            "90 MiB array, whole / splice with views": 0.8,
            "90 MiB array, whole / orjson, then pybase64": 0.22,
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
    held(lambda: many_arrays(0.3, 4), {"10,000 arrays, chunks of 64 KiB / whole": 2.2})
