"""``make fuzz``: the laws on random bodies, for as long as one likes. The seed is printed."""

from __future__ import annotations

import argparse
import logging
import random
import sys

from fuzz.book import LAWS
from fuzz.hunt import hunt


def main() -> None:
    """Run until the time is up; print how much was done, and the smallest body of each kind that broke a law."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers; a new one by default")
    parser.add_argument("--law", action="append", choices=[law.name for law in LAWS], help="only this; all by default")
    arguments = parser.parse_args()
    # Bodies may hold log-probabilities that are none.
    logging.getLogger("ndwire.rl").setLevel(logging.ERROR)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    laws = [law for law in LAWS if law.name in (arguments.law or [law.name])]
    tallies, findings = hunt(laws, random.Random(seed), arguments.seconds)
    for name, tally in tallies.items():
        print(f"{name:<24} {tally.n_bodies:>9} bodies, {tally.n_bodies / max(tally.seconds, 1e-9):>7.0f} a second")
    for finding in findings:
        print(finding)
    print(f"{len(findings)} kinds of findings" if findings else "every law held")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
