"""Foreign values in messages: a short text of anything, made at a bounded cost.

``repr`` follows a value to its end: it recurses as deep as a peer's JSON nests, and writes all of what a caller passed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

_LEVELS: Final = 3
_ITEMS: Final = 4
_CHARACTERS: Final = 80
_INTEGER_BITS: Final = 128
_MORE: Final = "..."


def shown(value: object) -> str:
    """Return a short text of ``value``, for the message of an error.

    Args:
        value: Anything: JSON that a peer sent, or what a caller passed.

    Returns:
        At most some 80 characters: JSON and numbers as Python writes them, with dots for what nests too deep or goes on
        for too long; of everything else the type alone. It takes the same time for a value of any size.
    """
    text = _text(value, _LEVELS)
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + _MORE


def _text(value: Any, levels: int) -> str:
    if isinstance(value, (str, bytes, bytearray)):
        return repr(value[:_CHARACTERS]) + (_MORE if len(value) > _CHARACTERS else "")
    if value is None or isinstance(value, (bool, float, np.bool_, np.integer, np.floating)):
        return repr(value)
    if isinstance(value, int):
        # Python refuses to write integers of more than 4,300 digits.
        return repr(value) if value.bit_length() <= _INTEGER_BITS else f"<integer of {value.bit_length()} bits>"
    kind = type(value)
    if kind is dict:
        items = (f"{_text(key, levels - 1)}: {_text(item, levels - 1)}" for key, item in value.items())
        return f"{{{_joined(items, len(value), levels)}}}"
    if kind is list:
        return f"[{_joined((_text(item, levels - 1) for item in value), len(value), levels)}]"
    if kind is tuple:
        return f"({_joined((_text(item, levels - 1) for item in value), len(value), levels)})"
    if isinstance(value, type):
        return f"<class {_name(value)}>"
    return f"<{_name(kind)}>"


def _joined(items: Iterable[str], n_items: int, levels: int) -> str:
    if not levels:
        return _MORE if n_items else ""
    some = list(itertools.islice(items, _ITEMS))
    return ", ".join(some if n_items <= _ITEMS else [*some, _MORE])


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
