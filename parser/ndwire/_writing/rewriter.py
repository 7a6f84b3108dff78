"""The rewriter: JSON text in, the same text with the arrays of registered fields as envelopes out.

Text goes out as it comes in; held back are only an unfinished token, and a value that may become an envelope, until it
ends. Everything that is not rewritten goes out byte for byte.

Invariants:

* ``RewritingSink.position`` counts the bytes of the body that have gone out, as text or within a ``Held``, which can
  give its text back. So what has not gone out is known at any moment: ``Rewriter`` keeps those bytes as they came.
* Nothing that a body holds makes ``feed`` raise. A fault of this code, whatever and wherever it is, ends the rewriting:
  what has not gone out, and all that follows, goes out as it came.
* A value goes out as it came if its text has more than ``max_hold_bytes``, however it was cut.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from ndwire._contract.field import Field
from ndwire._contract.types import BytesLike, as_octets
from ndwire._scanning.list_text import append_run
from ndwire._scanning.registry import Registry
from ndwire._scanning.scanner import Scanner
from ndwire._scanning.sink import Data
from ndwire._writing.held import Held
from ndwire._writing.rewriting_sink import RewritingSink

DEFAULT_MAX_HOLD_BYTES: Final = 256 << 20
"""A 128k-token sample of 48 x 8 routes as nested text is 200 MB."""

_UNBOUNDED: Final = 1 << 62
_WINDOW: Final = 1 << 20

TextFraming = Literal["document", "lines", "events"]
"""How documents stand in a text."""


def _registry(fields: Iterable[Field], *, lines: bool) -> Registry:
    """Return the registry of ``fields``, compiled and checked once."""
    last, registry = _last[lines]
    if fields is last:
        return registry
    frozen = tuple(fields)
    for field in frozen:
        if not isinstance(field, Field):
            raise TypeError(f"fields must be a sequence of Field, not of {type(field).__name__}")
        if "nested" in field.wires and field.dtypes is None:
            raise ValueError(
                f"the field {field.name!r} reads nested lists, so its dtypes must be named here: by default small "
                'integers would become int64. dtypes=("uint8", "int16", "int32", "float32") takes the first that '
                "holds the values"
            )
    registry = _compiled(frozen, lines=lines)
    _last[lines] = (frozen, registry)
    return registry


@functools.lru_cache(maxsize=256)
def _compiled(fields: tuple[Field, ...], *, lines: bool) -> Registry:
    return Registry(fields, any_envelope=True, lines=lines)


# The last tuples that were looked up, of documents and of lines: a server comes with the same ones again and again.
_last: Final[list[tuple[tuple[Field, ...], Registry]]] = [((), Registry(())), ((), Registry((), lines=True))]


class Rewriter:
    """Turns arrays in JSON text into envelopes while the text arrives.

    Nested lists, ``.npy`` strings and raw strings under the names of fields that read them become envelopes, in the
    first of the field's dtypes that holds the values. Envelopes, ordinary JSON, arrays that the field does not allow
    and text that is no JSON go out byte for byte.

    Args:
        fields: The registered fields. Those that read nested lists must name their dtypes.
        framing: ``"document"``; ``"lines"`` for a document per line, as in NDJSON; ``"events"`` for an event stream,
            of which the lines of ``data`` are rewritten. In the latter two a CR or LF ends every value.
        max_hold_bytes: A value of more bytes of text goes out as it came.
        min_bytes: So does a value of fewer bytes of text.

    Attributes:
        fields: The names of the fields that were rewritten so far, each with the number of its values, but for those
            that are within a ``Held``.
        fault: What went wrong in here, if anything did; the text goes out as it came since then.

    Raises:
        ValueError: A field that reads nested lists has no dtypes, or two fields have the same name.
        TypeError: Something in ``fields`` is no ``Field``.
    """

    __slots__ = (
        "_fed",
        "_max_hold_bytes",
        "_n_kept",
        "_passing",
        "_registry",
        "_runs",
        "_scanner",
        "_sink",
        "fault",
        "fields",
    )

    def __init__(
        self,
        fields: Iterable[Field],
        *,
        framing: TextFraming = "document",
        max_hold_bytes: int = DEFAULT_MAX_HOLD_BYTES,
        min_bytes: int = 0,
    ) -> None:
        if framing not in ("document", "lines", "events"):
            raise ValueError(f'framing must be "document", "lines" or "events", not {framing!r}')
        if max_hold_bytes < 0:
            raise ValueError(f"max_hold_bytes must be at least 0, not {max_hold_bytes}")
        if min_bytes < 0:
            raise ValueError(f"min_bytes must be at least 0, not {min_bytes}")
        self.fields: dict[str, int] = {}
        self.fault: Exception | None = None
        self._max_hold_bytes = max_hold_bytes
        self._sink = RewritingSink(max_hold_bytes, min_bytes, self.fields, events=framing == "events")
        self._registry = _registry(fields, lines=framing != "document")
        self._scanner: Scanner | None = None  # most texts need none
        self._fed = 0  # to the scanner
        self._runs: list[Data] = []  # what has come in and not gone out
        self._n_kept = 0  # the bytes in them
        self._passing = False

    @property
    def n_held(self) -> int:
        """The number of bytes that have come in and not gone out."""
        return 0 if self._passing else self._fed - self._sink.position

    @property
    def holds_value(self) -> bool:
        """Whether what is held begins with a value, in front of which JSON allows white space."""
        if not self.n_held or self._scanner is None or self._sink.is_elsewhere():
            return False
        return self._sink.holds_string or self._scanner.holds_value

    def feed(self, data: BytesLike) -> list[bytes | Held]:
        """Take the next bytes of the text.

        Args:
            data: Any number of bytes; their memory may be reused as soon as this returns.

        Returns:
            What goes out, in order: text, and long values that are still to be rendered. All of what ``data`` and what
            was held before became, but for what is held now.
        """
        octets = data if type(data) is bytes else bytes(as_octets(data))
        if self._passing:
            return [octets] if octets else []
        try:
            if self._scanner is None:
                if self._registry.is_absent(octets):
                    self._sink.see(octets, 0, len(octets))
                    return [octets] if octets else []
                self._scanner = Scanner(self._registry, self._sink, tail_bytes=_UNBOUNDED, list_bytes=_UNBOUNDED)
            self._scanner.feed(octets)
            if self._scanner.n_bytes - self._sink.position > self._max_hold_bytes:
                self._sink.let_go()
                self._scanner.let_go()
            self._remember(octets)
        except Exception as exc:
            self.fault = exc
            self._passing = True
            return [*self._sink.take(), *self._unsent(octets)]
        self._fed += len(octets)
        return self._sink.take()

    def let_go(self) -> list[bytes | Held]:
        """Return the value that is held, as it came, and look at it no more. What is no value yet stays held."""
        most, self._max_hold_bytes = self._max_hold_bytes, 0
        out = self.feed(b"")
        self._max_hold_bytes = most
        return out

    def close(self) -> list[bytes]:
        """Return what is held, as it came: the text has ended. If more comes, it goes out as it came, too."""
        if self._passing:
            return []
        self._passing = True
        return self._unsent(b"") if self._runs else []

    def _remember(self, data: bytes) -> None:
        """Keep the bytes that have not gone out, ``data`` among them."""
        held = self._fed + len(data) - self._sink.position
        if held <= len(data):
            self._runs = [data[len(data) - held :]] if held else []
            self._n_kept = held
            return
        # A value is held from its first byte until all of it goes out, so that none of what was kept has gone.
        append_run(self._runs, data)
        self._n_kept += len(data)

    def _unsent(self, data: bytes) -> list[bytes]:
        """Return all that has come in, ``data`` last, and has not gone out."""
        runs = [*self._runs, data]
        gone = self._sink.position - (self._fed - self._n_kept)
        self._runs.clear()
        self._n_kept = 0
        out: list[bytes] = []
        for run in runs:
            taken = min(gone, len(run))
            gone -= taken
            if taken < len(run):
                out.append(bytes(run[taken:]))
        return out


def rewrite(
    text: BytesLike,
    fields: Iterable[Field],
    *,
    framing: TextFraming = "document",
    max_hold_bytes: int = DEFAULT_MAX_HOLD_BYTES,
    min_bytes: int = 0,
) -> bytes:
    """Turn the arrays in complete JSON text into envelopes.

    Args:
        text: A JSON document, or several as ``framing`` says.
        fields: As for ``Rewriter``.
        framing: As for ``Rewriter``.
        max_hold_bytes: As for ``Rewriter``.
        min_bytes: As for ``Rewriter``.

    Returns:
        The text with envelopes in the place of nested lists, ``.npy`` strings and raw strings of the fields.

    Raises:
        ValueError, TypeError: As ``Rewriter``.
    """
    rewriter = Rewriter(fields, framing=framing, max_hold_bytes=max_hold_bytes, min_bytes=min_bytes)
    view = memoryview(as_octets(text, "a text"))
    # In windows: so the small pieces that it may go out in do not pile up.
    out = [_rendered(rewriter.feed(view[start : start + _WINDOW])) for start in range(0, len(view), _WINDOW)]
    return b"".join([*out, *rewriter.close()])


def _rendered(items: Sequence[bytes | Held]) -> bytes:
    pieces: list[bytes] = []
    for item in items:
        if isinstance(item, Held):
            pieces += item.render().pieces
        else:
            pieces.append(item)
    return b"".join(pieces)
