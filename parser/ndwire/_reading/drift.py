"""Arrays that could not be cut out of the text: where they stand, and what is wrong with them.

Both searches are made only of documents that have such an array, or an escape that may spell a name, and once. They go
through the keys of valid JSON; see ``Registry.value``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from ndwire._contract.errors import ContractError, LayoutDrift, MalformedArray, WireError
from ndwire._contract.limits import Limits
from ndwire._contract.strings import skip_space
from ndwire._scanning.list_text import ListText, Verdict
from ndwire._scanning.opening import Opening
from ndwire._scanning.registry import Entry, Registry
from ndwire._wires.nested import read_list
from ndwire._wires.npy import MAGIC_BASE64

_FIRST_MEMBER: Final = re.compile(rb'\{[ \t\n\r]*+"')
_NULL: Final = ord("n")


def packed_objects(text: bytes | bytearray, registry: Registry, mark: str) -> tuple[bytearray, list[int]]:
    """Put a member named ``mark`` into each object that may be an envelope.

    Args:
        text: Valid JSON.
        registry: The fields. Objects under the names of those that read envelopes are marked, in any spelling.
        mark: A name that does not occur in ``text``. The member's value is the object's number.

    Returns:
        The new text, and where each object begins in the old one, by its number.
    """
    marked = bytearray()
    positions: list[int] = []
    copied = 0
    for match in registry.value.finditer(text):
        at = match.end()
        entry = registry.entry_of(match[1]) if _FIRST_MEMBER.match(text, at) else None
        if entry is not None and entry.field.name in registry.packed:
            marked += text[copied : at + 1]
            marked += b'"%b":%d,' % (mark.encode(), len(positions))
            positions.append(at)
            copied = at + 1
    marked += text[copied:]
    return marked, positions


def drift(name: str, value: dict[str, Any], offset: int) -> LayoutDrift:
    """Return the error for an object that has all of an envelope's members, and could not be cut out."""
    first = next(iter(value))
    if first != "data":
        why = f"it opens with {first[:40]!r}"
    elif isinstance(value["data"], str):
        why = "its first key, or the field's name, is spelled with escapes"
    else:
        why = f"data holds a {type(value['data']).__name__}"
    return LayoutDrift(
        f"{name!r} holds a packed array that does not open with a string under data, so it cannot be cut out: {why}",
        offset=offset,
    )


def escaped_values(
    text: bytes | bytearray, registry: Registry, limits: Limits, mark: str, locate: Callable[[int], int]
) -> Iterator[ContractError]:
    """Find what would have been an array, had its name not been spelled with escapes.

    Of objects only those that open as envelopes are found; ``packed_objects`` finds the others.

    Args:
        text: Valid JSON.
        registry: The fields.
        limits: Those of the body.
        mark: What the strings begin with that stand for arrays which were cut out.
        locate: Maps an offset in ``text`` to one in the body.

    Yields:
        ``LayoutDrift`` for what its field would have read, ``MalformedArray`` for what else a required field
        may not hold.
    """
    for match in registry.value.finditer(text):
        spelling = match[1]
        entry = registry.entry_of(spelling) if spelling not in registry.entries else None
        if entry is None:
            continue
        at = match.end()
        name = entry.field.name
        if _is_array(entry, text, at, limits, mark.encode()):
            message = f"{name!r} holds an array, but the name is spelled with escapes, so it could not be cut out"
            yield LayoutDrift(message, offset=locate(at))
        elif entry.required and text[at] != _NULL:
            message = (
                f"{name!r} is to hold an array or null; its name is spelled with escapes, and what it holds is none"
            )
            yield MalformedArray(message, offset=locate(at))


def _is_array(entry: Entry, text: bytes | bytearray, at: int, limits: Limits, mark: bytes) -> bool:
    """Return whether the value at ``at`` is read as an array, or claims to be one and is broken."""
    if text.startswith(b"{", at):
        end, verdict = Opening(skip_space).take(text, at, len(text))
        return entry.reads_envelopes and verdict is Verdict.COMPLETE and not text.startswith(mark, end)
    if text.startswith(b'"', at):
        return entry.reads_raw or (entry.reads_npy and text.startswith(MAGIC_BASE64, at + 1))
    if not entry.reads_lists or not text.startswith(b"[", at):
        return False
    numbers = ListText()
    if numbers.take(text, at, len(text))[1] is not Verdict.COMPLETE:
        return False
    try:
        return read_list(entry.field, numbers.runs, None if numbers.flat else numbers.skeletons, limits, at) is not None
    except WireError:
        return True
