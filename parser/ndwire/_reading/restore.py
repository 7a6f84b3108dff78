"""Puts the arrays back into the document that was parsed without them.

Each array was replaced by a placeholder: a string that no document can forge, since its first part is random for each
parser. Placeholders are values of registered names and nothing else, so the walk looks at those values only. It goes
breadth first, skips lists of scalars without a Python loop, and stops at the last placeholder.

An object under a registered name that holds ``data``, ``shape`` and ``dtype`` in the parsed document is an array that
could not be cut out.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from ndwire._contract.errors import ContractError
from ndwire._wires.envelope import RESERVED

_CONTAINERS: Final = frozenset((dict, list))


class Drifted(NamedTuple):
    """An array that could not be cut out.

    Attributes:
        name: The name that it stands under.
        number: The value of the object's member ``mark``; -1 where there is none.
        members: The object's other members.
    """

    name: str
    number: int
    members: dict[str, Any]


class Restorer:
    """Walks one document.

    Args:
        names: The registered names.
        packed: Those of them whose fields read envelopes.
        mark: The random text that placeholders begin with, and the key of a marker.
        values: What stands behind each placeholder, by its number.

    Attributes:
        drifted: The arrays that could not be cut out, where they were looked for.
    """

    __slots__ = ("_left", "_mark", "_names", "_packed", "_seen", "_values", "drifted")

    def __init__(self, names: frozenset[str], packed: frozenset[str], mark: str, values: list[Any]) -> None:
        self._names = names
        self._packed = packed
        self._mark = mark
        self._values = values
        self._left = len(values)
        self._seen = bytearray(len(values))
        self.drifted: list[Drifted] = []

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
                members = cast("dict[str, Any]", value)
                number = members.pop(mark, -1)
                if RESERVED.issubset(members):
                    self.drifted.append(Drifted(name, number, members))

    def hidden(self) -> int | None:
        """Return the number of the first array that the document does not hold, or None."""
        return self._seen.index(0) if self._left else None


def hidden(offset: int) -> ContractError:
    """Return the error for an array that got lost."""
    return ContractError("an array is hidden by a later member of the same name, or of one above it", offset=offset)
