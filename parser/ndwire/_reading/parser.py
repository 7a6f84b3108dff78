"""The parser: scanner, assembler and orjson behind ``feed`` and ``close``.

Rules of the state machine:

* ``feed`` may be called any number of times, then ``close``. A second ``close`` returns the same document; ``feed``
  after ``close`` is a misuse.
* Arrays that were completed before a fault are returned first; the next call raises. A parser that has failed raises
  the same error from then on, and has let go of everything it held.
* The parser owns its scanner and its assembler, the scanner refers to the assembler, and nothing refers back: no ring,
  so that a dropped document frees its arrays at once. For the same reason a stored error keeps no traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypedDict

import orjson

from ndwire._contract.errors import IncompleteBody, WireError, copied
from ndwire._contract.field import Field
from ndwire._contract.json_text import BYTE_ORDER_MARK, parsed
from ndwire._contract.limits import Limits
from ndwire._contract.types import Allocate, BytesLike, JSONLoads, as_octets
from ndwire._reading.assembler import ArrayReady, Assembler
from ndwire._scanning.registry import registry_of
from ndwire._scanning.scanner import Scanner

_DEFAULT_LIMITS: Final = Limits()
# Other views than bytes and bytearray are copied, so much at a time.
_VIEW_WINDOW: Final = 1 << 20


class ReadOptions(TypedDict, total=False):
    """What every reading function passes on to ``Parser``, which documents it."""

    allocate: Allocate | None
    limits: Limits
    json_loads: JSONLoads


class Parser:
    """Reads one JSON body in pieces and cuts the arrays out of it while they arrive.

    Args:
        fields: The registered fields.
        content_length: The number of bytes that the body will have, where it is known and the body is not
            compressed. Lets a large array be decoded into memory of its size from the start, and ``close`` notice
            a short body.
        allocate: ``allocate(name, n_bytes)`` gives the memory for an array: a writable, C-contiguous uint8 array of at
            least ``n_bytes`` bytes that begins at a multiple of 8 bytes. ``n_bytes`` is an upper bound of what the
            array takes; the array's memory is then the beginning of that buffer.
        limits: What the body may hold.
        json_loads: Parses what remains of the JSON: text in, plain dicts, lists and scalars out, ``ValueError`` for
            text that it refuses. ``json.loads`` reads what orjson does not: NaN, Infinity, and lone surrogates.

    Raises:
        ValueError: Two fields of the same name, or a negative content length.
        TypeError: Something in ``fields`` is no ``Field``.
    """

    __slots__ = ("_assembler", "_closed", "_content_length", "_document", "_failure", "_json_loads", "_scanner")

    def __init__(
        self,
        fields: Iterable[Field],
        *,
        content_length: int | None = None,
        allocate: Allocate | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        json_loads: JSONLoads = orjson.loads,
    ) -> None:
        if content_length is not None and content_length < 0:
            raise ValueError(f"content_length must be at least 0, not {content_length}")
        registry = registry_of(fields)
        self._content_length = content_length
        self._json_loads = json_loads
        self._assembler: Assembler | None = Assembler(registry, limits, content_length, allocate)
        self._scanner: Scanner | None = Scanner(
            registry, self._assembler, tail_bytes=limits.remainder_bytes, list_bytes=limits.list_bytes
        )
        self._failure: WireError | RuntimeError | None = None
        self._closed = False
        self._document: Any = None

    def feed(self, chunk: BytesLike) -> list[ArrayReady]:
        """Take the next bytes of the body.

        Args:
            chunk: Any number of bytes; their memory may be reused as soon as this returns.

        Returns:
            The arrays that are now complete, in the order of the text.

        Raises:
            WireError: The body is broken. See the classes for what may be retried.
            RuntimeError: The parser is closed.
            TypeError: ``chunk`` is not bytes-like.
        """
        return self._take(chunk, 0)

    def _take(self, chunk: BytesLike, searched: int) -> list[ArrayReady]:
        octets = as_octets(chunk)
        scanner, assembler = self._working()
        try:
            if isinstance(octets, memoryview):
                for start in range(0, len(octets), _VIEW_WINDOW):
                    scanner.feed(bytes(octets[start : start + _VIEW_WINDOW]))
            else:
                scanner.feed(octets, searched)
        except WireError as error:
            ready = assembler.take()
            self._fail(error, deferred=bool(ready))
            if ready:
                return ready
            raise
        except BaseException:
            self._break()
            raise
        return assembler.take()

    def close(self) -> Any:
        """Say that the body has ended.

        Returns:
            The document, with the arrays in their places: bare, or as ``Packed`` for fields with ``sidecar=True``.

        Raises:
            WireError: The body is broken or ended early.
        """
        if self._closed:
            return self._document
        scanner, assembler = self._working()
        try:
            scanner.finish()
            if self._content_length is not None and scanner.n_bytes < self._content_length:
                raise IncompleteBody(
                    f"the body ends early: {self._content_length} bytes were announced", offset=scanner.n_bytes
                )
            document = assembler.document(self._json_loads)
        except WireError as error:
            self._fail(error)
            raise
        except BaseException:
            self._break()
            raise
        self._scanner = self._assembler = None
        self._closed = True
        self._document = document
        return document

    def _working(self) -> tuple[Scanner, Assembler]:
        if self._closed:
            raise RuntimeError("feed() after close()")
        if self._failure is not None:
            failure = self._failure
            if isinstance(failure, WireError):
                raise copied(failure) from failure.__cause__
            raise RuntimeError(str(failure))
        # Only close() and failing clear them.
        assert self._scanner is not None
        assert self._assembler is not None
        return self._scanner, self._assembler

    def _fail(self, error: WireError, *, deferred: bool = False) -> None:
        self._failure = copied(error)
        if deferred and error.__cause__ is not None:
            self._failure.__cause__ = error.__cause__.with_traceback(None)
            self._failure.__cause__.__context__ = None
        self._scanner = self._assembler = None

    def _break(self) -> None:
        """Something else than the body failed, such as the caller's ``allocate``."""
        self._failure = RuntimeError("the parser was stopped by an earlier exception")
        self._scanner = self._assembler = None


def loads(
    body: BytesLike,
    fields: Iterable[Field],
    *,
    allocate: Allocate | None = None,
    limits: Limits = _DEFAULT_LIMITS,
    json_loads: JSONLoads = orjson.loads,
) -> Any:
    """Read a complete body.

    Args:
        body: The bytes of a JSON document. A byte order mark before it is skipped.
        fields: The registered fields.
        allocate: As for ``Parser``.
        limits: As for ``Parser``.
        json_loads: As for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken.
        TypeError: ``body`` is not bytes-like.
    """
    octets = body if type(body) is bytes else as_octets(body, "a body")
    registry = registry_of(fields)
    first = None
    if not isinstance(octets, memoryview):
        first = registry.token.search(octets)
        if (
            first is None
            and not registry.has_escapes(octets)
            and not octets.startswith(BYTE_ORDER_MARK)
            and len(octets) <= limits.remainder_bytes
        ):
            try:
                return json_loads(octets)
            except (ValueError, RecursionError):
                # The error may hold the text once more: it is let go of.
                pass
            return parsed(octets, json_loads, locate=int, body_length=len(octets))
    parser = Parser(
        registry.fields, content_length=len(octets), allocate=allocate, limits=limits, json_loads=json_loads
    )
    parser._take(octets, first.start() if first is not None else 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # its own module
    return parser.close()
