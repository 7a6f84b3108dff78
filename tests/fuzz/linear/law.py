"""The law of linear time, on one random text and one of the entries that take such texts."""

from __future__ import annotations

import random

from fuzz.linear.measure import slow
from fuzz.linear.parts import random_text


def is_linear(seed: bytes, chance: random.Random) -> None:
    """Four times the parts of a text take one of the entries at most eight times as long.

    Args:
        seed: Decides the text and the entry.
        chance: Not asked.
    """
    own = random.Random(seed)
    text, entries = random_text(own)
    name = own.choice(list(entries))
    too_slow = slow(text.of, entries[name])
    assert too_slow is None, f"{name}: {too_slow} for {text}"
