"""What the scanner pushes into: the parser's assembler, and whoever rewrites text instead of building arrays."""

from __future__ import annotations

from typing import Literal, Protocol

from ndwire._scanning.registry import Entry
from ndwire._wires.numbers.flat import FlatKind

Data = bytes | bytearray
BlobWire = Literal["envelope", "npy", "raw"]
"""The wires whose values hold base64."""


class Sink(Protocol):
    """What the scanner pushes into."""

    passes_envelopes: bool
    """Whether an envelope's opening and the members behind its base64 come as text, as soon as they are there.

    Else they go to ``open`` and to ``end``.
    """

    def text(self, data: Data, i: int, j: int) -> None:
        """``data[i:j]`` is ordinary JSON text."""
        ...

    def suspect(self) -> None:
        """An object with members stands under a name, but does not open as an envelope; it comes as text."""
        ...

    def ordinary(self, entry: Entry, first: int, offset: int) -> None:
        """A required field holds something else than an array or null at ``offset``. It comes as text if this returns.

        ``first`` is the byte that the value begins with.
        """
        ...

    def open(self, wire: BlobWire, entry: Entry, head: bytes, offset: int) -> None:
        """A value with base64 begins at ``offset``. ``head`` ends with the quote before the base64.

        It is all of the opening, or what has not come as text of it.
        """
        ...

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        """``data[i:j]`` is text of the base64; ``last`` says that the closing quote follows."""
        ...

    def bulk(self, data: Data, i: int, j: int) -> bool:
        """Take ``data[i:j]`` like ``part`` if it is seen to be base64 and nothing else; False: look at it closely."""
        ...

    def end(self, tail: bytes, tail_offset: int) -> None:
        """The value ends. ``tail`` is all of an envelope behind the closing quote, including the brace."""
        ...

    def whole(self, entry: Entry, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        """A short envelope stands complete in ``data[opening:end]``, its base64 in ``data[first:quote]``.

        False: take it the general way. Where the end was guessed wrong, the sink says so as well.
        """
        ...

    def numbers(self, entry: Entry, runs: list[Data], skeletons: list[Data] | None, offset: int) -> bool:
        """A complete list without strings and objects in it. False: it is no array, and comes again as text.

        The runs are its text. The skeletons are the text without the characters of numbers, in pieces of their own;
        None for a list without lists in it.
        """
        ...

    def flat(self, entry: Entry, text: bytes, kind: FlatKind, offset: int) -> bool:
        """A complete, short list of nothing but numbers and white space. False: it comes again as text."""
        ...

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        """The body, or the line, ended within the base64 (``tail`` is None) or within the tail."""
        ...
