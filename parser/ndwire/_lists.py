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
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_NUMBERS: Final = b"0123456789+-.eE \t\n\r"
_NO_BRACKETS: Final = bytes(octet for octet in range(256) if octet not in b"[]")
_STRANGE: Final = (b'"', b"{", b"}")
_BRACKET: Final = re.compile(rb"[\[\]]")
_FIRST_WINDOW: Final = 4 << 10
_WINDOW: Final = 256 << 10
# Pieces are collected into runs of about this size.
_RUN: Final = 64 << 10
# Up to so many brackets are counted without NumPy.
_FEW: Final = 48


class Verdict(enum.Enum):
    """What is known of a value that is still coming."""

    OPEN = enum.auto()
    COMPLETE = enum.auto()
    ORDINARY = enum.auto()


class ListText:
    """Collects the text of one list.

    Attributes:
        n_bytes: The length of the text so far.
        flat: Whether it has no brackets but its own.
    """

    __slots__ = ("_depth", "_runs", "_skeletons", "flat", "n_bytes")

    def __init__(self) -> None:
        self.n_bytes = 0
        self.flat = True
        self._depth = 0
        self._runs: list[bytearray | bytes] = []
        self._skeletons: list[bytearray | bytes] = []

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
            _append(self._runs, piece)
            self.n_bytes += len(piece)
            i += len(piece)
            if verdict is not Verdict.OPEN:
                return i, verdict
        return i, Verdict.OPEN

    def _flat_window(self, piece: bytes) -> tuple[bytes, Verdict] | None:
        """Look for the end of a list that has shown no second bracket; None if the window holds one."""
        close = piece.find(b"]")
        end, verdict = (len(piece), Verdict.OPEN) if close < 0 else (close + 1, Verdict.COMPLETE)
        for strange in _STRANGE:
            at = piece.find(strange, 0, end)
            if at >= 0:
                end, verdict = at, Verdict.ORDINARY
        if piece.find(b"[", 0 if self.n_bytes else 1, end) < 0:
            return piece[:end], verdict
        self.flat = False
        self._depth = 1 if self.n_bytes else 0
        self._skeletons = [run.translate(None, _NUMBERS) for run in self._runs]
        return None

    def _window(self, piece: bytes) -> tuple[bytes, Verdict]:
        """Count the brackets of a window; return what of it belongs to the list."""
        verdict = Verdict.OPEN
        for strange in _STRANGE:
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
        _append(self._skeletons, skeleton)
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

    def text(self) -> bytes | bytearray:
        """Return the whole text, which is given away."""
        return _joined(self._runs)

    def skeleton(self) -> bytes | bytearray:
        """Return the brackets and commas of the text, which are given away."""
        return _joined(self._skeletons)

    def drain(self) -> Iterator[bytes | bytearray]:
        """Give the text away in pieces, each of them free to go before the next comes."""
        self._skeletons.clear()
        yield from _drain(self._runs)


def is_flat(text: bytes) -> bool:
    """Return whether text from a bracket to the next closing one is a list without lists, strings and objects."""
    return text.find(b"[", 1) < 0 and not any(strange in text for strange in _STRANGE)


def _append(runs: list[bytearray | bytes], piece: bytes) -> None:
    """Append ``piece`` to ``runs``, to the last of them where that is short."""
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


def _drain(runs: list[bytearray | bytes]) -> Iterator[bytes | bytearray]:
    runs.reverse()
    while runs:
        yield runs.pop()


def _joined(runs: list[bytearray | bytes]) -> bytes | bytearray:
    if len(runs) == 1:
        return runs.pop()
    whole = bytearray()
    for run in _drain(runs):
        whole += run
    return whole


def _index_of_bracket(piece: bytes, number: int) -> int:
    """Return where the bracket of that number stands in ``piece``."""
    if number < _FEW:
        return next(itertools.islice(_BRACKET.finditer(piece), number, None)).start()
    octets = np.frombuffer(piece, np.uint8)
    return int(np.flatnonzero((octets == 91) | (octets == 93))[number])
