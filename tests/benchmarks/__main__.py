"""``make bench``: measure everything, print it, write ``benchmarks.json`` and the README's pictures."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson
import pybase64
from rich.console import Console
from rich.table import Table

from benchmarks import endtoend, memory, pictures, reading, serving, writing
from benchmarks.measure import Figure

# How the README's picture calls what was measured.
TIMES = {
    "json + base64": "90 MiB array, json, base64",
    "orjson + pybase64": "90 MiB array, orjson, pybase64",
    "msgspec with bytes": "90 MiB array, msgspec, bytes",
    "cutting out + pybase64": "90 MiB array, splice with slices",
    "ndwire": "90 MiB array, whole / floor",
    "copy of the bytes + orjson of the rest": "90 MiB array, floor",
}


def show(console: Console, title: str, figures: Iterable[Figure]) -> list[Figure]:
    """Print figures as they come; return them."""
    kept: list[Figure] = []
    table = Table("figure", "median", "least", "spread", "to be", "ms", title=title, title_justify="left")
    for figure in figures:
        kept.append(figure)
        digits = ".1f" if figure.unit else ".2f"
        bound = "" if figure.bound is None else f"{'≥' if figure.unit.endswith('/s') else '≤'} {figure.bound:g}"
        table.add_row(
            figure.what,
            f"{figure.value:{digits}} {figure.unit}".rstrip(),
            "" if figure.least is None else f"{figure.least:{digits}}",
            "" if figure.spread is None else f"± {figure.spread:.0%}",
            bound,
            "" if figure.milliseconds is None else f"{figure.milliseconds:.1f}",
            style="" if figure.is_met else "bold red",
        )
    console.print(table)
    return kept


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "numpy": np.__version__,
        "orjson": orjson.__version__,
        "pybase64": pybase64.get_version(),
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the bodies, as a part of the full one")
    parser.add_argument("--rounds", type=int, default=7, help="how often each rival runs")
    parser.add_argument("--out", type=pathlib.Path, default=None, help="a directory for the JSON and the pictures")
    arguments = parser.parse_args()
    scale, rounds = arguments.scale, arguments.rounds
    tokens = max(int(endtoend.TOKENS * scale), 1)
    console = Console(width=140)
    start = time.perf_counter()
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    traces, traces_of_eight = endtoend.trace(tokens), endtoend.trace(tokens, 8)
    figures = [
        *show(console, "Reading", reading.figures(scale, rounds)),
        *show(console, "Memory", memory.figures(tokens)),
        *show(console, "Writing", writing.figures(scale, rounds)),
        *show(console, "Serving", serving.figures(scale)),
        *show(console, "End to end over loopback", endtoend.figures(tokens, max(rounds // 2, 1))),
        *show(console, "Its memory: one request", endtoend.peaks(traces, "one request")),
        *show(console, "Its memory: eight at once", endtoend.peaks(traces_of_eight, "eight at once")),
    ]
    missed = [figure for figure in figures if not figure.is_met]
    held = [figure for figure in figures if figure.bound is not None]
    console.print(f"{len(held) - len(missed)} of {len(held)} bounds are met; {time.perf_counter() - start:.0f} s.")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine(), "figures": [dataclasses.asdict(figure) for figure in figures]}
        (arguments.out / "benchmarks.json").write_text(json.dumps(report, indent=1) + "\n")
        by_name = {figure.what: figure.milliseconds or figure.value for figure in figures}
        pictures.times({name: by_name[what] for name, what in TIMES.items()}, arguments.out / "time.svg")
        pictures.memory(traces, arguments.out / "memory.svg")
        console.print(f"Written: {', '.join(sorted(path.name for path in arguments.out.iterdir()))} in {arguments.out}")


if __name__ == "__main__":
    main()
