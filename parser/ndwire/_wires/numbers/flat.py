"""Lists without lists in them: what kind of numbers their text holds."""

from __future__ import annotations

from typing import Final, Literal

FlatKind = Literal["integers", "decimals"]
"""What a list without lists in it holds."""

_INTEGERS_IN_LINE: Final = b"0123456789-, \t"
_INTEGERS: Final = _INTEGERS_IN_LINE + b"\r\n"
_DECIMALS: Final = b".eE+"


def flat_kind(text: bytes | bytearray, *, lines: bool) -> FlatKind | None:
    """Return what is between a bracket and the next closing one; None if it is more than one list of numbers."""
    rest = text.translate(None, _INTEGERS_IN_LINE if lines else _INTEGERS)
    if rest == b"[]":
        return "integers"
    return "decimals" if rest.translate(None, _DECIMALS) == b"[]" else None
