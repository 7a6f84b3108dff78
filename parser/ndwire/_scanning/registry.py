"""Registry: a sequence of fields, compiled into what the scanner and the parser look things up in."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Final

import orjson

from ndwire._contract.field import Field
from ndwire._contract.strings import skip_space, skip_space_in_line
from ndwire._wires.spec import Meta

_SPACE: Final = rb"[ \t\n\r]*+"
_SPACE_IN_LINE: Final = rb"[ \t]*+"

_CACHED_TAILS: Final = 128
# What a value may begin with that is not null; the last two are those of NaN and Infinity.
_NOT_NULL: Final = b'{"[tf-0123456789NI'
# So short a text is searched for each of so few names faster than for all of them at once.
_SHORT: Final = 4 << 10
_FEW: Final = 4


class Entry:
    """One field of a registry, with the tails of its envelopes that are known to be good."""

    __slots__ = ("field", "openers", "reads_envelopes", "reads_lists", "reads_npy", "reads_raw", "required", "tails")

    def __init__(self, field: Field, *, any_envelope: bool) -> None:
        self.field = field
        self.reads_envelopes = any_envelope or "envelope" in field.wires
        self.reads_npy = "npy" in field.wires
        self.reads_raw = field.raw_dtype is not None
        self.reads_lists = "nested" in field.wires
        # The first bytes of the values that need a closer look.
        self.openers = b"{" * self.reads_envelopes + b'"' * (self.reads_npy or self.reads_raw) + b"[" * self.reads_lists
        self.required = field.required
        if self.required:
            self.openers = _NOT_NULL
        self.tails: dict[bytes, Meta] = {}

    def remember(self, tail: bytes, meta: Meta) -> None:
        """Keep what ``tail`` means. The number of tails kept is bounded: a peer chooses them."""
        if len(self.tails) >= _CACHED_TAILS:
            self.tails.clear()
        self.tails[tail] = meta


def _spellings(name: str) -> set[bytes]:
    r"""Return the forms of a key that are looked for: UTF-8, Python's escapes, and both as PHP writes ``\/``."""
    escaped = name.encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(escaped[k : k + 2], "big") for k in range(0, len(escaped), 2))
    plain = {name.encode(), b"".join(bytes((unit,)) if unit < 0x80 else b"\\u%04x" % unit for unit in units)}
    return plain | {spelling.replace(b"/", rb"\/") for spelling in plain}


