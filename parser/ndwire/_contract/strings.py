"""White space between tokens, and backslashes in strings, of JSON text that comes in pieces."""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = re.compile(rb"[ \t\n\r]*")
_SPACE_IN_LINE: Final = re.compile(rb"[ \t]*")
_BACKSLASH: Final = ord("\\")
# So much of a line is searched at first.
_FIRST_WINDOW: Final = 256


def odd_backslashes(data: bytes | bytearray, i: int, j: int, carried: int) -> int:
    """Return 1 if an odd number of backslashes ends at ``j``, else 0.

    Args:
        data: The piece.
        i: Where the string, or what is left of it in this piece, begins.
        j: Where the backslashes end.
        carried: The same of what stands before ``i``.
    """
    if i < j and data[j - 1] != _BACKSLASH:
        return 0
    run = j - i - len(bytes(data[i:j]).rstrip(b"\\"))
    return (run + (carried if run == j - i else 0)) % 2


def skip_space(data: bytes | bytearray, i: int) -> int:
    """Return the index of the first byte from ``i`` on that is no JSON white space."""
    match = _SPACE.match(data, i)
    return match.end() if match else i


def skip_space_in_line(data: bytes | bytearray, i: int) -> int:
    """Return the index of the first byte from ``i`` on that is neither a space nor a tab."""
    match = _SPACE_IN_LINE.match(data, i)
    return match.end() if match else i


def end_of_line(data: bytes | bytearray, i: int, n: int) -> int:
    """Return where the first CR or LF stands in ``data[i:n]``, or ``n``.

    No more than some times the line is searched, however much of ``data`` has no LF, or no CR.
    """
    window = _FIRST_WINDOW
    while i < n:
        stop = min(i + window, n)
        line_feed = data.find(b"\n", i, stop)
        end = stop if line_feed < 0 else line_feed
        carriage_return = data.find(b"\r", i, end)
        if carriage_return >= 0:
            return carriage_return
        if line_feed >= 0:
            return line_feed
        i = stop
        window *= 4
    return n
