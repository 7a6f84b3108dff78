"""The two pictures that the README shows."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

_OURS, _OTHERS, _LIMIT = "#1b7f5c", "#9aa5b1", "#d0d7de"
# The same picture for the same figures: no date, no random ids.
_PLAIN = {"Date": None, "Creator": None}


def _save(figure: Figure, path: pathlib.Path) -> None:
    with mpl.rc_context({"svg.hashsalt": "ndwire", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata=_PLAIN, bbox_inches="tight")
    plt.close(figure)
    # Lines that end in a space are of no use to anyone.
    path.write_text("".join(line.rstrip() + "\n" for line in path.read_text().splitlines()))


def times(milliseconds: Mapping[str, float], path: pathlib.Path) -> None:
    """Draw how long each way takes from a complete body to arrays.

    Args:
        milliseconds: Way -> its median.
        path: Where the picture goes.
    """
    figure, axes = plt.subplots(figsize=(7.2, 0.42 * len(milliseconds) + 0.9))
    names = list(milliseconds)[::-1]
    colours = [_OURS if "ndwire" in name else _LIMIT if "copy" in name else _OTHERS for name in names]
    bars = axes.barh(names, [milliseconds[name] for name in names], color=colours)
    axes.bar_label(bars, fmt="%.0f ms", padding=4)
    axes.set_xlabel("milliseconds from a complete body of 122 MiB to arrays")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12)
    _save(figure, path)


def memory(traces: Mapping[str, Sequence[tuple[float, int]]], path: pathlib.Path) -> None:
    """Draw the memory over time while a body arrives.

    Args:
        traces: Way -> seconds and bytes.
        path: Where the picture goes.
    """
    figure, axes = plt.subplots(figsize=(7.2, 3.2))
    for name, samples in traces.items():
        # Some hundred points are enough for a picture.
        kept = [*samples[:: max(len(samples) // 200, 1)], samples[-1]]
        axes.plot(
            [seconds * 1000 for seconds, _ in kept],
            [n_bytes / 2**20 for _, n_bytes in kept],
            label=name,
            color=_OURS if "ndwire" in name else None,
            linewidth=2.4 if "ndwire" in name else 1.4,
        )
    axes.set_xlabel("milliseconds since the request (aiohttp, loopback)")
    axes.set_ylabel("MiB added")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    _save(figure, path)
