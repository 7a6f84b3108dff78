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
    console.print(f"A tiny body without arrays: loads takes {tiny(arguments.rounds):.2f} µs more than orjson.loads.")


if __name__ == "__main__":
    main()
