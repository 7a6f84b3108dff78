"""Runs the laws on random bodies, makes what breaks one as small as it can, and counts."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Final

Check = Callable[[bytes, random.Random], None]
"""A law about bodies: what breaks it raises, of whatever class. The random numbers choose fields, cuts and so on."""

_SHRINKING_SECONDS: Final = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Law:
    """A law, and where its bodies come from.

    Attributes:
        name: What is printed.
        write: Makes a body.
        check: The law.
        n_in_tests: How many bodies the suite tries for each seed; about a second.
        shrinks: Whether a part of a body is a body as well.
        timed: Whether the law measures time.
    """

    name: str
    write: Callable[[random.Random], bytes]
    check: Check
    n_in_tests: int = 200
    shrinks: bool = True
    timed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A body that breaks a law.

    Attributes:
        kind: The law and how it broke; the same for bodies that break it in the same way.
        body: The body, as small as it became.
        seed: Of the random numbers that the law is checked with.
        report: The traceback.
    """

    kind: str
    body: bytes
    seed: int
    report: str

    def __str__(self) -> str:
        last = self.report.strip().splitlines()[-1]
        return f"{self.kind}\n  body {self.body[:300]!r} ({len(self.body)} bytes), seed {self.seed}\n  {last[:600]}"


@dataclasses.dataclass(slots=True)
class Tally:
    """What was done for one law.

    Attributes:
        n_bodies: How many bodies were checked.
        seconds: How long that took.
    """

    n_bodies: int = 0
    seconds: float = 0.0


def hunt(laws: Sequence[Law], chance: random.Random, seconds: float) -> tuple[dict[str, Tally], list[Finding]]:
    """Check ``laws`` for so many seconds, each for as long as the others.

    Returns:
        What was done by the name of the law, and the smallest body of each kind that broke one.
    """
    tallies = {law.name: Tally() for law in laws}
    found: dict[str, Finding] = {}
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        law = min(laws, key=lambda law: tallies[law.name].seconds)
        start = time.monotonic()
        finding = broken(law, chance, known=found)
        tally = tallies[law.name]
        tally.n_bodies += 1
        tally.seconds += time.monotonic() - start
        if finding and (finding.kind not in found or len(finding.body) < len(found[finding.kind].body)):
            found[finding.kind] = finding
    return tallies, list(found.values())


def broken(law: Law, chance: random.Random, *, known: dict[str, Finding]) -> Finding | None:
    """Check ``law`` on one body; return the finding, made small if its kind is not ``known``."""
    body, seed = law.write(chance), chance.getrandbits(32)
    finding = _check(law, body, seed)
    if finding is None or not law.shrinks or finding.kind in known:
        return finding
    return _small(law, finding)


def _check(law: Law, body: bytes, seed: int) -> Finding | None:
    try:
        law.check(body, random.Random(seed))
    except Exception as exc:
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        # What an assertion says in words, not the values that it shows.
        words = exc.args[0] if isinstance(exc, AssertionError) and exc.args else None
        what = words.partition(":")[0] if isinstance(words, str) else ""
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        kind = f"{law.name}: {type(exc).__name__} {what[:60]} ({where})"
        return Finding(kind, body, seed, "".join(traceback.format_exception(exc)))
    return None


def _small(law: Law, finding: Finding) -> Finding:
    """Take ever smaller pieces out of the body for as long as it breaks the law in the same way."""
    stop = time.monotonic() + _SHRINKING_SECONDS
    step = max(len(finding.body) // 2, 1)
    while time.monotonic() < stop:
        start = 0
        smaller = False
        while start < len(finding.body) and time.monotonic() < stop:
            body = finding.body
            shorter = _check(law, body[:start] + body[start + step :], finding.seed)
            if shorter is not None and shorter.kind == finding.kind:
                finding, smaller = shorter, True
            else:
                start += step
        if step == 1 and not smaller:
            break
        step = max(step // 2, 1)
    return finding
