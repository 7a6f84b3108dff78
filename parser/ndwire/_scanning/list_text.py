"""The text of one list under a registered name, collected until it ends or proves to be no list of numbers.

A list ends where its brackets balance. A quote or a brace shows before that that it is ordinary JSON; no quote was held
then, hence no name, so the text need not be searched again.

A flat list ends with its first closing bracket. For others brackets are counted a window at a time: what is left of a
window when the characters of numbers are taken out is its *skeleton*, brackets and commas (and letters, where there are
any). It is kept beside the text: the shape of the array is read off it.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import MutableSequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = b"0123456789+-.eE \t\n\r"
_NO_BRACKETS: Final = bytes(octet for octet in range(256) if octet not in b"[]")
_STRANGE: Final = (b'"', b"{", b"}")
_STRANGE_IN_LINE: Final = (*_STRANGE, b"\n", b"\r")
_BRACKET: Final = re.compile(rb"[\[\]]")
_FIRST_WINDOW: Final = 4 << 10
_WINDOW: Final = 256 << 10
# Shorter pieces are collected into runs of this size. Longer ones are kept as they are, and may be shared.
_RUN: Final = 16 << 10
# Up to so many brackets are counted without NumPy.
_FEW: Final = 48


class Verdict(enum.Enum):
    """What is known of a value that is still coming."""

    OPEN = enum.auto()
    COMPLETE = enum.auto()
    ORDINARY = enum.auto()


class ListText:
    """Collects the text of one list.

    Args:
        lines: Whether the end of the line is the end of the list.

    Attributes:
        n_bytes: The length of the text so far.
        flat: Whether it has no brackets but its own.
        runs: The text, in pieces.
        skeletons: Its brackets and commas, in pieces, where it is not flat.
    """

    __slots__ = ("_depth", "_strange", "flat", "n_bytes", "runs", "skeletons")

    def __init__(self, *, lines: bool = False) -> None:
        self.n_bytes = 0
        self.flat = True
        self.runs: list[bytearray | bytes] = []
        self.skeletons: list[bytearray | bytes] = []
        self._depth = 0
        self._strange = _STRANGE_IN_LINE if lines else _STRANGE

    def take(self, data: bytes | bytearray, i: int, n: int) -> tuple[int, Verdict]:
        """Take what ``data[i:n]`` holds of the list.

        Returns:
            The index behind it, and what is known now.
        """
        window = _FIRST_WINDOW if not self.n_bytes else _WINDOW
        while i < n:
            stop = min(i + window, n)
            window = _WINDOW
            piece = bytes(data[i:stop])
            flat = self._flat_window(piece) if self.flat else None
            piece, verdict = flat or self._window(piece)
            append_run(self.runs, piece)
            self.n_bytes += len(piece)
            i += len(piece)
            if verdict is not Verdict.OPEN:
                return i, verdict
        return i, Verdict.OPEN

    def _flat_window(self, piece: bytes) -> tuple[bytes, Verdict] | None:
        """Look for the end of a list that has shown no second bracket; None if the window holds one."""
        close = piece.find(b"]")
        end, verdict = (len(piece), Verdict.OPEN) if close < 0 else (close + 1, Verdict.COMPLETE)
        for strange in self._strange:
            at = piece.find(strange, 0, end)
            if at >= 0:
                end, verdict = at, Verdict.ORDINARY
        if piece.find(b"[", 0 if self.n_bytes else 1, end) < 0:
            return piece[:end], verdict
        self.flat = False
        self._depth = 1 if self.n_bytes else 0
        self.skeletons = [run.translate(None, _NUMBERS) for run in self.runs]
        return None

    def _window(self, piece: bytes) -> tuple[bytes, Verdict]:
        """Count the brackets of a window; return what of it belongs to the list."""
        verdict = Verdict.OPEN
        for strange in self._strange:
            at = piece.find(strange)
            if at >= 0:
                piece = piece[:at]
                verdict = Verdict.ORDINARY
        skeleton = piece.translate(None, _NUMBERS)
        end = self._count(skeleton.translate(None, _NO_BRACKETS))
        if end is not None:
            verdict = Verdict.COMPLETE
            piece = piece[: _index_of_bracket(piece, end) + 1]
            skeleton = piece.translate(None, _NUMBERS)
        append_run(self.skeletons, skeleton)
        return piece, verdict

    def _count(self, brackets: bytes) -> int | None:
        """Count brackets on; return the number of the one that balances, or None."""
        depth = self._depth
        if len(brackets) <= _FEW:
            for number, bracket in enumerate(brackets):
                depth += 92 - bracket  # "[" is 91, "]" is 93
                if depth == 0:
                    return number
            self._depth = depth
            return None
        steps: NDArray[Any] = 92 - np.frombuffer(brackets, np.uint8).astype(np.int32)
        depths: NDArray[Any] = np.cumsum(steps, out=steps)
        if depth + int(depths.min()) > 0:
            self._depth = depth + int(depths[-1])
            return None
        return int((depths == -depth).argmax())


def append_run(runs: MutableSequence[bytearray | bytes], piece: bytes) -> None:
    """Append ``piece`` to ``runs``, to the last of them where both are short."""
    if not runs or len(piece) >= _RUN:
        runs.append(piece)
        return
    last = runs[-1]
    if len(last) >= _RUN:
        runs.append(piece)
    elif isinstance(last, bytearray):
        last += piece
    else:
        runs[-1] = bytearray(last) + piece


def _index_of_bracket(piece: bytes, number: int) -> int:
    """Return where the bracket of that number stands in ``piece``."""
    if number < _FEW:
        return next(itertools.islice(_BRACKET.finditer(piece), number, None)).start()
    octets = np.frombuffer(piece, np.uint8)
    return int(np.flatnonzero((octets == 91) | (octets == 93))[number])
