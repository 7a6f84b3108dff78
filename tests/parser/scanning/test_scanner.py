"""The scanner alone: every byte goes out once and in order, to a sink that knows no parser."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.generate import REGISTRIES, mutated, seeds, written
from ndwire import Field
from ndwire._scanning.registry import registry_of
from support.chunking import lawful, partition
from support.sinks import Recorder, scan

BODIES = seeds()


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_byte_goes_out_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    body = mutated(chance, BODIES if chance.random() < 0.5 else [written(chance) or b"[]"])
    registry = registry_of(chance.choice(REGISTRIES))
    cuts = [chance.randrange(len(body) + 1) for _ in range(4)]
    for takes_lists in (True, False):
        results = [
            scan(chunks, registry, Recorder(passes_envelopes=passes_envelopes, takes_lists=takes_lists))
            for passes_envelopes in (True, False)
            for chunks in ([body], [body[k : k + 1] for k in range(len(body))], partition(body, cuts))
        ]
        assert all(result.body == body for result in results)
        assert all(result.told == results[0].told for result in results)


@pytest.mark.parametrize(
    "text",
    [
        b"[1,2,3]",
        b"[[1,2],[3,4]]",
        b"[" + b"[1,2],[3]," * 30_000 + b"[4]]",
        b"[[" + b"1," * 200_000 + b"2],[3]]",
        b"[" * 70 + b"]" * 70,
        b"[  [1]  ,\n[2] ]",
        b"[" + b" " * 300_000 + b"[1]]",
    ],
)
@pytest.mark.parametrize("step", [1000, 70_000, 1 << 30])
def test_lists_end_where_their_brackets_balance(text: bytes, step: int) -> None:
    body = b'{"x":' + text + b',"y":[1],"x":[2]}'
    sink = scan([body[k : k + step] for k in range(0, len(body), step)], registry_of([Field("x")]), Recorder())
    assert sink.body == body
    assert sink.told == [("numbers", 5, text), ("numbers", len(body) - 4, b"[2]")]


def test_an_opening_under_a_field_that_reads_no_envelopes_is_ordinary_wherever_it_is_cut() -> None:
    fields = [Field("x", wires=(), raw_dtype="int8"), Field("data", dtypes=("int8",))]
    body = b'{"x" : {"data" : "" ,"shape":[0]},"y":{"x":{"data":"a","x":"AQ=="}}}'
    document = lawful(body, fields).document
    assert document["x"] == {"data": "", "shape": [0]}
    assert document["y"]["x"]["x"] == {"$ndarray": {"dtype": "int8", "shape": [1], "hex": "01"}}
