"""The base64 of one value, passed on piece by piece up to the quote that ends it."""

from __future__ import annotations

import enum
from typing import Final

from ndwire._contract.strings import end_of_line, odd_backslashes
from ndwire._scanning.sink import Data, Sink

# So much base64 is searched for its closing quote, and then decoded, while it is in the cache.
WINDOW: Final = 256 << 10


class BlobEnd(enum.Enum):
    """How the base64 ended in a piece."""

    OPEN = enum.auto()
    CLOSED = enum.auto()
    LINE = enum.auto()


class Blob:
    """Follows the base64 of one value after the other.

    Args:
        sink: Gets it.
        lines: Whether the end of the line is the end of it as well.
    """

    __slots__ = ("_is_long", "_lines", "_sink", "_slashes")

    def __init__(self, sink: Sink, *, lines: bool) -> None:
        self._sink = sink
        self._lines = lines
        self._is_long = False  # it has gone on for a whole piece
        self._slashes = 0  # backslashes that the last piece ended with

    def begin(self) -> None:
        """Another one begins."""
        self._is_long = False
        self._slashes = 0

    def take(self, data: Data, i: int, n: int) -> tuple[int, BlobEnd]:
        """Pass on what ``data[i:n]`` holds of it.

        Returns:
            The index behind it (behind the closing quote, if that is there), and how it ended.
        """
        part, bulk = self._sink.part, self._sink.bulk
        while i < n:
            stop = min(i + WINDOW, n)
            if self._is_long and bulk(data, i, stop):
                i = stop
                self._slashes = 0
                continue
            end = end_of_line(data, i, stop) if self._lines else stop
            quote = data.find(b'"', i, end)
            if quote < 0:
                self._slashes = odd_backslashes(data, i, end, self._slashes)
                part(data, i, end, last=False)
                if end < stop:
                    return end, BlobEnd.LINE
                self._is_long = not self._lines
                i = stop
            elif odd_backslashes(data, i, quote, self._slashes):
                self._slashes = 0
                part(data, i, quote + 1, last=False)
                i = quote + 1
            else:
                part(data, i, quote, last=True)
                return quote + 1, BlobEnd.CLOSED
        return i, BlobEnd.OPEN
