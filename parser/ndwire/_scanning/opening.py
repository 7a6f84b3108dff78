"""How an envelope opens: ``{"data":"``, with white space between the tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ndwire._scanning.list_text import Verdict

_TOKENS: Final = (b"{", b'"data"', b":", b'"')
_KEY: Final = 1
_COLON: Final = 2


class Opening:
    """Compares the beginning of an object with that of an envelope, token by token.

    Args:
        skip: Returns the index behind the white space that may stand between tokens.

    Attributes:
        head: The bytes of the opening that were taken and not released.
    """

    __slots__ = ("_matched", "_skip", "_stage", "head")

    def __init__(self, skip: Callable[[bytes | bytearray, int], int]) -> None:
        self.head = bytearray()
        self._skip = skip
        self._stage = 0  # index of the token that is expected
        self._matched = 0  # number of its bytes that were taken

    @property
    def has_key(self) -> bool:
        """Whether the key ``data`` is complete."""
        return self._stage > _KEY

    @property
    def has_colon(self) -> bool:
        """Whether the colon behind the key was taken."""
        return self._stage > _COLON

    def take(self, data: bytes | bytearray, i: int, n: int) -> tuple[int, Verdict]:
        """Take the bytes of ``data[i:n]`` that belong to an envelope's opening.

        Returns:
            The index behind them; ``COMPLETE`` behind the quote that opens the base64, ``ORDINARY`` where the object
            opens otherwise, ``OPEN`` where more bytes are needed.
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

    def release(self) -> bytes:
        """Return the complete tokens, and the white space around them, that were not returned before.

        What stays in ``head`` is the beginning of an incomplete token: bytes that may begin another one.
        """
        end = len(self.head) - self._matched
        released = bytes(self.head[:end])
        del self.head[:end]
        return released
