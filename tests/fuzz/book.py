"""The laws, and the bodies that each is tried on."""

from __future__ import annotations

import random
from typing import Final

from fuzz.generate import mutated, seeds, written
from fuzz.grammar import Grammar
from fuzz.hunt import Law
from fuzz.laws import law, means_what_it_says, paths_agree, prefixes_are_incomplete, rewriting, windows_agree
from fuzz.linear.law import is_linear
from fuzz.streams import a_stream, events_follow_the_standard, lines_are_documents

_SEEDS: Final = seeds()


def a_body(chance: random.Random) -> bytes:
    """Return a body of any origin: the vectors' own and mutated, written by dumps, or out of the grammar."""
    match chance.randrange(4):
        case 0:
            return mutated(chance, _SEEDS)
        case 1:
            return mutated(chance, [written(chance) or b"{}"]) if chance.random() < 0.3 else written(chance)
        case _:
            return Grammar(chance).body()


def a_valid_body(chance: random.Random) -> bytes:
    """Return a body without junk."""
    return written(chance) if chance.random() < 0.3 else Grammar(chance).value()


LAWS: Final = (
    Law("chunks", a_body, law, 300),
    Law("fused path", a_body, paths_agree, 1500),
    Law("windows", a_body, windows_agree, 600),
    Law("meaning", a_body, means_what_it_says, 1500),
    Law("prefixes", a_valid_body, prefixes_are_incomplete, 20),
    Law("rewriting", a_body, rewriting, 200),
    Law("lines", a_stream, lines_are_documents, 300),
    Law("events", a_stream, events_follow_the_standard, 300),
    Law("linear time", lambda chance: chance.randbytes(8), is_linear, 10, shrinks=False, timed=True),
)
"""Every law of the fuzzers."""
