"""Real bodies off a real server."""

from __future__ import annotations

import random

import orjson
import pytest

from ndwire import Field
from support.chunking import outcome, partition
from support.vectors import RECORDINGS, recording

BODIES = sorted(path.name for path in RECORDINGS.glob("*.json") if "truth" not in path.name)


@pytest.mark.parametrize("name", BODIES)
def test_bodies_without_envelopes_parse_to_what_orjson_gives(name: str) -> None:
    body = recording(name)
    fields = [Field("routed_experts", wires=("envelope",)), Field("data", wires=("envelope",))]
    chance = random.Random(name)
    for chunks in (
        [body],
        [body[k : k + 1] for k in range(len(body))],
        *(partition(body, [chance.randrange(len(body)) for _ in range(6)]) for _ in range(20)),
    ):
        assert outcome(chunks, fields).document == orjson.loads(body)


def test_there_are_recordings() -> None:
    assert len(BODIES) >= 7
