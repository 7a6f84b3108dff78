"""The fuzzers, for a moment each; ``make fuzz`` runs them for as long as one likes."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.generate import mutated, seeds, written
from fuzz.laws import law, paths_agree, windows_agree

BODIES = seeds()


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32))
def test_mutated_bodies(seed: int) -> None:
    chance = random.Random(seed)
    body = mutated(chance, BODIES)
    law(body, chance)
    paths_agree(body, chance)
    windows_agree(body, chance)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_written_documents(seed: int) -> None:
    chance = random.Random(seed)
    body = written(chance)
    law(body, chance)
    paths_agree(body, chance)
    windows_agree(body, chance)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([b'"', b"\\", b"{", b"}", b":", b'"a"', b'"data":"', b"A", b"=", b" ", b"u0061"]), max_size=25
    ),
    st.integers(0, 99),
)
def test_soup(tokens: list[bytes], seed: int) -> None:
    law(b'{"a":' + b"".join(tokens), random.Random(seed))
