"""How an envelope opens: ``{"data":"``, with white space between the tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ndwire._lists import Verdict

_TOKENS: Final = (b"{", b'"data"', b":", b'"')


class Opening:
    """Compares the beginning of an object with that of an envelope, token by token.

    Args:
        skip: Returns the index behind the white space that may stand between tokens.

    Attributes:
        head: What is there of it.
    """

    __slots__ = ("_matched", "_skip", "_stage", "head")

    def __init__(self, skip: Callable[[bytes | bytearray, int], int]) -> None:
        self.head = bytearray()
        self._skip = skip
        self._stage = 0  # the token that is expected, and how much of it is there
        self._matched = 0

    def take(self, data: bytes | bytearray, i: int, n: int) -> tuple[int, Verdict]:
        """Take what ``data[i:n]`` holds of it.

        Returns:
            The index behind what belongs to an envelope's opening, and what is known now.
        """
        while i < n:
            if self._stage and not self._matched:
                j = self._skip(data, i)
                self.head += data[i:j]
                i = j
                if i == n:
                    break
            token = _TOKENS[self._stage]
            want = token[self._matched : self._matched + n - i]
            if data[i : i + len(want)] != want:
                return i, Verdict.ORDINARY
            self.head += want
            i += len(want)
            self._matched += len(want)
            if self._matched == len(token):
                self._matched = 0
                self._stage += 1
                if self._stage == len(_TOKENS):
                    return i, Verdict.COMPLETE
        return i, Verdict.OPEN
