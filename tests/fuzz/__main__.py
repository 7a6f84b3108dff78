"""``make fuzz``: the laws on mutated and random bodies, for as long as one likes. The seed is printed."""

from __future__ import annotations

import argparse
import random
import time

from fuzz.generate import mutated, seeds, written
from fuzz.laws import law, paths_agree, rewriting, windows_agree


def main() -> None:
    """Run until the time is up or something breaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers; a new one by default")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    bodies = seeds()
    stop = time.monotonic() + arguments.seconds
    count = 0
    while time.monotonic() < stop:
        body = mutated(chance, bodies) if chance.random() < 0.7 else written(chance)
        if chance.random() < 0.3:
            body = mutated(chance, [body or b"{}"])
        law(body, chance)
        paths_agree(body, chance)
        rewriting(body, chance)
        windows_agree(body, chance)
        count += 1
    print(f"{count} bodies, and the law held")


if __name__ == "__main__":
    main()
