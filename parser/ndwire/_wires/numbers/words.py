"""The words that stand among the numbers of a list: null, and the literals that JSON lacks.

Python's json, JavaScript's habits and the KServe protocol write a float that is no number as ``null``, or as ``NaN``,
``Infinity`` and ``-Infinity``. They are taken out of the text, a 0 stands in for each, and what is left is read as any
other list. Nothing can join the 0 from either side, for it has blanks around it: ``1null`` is no JSON, nor is
``-NaN`` or ``1e-Infinity``. Every other word stays where it is, and is refused by whoever reads the numbers.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_STAND_IN: Final = b" 0 "
_WORDS: Final = (b"-Infinity", b"Infinity", b"null", b"NaN")
# The words that JSON lacks, and what the end of the text leaves of one.
_WORD_OR_BEGINNING: Final = re.compile(
    rb"(?<=[\[, \t\n\r])(?:-?Infinity|NaN|(?:-?I(?:n(?:f(?:i(?:n(?:it?)?)?)?)?)?|Na?)\Z)"
)
_COMMA: Final = ord(",")
_MINUS: Final = ord("-")
# Each is in one of the words, once.
_OF_NULL: Final = ord("u")
_OF_NAN: Final = ord("a")
_OF_INFINITY: Final = ord("f")
# Where the minus stands, seen from the letter.
_TO_MINUS: Final = 3


class Words(NamedTuple):
    """The words of a list.

    Attributes:
        places: Which of the list's items they are, int64 (words,).
        values: What they stand for, NaN or infinite, float64 (words,).
    """

    places: NDArray[Any]
    values: NDArray[Any]


def take_out(text: bytes) -> tuple[bytes, Words]:
    """Take the words out of a list.

    Args:
        text: Brackets, commas, numbers and words.

    Returns:
        The text with a 0 in the place of each word, and the words. If the former is JSON, the latter are right.
    """
    octets = np.frombuffer(text, np.uint8)
    letters = np.flatnonzero((octets == _OF_NULL) | (octets == _OF_NAN) | (octets == _OF_INFINITY))
    places = np.searchsorted(np.flatnonzero(octets == _COMMA), letters)
    infinite = octets[letters] == _OF_INFINITY
    values = np.full(len(letters), np.nan)
    values[infinite] = np.where(octets[letters[infinite] - _TO_MINUS] == _MINUS, -np.inf, np.inf)
    for word in _WORDS:
        text = text.replace(word, _STAND_IN)
    return text, Words(places, values)


def without_words(text: bytes) -> bytes:
    """Return the beginning of a list with a number of the same length in the place of each word that JSON lacks."""
    return _WORD_OR_BEGINNING.sub(lambda match: b"1" * len(match[0]), text)