class Registry:
    """Fields by name, and the patterns that find them.

    Args:
        fields: The fields.
        any_envelope: Whether envelopes are recognised under every name, whatever the field reads.
        lines: Whether the text is a document per line, of which none goes on in the next.

    Attributes:
        fields: The fields, in the caller's order.
        entries: Spelling of a name, without quotes -> entry.
        names: The names as they stand in a parsed document.
        key: Finds ``"name"`` and looks at what follows it. Group 1 is the spelling, group 2 the colon, group 3 the
            opening of an envelope up to and including the quote before its base64.
        token: Finds ``"name"``.
        tokens: Every ``"name"``.
        prefixes: The proper prefixes of ``"name"``, for text that ends within one.
        longest: The length of the longest ``"name"``.
        escapes: Finds an escape that could spell a character of a name.
        value: Finds a key and the colon behind it, in valid JSON: one that is looked for, or any that has an escape.
            Group 1 is its spelling; the value begins where the match ends.
        packed: The names whose fields read envelopes.
        lines: As above.
        skip_space: Returns the index behind the white space that may stand between tokens.
    """

    __slots__ = (
        "entries",
        "escapes",
        "fields",
        "key",
        "lines",
        "longest",
        "names",
        "packed",
        "prefixes",
        "skip_space",
        "token",
        "tokens",
        "value",
    )

    def __init__(self, fields: Iterable[Field], *, any_envelope: bool = False, lines: bool = False) -> None:
        self.fields = tuple(fields)
        self.entries: dict[bytes, Entry] = {}
        for field in self.fields:
            if not isinstance(field, Field):
                raise TypeError(f"fields must be a sequence of Field, not of {type(field).__name__}")
            entry = Entry(field, any_envelope=any_envelope)
            for spelling in _spellings(field.name):
                if spelling in self.entries:
                    raise ValueError(f"the field {field.name!r} is registered twice")
                self.entries[spelling] = entry
        self.names = frozenset(field.name for field in self.fields)
        self.lines = lines
        self.skip_space = skip_space_in_line if lines else skip_space
        space = _SPACE_IN_LINE if lines else _SPACE
        # "(?!)" matches nothing, where nothing is registered.
        names = b"|".join(map(re.escape, self.entries)) or rb"(?!)"
        member = space + rb"(:)" + space
        envelope = space.join((rb"(\{", rb'"data"', rb":", rb'")'))
        self.token = re.compile(rb'"(' + names + rb')"')
        self.key = re.compile(rb'"(' + names + rb')"(?:' + member + envelope + rb"?)?")
        self.tokens = tuple(b'"' + spelling + b'"' for spelling in self.entries)
        self.prefixes = frozenset(token[:k] for token in self.tokens for k in range(1, len(token)))
        self.longest = max(map(len, self.tokens), default=0)
        escapes = rb"\\u00[2-7]" if all(map(str.isascii, self.names)) else rb"\\u"
        if any("/" in name for name in self.names):
            escapes += rb"|\\/"
        self.escapes = re.compile(escapes)
        self.value = re.compile(
            # An opening quote has no backslash before it, and one that closes a string is followed by none before the
            # next quote: so a match may be looked for from anywhere. Nothing in it can be taken in two ways.
            rb'(?<!\\)"(' + names + rb'|(?:[^"\\]*+\\.)++[^"\\]*+)"' + space + rb":" + space,
            re.DOTALL,
        )
        self.packed = frozenset(field.name for field in self.fields if "envelope" in field.wires)

    def has_escapes(self, text: bytes | bytearray) -> bool:
        """Return whether ``text`` has an escape that could spell a character of a name."""
        first = text.find(b"\\")
        return first >= 0 and self.escapes.search(text, first) is not None

    def entry_of(self, spelling: bytes) -> Entry | None:
        """Return the entry of the name that is spelled so in JSON text, with any escapes; None if it is no name."""
        entry = self.entries.get(spelling)
        if entry is None and b"\\" in spelling:
            try:
                entry = self.entries.get(orjson.loads(b'"%b"' % spelling).encode())
            except orjson.JSONDecodeError:
                # Half of a surrogate pair, which some JSON parsers read, and no name has.
                return None
        return entry

    def may_occur(self, data: bytes | bytearray, i: int, n: int) -> bool:
        """Return False only if no ``"name"`` stands in ``data[i:n]``, and that was quick to find out."""
        if n - i > _SHORT or len(self.tokens) > _FEW:
            return True
        for token in self.tokens:  # noqa: SIM110 - any() would make a generator, for what takes half a microsecond
            if data.find(token, i, n) >= 0:
                return True
        return False

    def is_absent(self, data: bytes) -> bool:
        """Return True only if no ``"name"`` begins in ``data`` or with what comes next, and that was quick to see."""
        n = len(data)
        return not self.may_occur(data, 0, n) and not data.endswith(b"\\") and self.prefix_at_end(data, 0, n) == n

    def prefix_at_end(self, data: bytes | bytearray, i: int, n: int) -> int:
        """Return where a proper prefix of some ``"name"`` begins that ``data[i:n]`` ends with; ``n`` for none."""
        quote = data.rfind(b'"', max(i, n - self.longest + 1), n)
        return quote if quote >= 0 and bytes(data[quote:n]) in self.prefixes else n


def registry_of(fields: Iterable[Field]) -> Registry:
    """Return the registry of ``fields``, compiled once.

    Raises:
        TypeError: Something in it is no ``Field``.
        ValueError: A name stands in it twice.
    """
    last, registry = _last[0]
    if fields is last:
        return registry
    frozen = fields if type(fields) is tuple else tuple(fields)
    try:
        registry = _compiled(frozen)
    except TypeError:
        # Something that cannot be hashed is no field: Registry says so.
        return Registry(frozen)
    _last[0] = (frozen, registry)
    return registry


_compiled = functools.lru_cache(maxsize=256)(Registry)
# The last tuple that was looked up: tiny bodies come with the same one again and again.
_last: Final[list[tuple[tuple[Field, ...], Registry]]] = [((), Registry(()))]
