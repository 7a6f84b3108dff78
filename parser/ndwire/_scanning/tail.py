"""The tail of an envelope: everything behind its base64, up to the brace that closes it.

Braces are counted outside of strings, jumping from one structural character to the next. Most tails need none of that:
they are known already, and end with the first brace.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from ndwire._contract.strings import odd_backslashes

TAIL_WINDOW: Final = 1 << 10
"""How far a known tail is looked for."""

_QUOTE: Final = ord('"')
_OPEN: Final = ord("{")
_STRUCTURE: Final = re.compile(rb'["{}]')


class Tail:
    """Follows one tail to its end.

    Attributes:
        text: What is collected of it, by whoever follows it.
    """

    __slots__ = ("_depth", "_in_string", "_seen", "_slashes", "text")

    def __init__(self) -> None:
        self.text = bytearray()
        self._seen = False
        self._depth = 0
        self._in_string = 0
        self._slashes = 0

    def end(self, data: bytes | bytearray, i: int, n: int, known: Container[bytes]) -> tuple[int, bool]:
        """Return the index behind the closing brace and True; ``n`` and False if it is still to come.

        Args:
            data: The piece.
            i: Where the tail, or what is left of it in this piece, begins.
            n: Where the piece ends.
            known: Complete tails.
        """
        if not self._seen:
            self._seen = True
            end = data.find(b"}", i, min(i + TAIL_WINDOW, n)) + 1
            if end and bytes(data[i:end]) in known:
                return end, True
        while True:
            if self._in_string:
                quote = data.find(b'"', i, n)
                if quote < 0:
                    self._slashes = odd_backslashes(data, i, n, self._slashes)
                    return n, False
                self._in_string = odd_backslashes(data, i, quote, self._slashes)
                self._slashes = 0
                i = quote + 1
                continue
            match = _STRUCTURE.search(data, i, n)
            if match is None:
                return n, False
            i = match.end()
            mark = data[i - 1]
            if mark == _QUOTE:
                self._in_string = 1
            elif mark == _OPEN:
                self._depth += 1
            elif self._depth:
                self._depth -= 1
            else:
                return i, True
