"""The benchmarks run once, tiny, so that they cannot rot; what they promise is held against generous bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import bodies, rivals
from benchmarks.bodies import Body
from benchmarks.figures import all_figures, large_array, lists, many_arrays, tiny


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


@pytest.mark.timed
def test_speed_of_a_large_array() -> None:
    figures = {figure.what: figure.least for figure in large_array(0.3, 5)}
    assert figures["90 MiB array, whole / splice with views"] < 1.0
    assert figures["90 MiB array, whole / orjson, then pybase64"] < 0.25
    assert figures["90 MiB array, whole / floor"] < 2.5
    assert figures["90 MiB array, chunks of 64 KiB / floor"] < 3.2


@pytest.mark.parametrize("kind", ["integers", "decimals", "token ids", "doubles"])
def test_lists_are_read_as_numpy_reads_them(kind: str) -> None:
    body = bodies.nested(kind, 0.002)
    expected = rivals.parse_list(body)
    found = rivals.ndwire_whole(body)["x"]
    assert found.dtype in [np.dtype(name) for name in body.fields[0].dtypes or ()]
    assert np.array_equal(found, expected.astype(found.dtype))


def test_an_ordinary_list_stays_one() -> None:
    assert rivals.ndwire_whole(bodies.ordinary_list(0.001))["x"][-1] == [1]


@pytest.mark.timed
def test_speed_of_lists() -> None:
    pytest.importorskip("simdjson")
    for figure in lists(0.3, 5):
        assert figure.least < figure.at_most * 1.3, figure


@pytest.mark.timed
def test_speed_of_many_arrays() -> None:
    figures = {figure.what: figure.least for figure in many_arrays(0.3, 5)}
    assert figures["10,000 arrays, chunks of 64 KiB / whole"] < 2.2
