"""``make bench``: measure, print a table."""

from __future__ import annotations

import argparse
import platform

import numpy as np
import orjson
import pybase64
from rich.console import Console
from rich.table import Table

from benchmarks.figures import all_figures, tiny
from benchmarks.serving import overhead, small_lists, stall, throughput


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the bodies, as a part of the full one")
    parser.add_argument("--rounds", type=int, default=9, help="how often each rival runs")
    arguments = parser.parse_args()
    console = Console(width=130)
    console.print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, orjson {orjson.__version__}, "
        f"pybase64 {pybase64.get_version()}, {platform.machine()}"
    )
    table = Table("figure", "ms", "ratio of medians", "of the least", "spread", "to be at most")
    for figure in all_figures(arguments.scale, arguments.rounds):
        style = "" if figure.value <= figure.at_most else "bold red"
        table.add_row(
            figure.what,
            f"{figure.milliseconds:.1f}",
            f"{figure.value:.2f}",
            f"{figure.least:.2f}",
            f"± {figure.spread:.0%}",
            f"{figure.at_most:.2f}",
            style=style,
        )
    console.print(table)
    cost = overhead()
    console.print(
        f"The middleware adds {cost.unasked:.1f} µs to a response of 1 KiB where nobody asked (at most 4), "
        f"{cost.asked:.1f} µs where somebody did and there is no array (15); the bare app takes {cost.bare:.1f} µs."
    )
    for numbers in (100, 300, 1000, 4000):
        console.print(f"It rewrites lists of {numbers} token ids at {throughput(small_lists(numbers)):.0f} MB/s.")
    for whole, how in ((True, "one message"), (False, "messages of 64 KiB")):
        rewritten = stall(whole=whole)
        console.print(
            f"It rewrites {rewritten.n_bytes / 1e6:.0f} MB of nested lists in {how} in {rewritten.seconds:.2f} s; "
            f"the longest stall of the loop is {rewritten.milliseconds:.0f} ms (at most 30)."
        )
    console.print(f"A tiny body without arrays: loads takes {tiny(arguments.rounds):.2f} µs more than orjson.loads.")


if __name__ == "__main__":
    main()
