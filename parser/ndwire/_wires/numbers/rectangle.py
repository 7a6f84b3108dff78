"""The shape of a nested list, read off its skeleton: the brackets and commas of its text.

What the first rows say has to repeat itself to the end.
"""

from __future__ import annotations

from typing import Final

from ndwire._contract.limits import MAX_NDIM
from ndwire._contract.types import Pause

# So much of a skeleton is compared at a time.
_WINDOW: Final = 1 << 20


def rectangle(skeleton: bytes | bytearray, pause: Pause) -> tuple[int, ...] | None:
    """Return the shape of the rectangle with this skeleton; the last dimension is 1 also where there are no numbers.

    Args:
        skeleton: Brackets that balance at the end for the first time, and commas.
        pause: Called between slices of work.

    Returns:
        The shape, or None for what is no rectangle or has more dimensions than NumPy's arrays.
    """
    head = skeleton[: MAX_NDIM + 1]
    ndim = len(head) - len(head.lstrip(b"["))
    if ndim > MAX_NDIM:
        return None
    shape: list[int] = []
    inner = 0  # the length of the block of the level below, of which this level's block is a repetition
    for level in range(1, ndim + 1):
        # The first block of this level ends with the first run of so many closing brackets. The list ended where its
        # brackets balanced first, so the block of the last level is all of it.
        end = len(skeleton) - level if level == ndim else _find(skeleton, b"]" * level, pause)
        if end < 0:
            return None
        begin = ndim - level
        length = end + level - begin
        count, rest = divmod(length - 1, inner + 1)
        if rest or not _repeats(skeleton, begin + 1, begin + length - 1, inner, pause):
            return None
        shape.append(count)
        inner = length
    return tuple(reversed(shape))


def _find(skeleton: bytes | bytearray, closing: bytes, pause: Pause) -> int:
    """Return where ``closing`` stands first, or -1."""
    for start in range(0, len(skeleton), _WINDOW):
        at = skeleton.find(closing, start, start + _WINDOW + len(closing) - 1)
        if at >= 0:
            return at
        pause()
    return -1


def _repeats(skeleton: bytes | bytearray, begin: int, end: int, inner: int, pause: Pause) -> bool:
    """Return whether ``skeleton[begin:end]`` is its first ``inner`` characters over and over, with commas between."""
    period = inner + 1
    if skeleton[begin + inner : min(begin + period, end)] not in (b"", b","):
        return False
    for start in range(begin + period, end, _WINDOW):
        stop = min(start + _WINDOW, end)
        if skeleton[start:stop] != skeleton[start - period : stop - period]:
            return False
        pause()
    return True
