"""The scanner alone: every byte goes out once and in order, to a sink that knows no parser."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.generate import REGISTRIES, mutated, seeds
from ndwire._registry import registry_of
from ndwire._scanner import Data, Scanner
from support.chunking import partition

BODIES = seeds()


class Recorder:
    """Puts a body together again out of what it is given, and remembers what it was told."""

    def __init__(self, *, wants_tails: bool) -> None:
        self.wants_tails = wants_tails
        self.body = b""
        self.told: list[Any] = []

    def text(self, data: Data, i: int, j: int) -> None:
        self.body += data[i:j]

    def suspect(self) -> None:
        self.told.append(("suspect", len(self.body) - 1))

    def open(self, entry: Any, head: bytes, offset: int) -> None:
        assert offset == len(self.body)
        self.told.append(("open", entry.field.name, offset))
        self.body += head

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        self.body += data[i:j] + b'"' * last

    def end(self, tail: bytes, tail_offset: int) -> None:
        if self.wants_tails:
            assert tail_offset == len(self.body)
        else:
            assert tail == b""
        self.body += tail
        self.told.append(("end", len(self.body)))

    def whole(self, entry: Any, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        return False

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        self.told.append("cut")
        self.body += tail or b""


def scan(chunks: list[bytes], fields: Any, *, wants_tails: bool) -> Recorder:
    sink = Recorder(wants_tails=wants_tails)
    scanner = Scanner(registry_of(fields), sink, tail_bytes=1 << 30)
    for chunk in chunks:
        scanner.feed(chunk)
    scanner.finish()
    return sink


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_byte_goes_out_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    body = mutated(chance, BODIES)
    fields = chance.choice(REGISTRIES)
    cuts = [chance.randrange(len(body) + 1) for _ in range(4)]
    results = [
        scan(chunks, fields, wants_tails=wants_tails)
        for wants_tails in (True, False)
        for chunks in ([body], [body[k : k + 1] for k in range(len(body))], partition(body, cuts))
    ]
    assert all(result.body == body for result in results)
    assert all(result.told == results[0].told for result in results)
