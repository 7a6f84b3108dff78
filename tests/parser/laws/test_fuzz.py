"""The fuzzers, for a moment each; ``make fuzz`` runs them for as long as one likes."""

from __future__ import annotations

import base64
import json
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ndwire
from fuzz.book import LAWS
from fuzz.hunt import Law, hunt
from fuzz.known import cases
from fuzz.laws import law
from fuzz.linear.measure import Text, slow
from fuzz.reference.documents import Refused, meaning
from ndwire import Field
from support.vectors import ROOT

QUICK = {held.name: held for held in LAWS if not held.timed}
VECTORS = [
    pytest.param(case, id=f"{name}-{case['id']}")
    for name in ("envelope", "envelope_errors", "npy", "raw", "nested", "numbers")
    for case in json.loads((ROOT / "vectors" / f"{name}.json").read_text())
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", cases(*QUICK))
def test_the_law_holds(name: str, seed: int) -> None:
    chance = random.Random(seed)
    held = QUICK[name]
    for _ in range(held.n_in_tests):
        body = held.write(chance)
        held.check(body, random.Random(chance.getrandbits(32)))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([b'"', b"\\", b"{", b"}", b":", b'"a"', b'"data":"', b"A", b"=", b" ", b"u0061"]), max_size=25
    ),
    st.integers(0, 99),
)
def test_soup(tokens: list[bytes], seed: int) -> None:
    law(b'{"a":' + b"".join(tokens), random.Random(seed))


@pytest.mark.parametrize("case", VECTORS)
def test_the_reference_agrees_with_the_vectors(case: dict[str, Any]) -> None:
    body: bytes = case["body"].encode() if "body" in case else base64.b64decode(case["body_base64"])
    fields = [Field(**arguments) for arguments in case["fields"]]
    expect = case["expect"]
    result = meaning(body, fields)
    if "error" in expect:
        assert isinstance(result, Refused)
        kind = getattr(ndwire, expect["error"])
        assert any(issubclass(kind, wanted) for wanted in result.kinds)
        assert result.offset is None or result.offset == expect.get("offset", result.offset)
    else:
        assert not isinstance(result, Refused)
        assert result.document == expect["value"]


def test_what_breaks_a_law_is_made_small() -> None:
    def no_seven(body: bytes, chance: random.Random) -> None:
        assert b"7" not in body, f"a seven: {body!r}"

    held = Law("never", lambda chance: chance.choice([b"[1,2,3,4,5,6]", b'{"a":[5,6,7,8]}']), no_seven)
    tallies, findings = hunt([held], random.Random(1), 0.1)
    assert [finding.body for finding in findings] == [b"7"]
    assert "a seven" in str(findings[0])
    assert tallies["never"].n_bodies > 1


def test_what_takes_the_square_of_the_time_is_told_from_what_does_not() -> None:
    text = Text(b"[", b"1,", foot=b"1]")
    assert text.of(2) == b"[1,1,1]"

    def spend(seconds: float) -> None:
        stop = time.thread_time() + seconds
        while time.thread_time() < stop:
            pass

    assert slow(text.of, lambda body: spend(len(body) * 2e-6)) is None
    found = slow(text.of, lambda body: spend(len(body) ** 2 * 1e-9))
    assert found is not None
    assert "times" in str(found)
