"""Backslashes in JSON strings that come in pieces."""

from __future__ import annotations

from typing import Final

_BACKSLASH: Final = ord("\\")


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
