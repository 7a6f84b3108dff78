"""What a body means: its arrays and its document, or the error that it has to lead to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fuzz.reference.arrays import AgainstContract, Found, found, is_packed
from fuzz.reference.tree import Items, Members, Node, String, is_json, plain_value, tree, without_nonfinite
from ndwire import ContractError, Field, LayoutDrift, MalformedArray, Packed, WireError
from support.chunking import Outcome, plain


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """A body that has to be refused.

    Attributes:
        kinds: What may be raised.
        offset: The offset of the error; None where the reference does not know it.
    """

    kinds: tuple[type[WireError], ...]
    offset: int | None

    def allows(self, outcome: Outcome) -> bool:
        """Return whether ``outcome`` is such an error."""
        if outcome.error is None or (outcome.error not in self.kinds and self.kinds != (WireError,)):
            return False
        return self.offset is None or outcome.offset == self.offset


def meaning(body: bytes, fields: Sequence[Field]) -> Outcome | Refused:
    """Return what a reader has to make of ``body``."""
    valid = is_json(body)
    if not valid and not is_json(without_nonfinite(body)):
        return Refused((WireError,), None)
    walk = _Walk(fields)
    try:
        document = walk.value(tree(body))
    except AgainstContract as error:
        # Text that is no JSON may be refused for that, too.
        return Refused(error.kinds, error.offset) if valid else Refused((WireError,), None)
    if not valid and any(not _inside(offset, walk.lists) for offset in _nonfinite(tree(body))):
        return Refused((WireError,), None)
    document = walk.restored(document)
    faults = [*walk.drifted, *walk.hidden()]
    if faults:
        first = min(faults, key=lambda fault: fault.offset)
        return Refused(first.kinds, first.offset)
    arrays = [
        (item.field.name, ordinal, plain(item.array), item.sidecar, item.offset)
        for ordinal, item in enumerate(walk.arrays)
    ]
    return Outcome(arrays, plain(document))


@dataclasses.dataclass(frozen=True, slots=True)
class _Drifted:
    """The ordinary value of what should have been an array."""

    value: Any
    fault: AgainstContract


class _Walk:
    """Reads a tree in the order of the text.

    Attributes:
        arrays: The arrays, in that order.
        lists: Where those of them stand that are lists.
        drifted: Packed arrays in the document that could not be cut out.
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self.arrays: list[Found] = []
        self.lists: list[tuple[int, int]] = []
        self.drifted: list[AgainstContract] = []
        self._names = {field.name: field for field in fields}
        self._left: set[Found] = set()

    def value(self, node: Node) -> Any:
        """Return a value with ``Found`` and ``_Drifted`` in the places of arrays.

        Raises:
            AgainstContract: A fault that is known where it stands.
        """
        if isinstance(node, Items):
            return [self.value(item) for item in node.items]
        if not isinstance(node, Members):
            return plain_value(node)
        return {name.value: self._member(name, item) for name, item in node.members}

    def _member(self, name: String, node: Node) -> Any:
        field = self._names.get(name.value)
        if field is None:
            return self.value(node)
        if name.spelling not in _spellings(field.name):
            fault = _missed(field, node)
            value = self.value(node)
            if fault is None and is_packed(field, node):
                return _Drifted(value, AgainstContract(node.start, LayoutDrift))
            # What would have been cut out counts also where a later member of the same name hides it.
            self.drifted += [fault] if fault is not None else []
            return value
        array = found(field, node)
        if array is not None:
            self.arrays.append(array)
            if isinstance(node, Items):
                self.lists.append((node.start, node.end))
            return array
        value = self.value(node)
        return _Drifted(value, AgainstContract(node.start, LayoutDrift)) if is_packed(field, node) else value

    def restored(self, value: Any) -> Any:
        """Return a value with the arrays in their places; the rest is taken note of."""
        match value:
            case Found():
                self._left.add(value)
                return Packed(value.array, value.sidecar) if value.field.sidecar else value.array
            case _Drifted():
                self.drifted.append(value.fault)
                return self.restored(value.value)
            case dict():
                return {name: self.restored(item) for name, item in value.items()}
            case list():
                return [self.restored(item) for item in value]
            case _:
                return value

    def hidden(self) -> list[AgainstContract]:
        """Return the fault of the first array that is not in the document, if there is one."""
        lost = [item for item in self.arrays if item not in self._left]
        return [AgainstContract(lost[0].offset, ContractError)] if lost else []


def _missed(field: Field, node: Node) -> AgainstContract | None:
    """Return the fault of a value under a name with needless escapes: an array there is drift, and never missed."""
    try:
        return None if found(field, node) is None else AgainstContract(node.start, LayoutDrift)
    except AgainstContract:
        # What claims to be an array, and is none, may be called either.
        return AgainstContract(node.start, LayoutDrift, MalformedArray)


def _spellings(name: str) -> set[bytes]:
    """Return the spellings of a name that are looked for: UTF-8, as Python's json escapes it, and PHP's solidus."""
    units = name.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    plain_ones = name.encode(), b"".join(b"%c" % code if code < 128 else b"\\u%04x" % code for code in codes)
    return {*plain_ones, *(spelling.replace(b"/", b"\\/") for spelling in plain_ones)}


def _inside(offset: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < offset < end for start, end in spans)


def _nonfinite(node: Node) -> list[int]:
    """Return where numbers that are not finite stand."""
    if isinstance(node, Items):
        return [offset for item in node.items for offset in _nonfinite(item)]
    if isinstance(node, Members):
        return [offset for _, item in node.members for offset in _nonfinite(item)]
    return [node.start] if node.spelling in (b"NaN", b"Infinity", b"-Infinity") else []
