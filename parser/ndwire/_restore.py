"""Puts the arrays back into the document that was parsed without them.

Each array was replaced by a placeholder: a string that no document can forge, since its first part is random for each
parser. Placeholders are values of registered names and nothing else, so the walk looks at those values only. It goes
breadth first, skips lists of scalars without a Python loop, and stops at the last placeholder.

Objects under a registered name that opened otherwise than an envelope carry a marker, a member that no document can
forge either: if such an object holds ``data``, ``shape`` and ``dtype`` all the same, it is an array that could not be
cut out, and the marker tells where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from ndwire._envelope import RESERVED
from ndwire._errors import ContractError, LayoutDrift

_CONTAINERS: Final = frozenset((dict, list))
_KEY: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t\n\r]*:[ \t\n\r]*(?=\{)', re.DOTALL)


class Restorer:
    """Walks one document.

    Args:
        names: The registered names.
        packed: Those of them whose fields read envelopes.
        mark: The random text that placeholders begin with.
        values: What stands behind each placeholder, by its number.
    """

    __slots__ = ("_left", "_mark", "_names", "_packed", "_seen", "_values", "drifted")

    def __init__(self, names: frozenset[str], packed: frozenset[str], mark: str, values: list[Any]) -> None:
        self._names = names
        self._packed = packed
        self._mark = mark
        self._values = values
        self._left = len(values)
        self._seen = bytearray(len(values))
        self.drifted: list[int | None] = []  # markers of arrays that could not be cut; None for an escaped name

    def walk(self, document: Any, *, whole: bool) -> None:
        """Replace the placeholders in ``document``, in place.

        Args:
            document: Plain dicts, lists and scalars.
            whole: Look at every object under a registered name as well, for drift.
        """
        names = self._names
        level: list[Any] = [document]
        while level and (whole or self._left):
            below: list[Any] = []
            for node in level:
                if type(node) is dict:
                    if not names.isdisjoint(node):
                        self._visit(cast("dict[str, Any]", node), whole=whole)
                    items: Any = node.values()
                elif type(node) is list:
                    items = node
                else:
                    continue
                if not _CONTAINERS.isdisjoint(set(map(type, items))):
                    below += items
            level = below

    def _visit(self, node: dict[str, Any], *, whole: bool) -> None:
        mark = self._mark
        for name in self._names & node.keys():
            value = node[name]
            if type(value) is str:
                if value.startswith(mark):
                    number = int(value[len(mark) :])
                    node[name] = self._values[number]
                    self._seen[number] = 1
                    self._left -= 1
            elif whole and type(value) is dict and name in self._packed:
                suspect = cast("dict[str, Any]", value).pop(mark, None)
                if RESERVED.issubset(cast("dict[str, Any]", value)):
                    self.drifted.append(suspect)

    def hidden(self) -> int | None:
        """Return the number of the first array that the document does not hold, or None."""
        return self._seen.index(0) if self._left else None


def escaped_drift(text: bytes | bytearray, names: frozenset[str], locate: Callable[[int], int]) -> int | None:
    """Return the body's offset of the first array that stands under an escaped spelling of a name.

    Slow, and only for the message of an error.
    """
    for match in _KEY.finditer(text):
        if b"\\" in match[1] and orjson.loads(b'"' + match[1] + b'"') in names:
            return locate(match.end())
    return None


def drift(offset: int | None) -> LayoutDrift:
    """Return the error for a packed array that could not be cut out."""
    return LayoutDrift(
        "a packed array that does not open with a string under data, or stands under an escaped name", offset=offset
    )


def hidden(offset: int) -> ContractError:
    """Return the error for an array that got lost."""
    return ContractError("an array is hidden by a later member of the same name, or of one above it", offset=offset)
