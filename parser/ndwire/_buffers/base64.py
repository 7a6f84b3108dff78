r"""Strict base64: an incremental decoder of JSON string contents, and a streaming encoder.

The decoder takes the text of a JSON string in pieces of any size and writes the bytes to a buffer. It accepts the
canonical, padded form of RFC 4648 section 4 and nothing else, and understands the escapes of JSON strings (RFC 8259
section 7), which PHP (``\/``) and .NET (``\u002B``) write into base64.

Invariants:

* Text is judged in order, quad by quad. The first fault in the text is the one that is raised, however the text was
  cut: a bad quad as soon as its four characters are there, a character behind padding and an illegal escape at once.
* Small pieces wait in ``_pending`` until they are worth a call of the decoder. That delays an error, but moves
  nothing in front of it: ``finish`` and ``cut`` judge what is pending before anything else can happen.
* The fast path hands whole pieces to pybase64, and text with escapes to orjson first. Only where one of them refuses,
  ``_careful`` looks at the text itself.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from collections.abc import Iterator
from typing import Any, Final, Protocol

import orjson
import pybase64
from numpy.typing import NDArray

from ndwire._contract.dtypes import little_endian
from ndwire._contract.errors import MalformedArray, MalformedJSON
from ndwire._contract.strings import odd_backslashes

# Less text than this is not worth a call of its own.
_COALESCE: Final = 32 << 10
_EQUALS: Final = ord("=")
_BACKSLASH: Final = ord("\\")
_QUOTE: Final = ord('"')

_WHOLE_QUADS: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*")
_PADDED_QUAD: Final = re.compile(rb"[A-Za-z0-9+/](?:[AQgw]==|[A-Za-z0-9+/][AEIMQUYcgkosw048]=)")
_ESCAPE: Final = re.compile(rb'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPE_PREFIX: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_LONGEST_PREFIX: Final = len(rb"\uABC")
_LETTERS: Final = re.compile(rb"[A-Za-z0-9+/=]*\Z")
_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
# Stands for an escaped character that base64 does not have, so that its quad fails.
_FOREIGN: Final = b"\xff"


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code is None:
        return b"/" if match[2] == b"/" else _FOREIGN
    value = int(code, 16)
    return bytes((value,)) if value in _ALPHABET else _FOREIGN


def decode(text: bytes | bytearray | memoryview) -> bytes:
    """Decode complete base64 text in one call.

    Raises:
        binascii.Error: The text is not canonical, padded base64.
    """
    if len(text) and text[-1] == _EQUALS:
        return pybase64.b64decode(text, None, True, canonical=True)
    return pybase64.b64decode(text, None, True)


def decode_as_bytearray(text: bytes | bytearray | memoryview) -> bytearray:
    """Decode complete base64 text into memory that can be an array's.

    Raises:
        binascii.Error: The text is not canonical, padded base64.
    """
    if len(text) and text[-1] == _EQUALS:
        return pybase64.b64decode_as_bytearray(text, None, True, canonical=True)
    return pybase64.b64decode_as_bytearray(text, None, True)


class Output(Protocol):
    """Takes decoded bytes."""

    size: int
    """How many it has taken."""

    def write(self, decoded: bytes | bytearray) -> None:
        """Append bytes, which become the output's own."""
        ...


class Base64Decoder:
    """Decodes the text between the quotes of one JSON string.

    Args:
        out: Takes the bytes.
        value_offset: The value's first byte in the body; errors of base64 carry it.
        text_offset: The first byte of the text in the body.
        name: The field's name, for errors.
        wire: What the string is read as, for errors.
    """

    __slots__ = ("_end", "_name", "_out", "_padded", "_pending", "_value_offset", "_wire")

    def __init__(self, out: Output, value_offset: int, text_offset: int, *, name: str, wire: str) -> None:
        self._out = out
        self._name = name
        self._wire = wire
        self._value_offset = value_offset
        self._end = text_offset  # the body's offset behind all text seen, pending or not
        self._pending = bytearray()  # text that is not decoded yet; after _careful it holds no complete quad
        self._padded = False

    def feed(self, data: bytes | bytearray, i: int, j: int) -> None:
        """Take ``data[i:j]``, with more text to come.

        Raises:
            MalformedArray, MalformedJSON, LimitExceeded: See the module's docstring.
        """
        if self.feed_plain(data, i, j):
            return
        self._pending += data[i:j]
        self._end += j - i
        if len(self._pending) >= _COALESCE:
            self._decode_pending(last=False)

    def feed_plain(self, data: bytes | bytearray, i: int, j: int) -> bool:
        """Take ``data[i:j]``, with more text to come, if it is unescaped base64; it may hold the closing quote as well.

        That the text decodes says that no quote is in it, so nobody has to look for one.

        Returns:
            Whether it was taken. If not, nothing has changed.

        Raises:
            MalformedArray, LimitExceeded: See the module's docstring.
        """
        pending = self._pending
        begin = i + -len(pending) % 4
        end = j - (j - begin) % 4
        if len(pending) > 3 or self._padded or end - begin < _COALESCE:
            return False
        # Padding ends the text, and what is not decoded here may not be anything else than letters.
        edges = pending + data[i:begin] + data[end - 1 : j]
        if _QUOTE in edges or _BACKSLASH in edges or _EQUALS in edges:
            return False
        view = memoryview(data)[begin:end]
        try:
            decoded = decode(view)
        except Base64Error:
            return False
        finally:
            view.release()
        if pending:
            pending += data[i:begin]
            self._end += begin - i
            self._decode_pending(last=False)
            self._end += i - begin
        self._out.write(decoded)
        self._end += j - i
        self._pending += data[end:j]
        return True

    def finish(self, data: bytes | bytearray, i: int, j: int) -> None:
        """Take the last text, ``data[i:j]``: the string's closing quote follows.

        Raises:
            MalformedArray, MalformedJSON, LimitExceeded: See the module's docstring.
        """
        if not self._pending and not self._out.size and not self._padded:
            # The whole blob in one piece: decode it straight into the array's memory.
            text = data[i:j]
            try:
                decoded = decode_as_bytearray(text)
            except Base64Error:
                pass
            else:
                self._end += j - i
                self._out.write(decoded)
                return
        self.feed(data, i, j)
        self._decode_pending(last=True)

    def cut(self) -> None:
        """The body ended within the string: judge what is complete of it.

        Raises:
            MalformedArray, MalformedJSON, LimitExceeded: See the module's docstring.
        """
        self._decode_pending(last=False)

    def _fast(self, text: memoryview) -> bytes:
        """Decode whole quads; raise binascii.Error for all that needs a closer look."""
        if self._padded and len(text):
            raise Base64Error
        decoded = decode(text)
        if len(text):
            self._padded = text[-1] == _EQUALS
        return decoded

    def _decode_pending(self, *, last: bool) -> None:
        text = bytes(self._pending)
        whole = len(text) if last else len(text) - len(text) % 4
        try:
            decoded = self._fast(memoryview(text)[:whole])
        except Base64Error:
            self._pending.clear()
            if not self._decode_escaped(text, last=last):
                self._careful(text, last=last)
            return
        self._out.write(decoded)
        rest = text[whole:]
        self._pending = bytearray(rest)
        if rest and (self._padded or _BACKSLASH in rest):
            # Too little for a quad, but not too little to be wrong.
            self._pending.clear()
            self._careful(rest, last=last)

    def _decode_escaped(self, text: bytes, *, last: bool) -> bool:
        """Decode ``text``, which is all that is pending, if it has escapes and no fault; else change nothing."""
        if _BACKSLASH not in text:
            return False
        partial = b"" if last else _cut_escape(text)
        try:
            plain: bytes = orjson.loads(b'"%b"' % text[: len(text) - len(partial)]).encode("ascii")
            whole = len(plain) if last else len(plain) - len(plain) % 4
            rest = plain[whole:]
            if not _LETTERS.match(rest):
                return False
            decoded = self._fast(memoryview(plain)[:whole])
        except (orjson.JSONDecodeError, UnicodeEncodeError, Base64Error):
            return False
        self._out.write(decoded)
        if rest and self._padded:
            raise self._bad_character(rest)
        self._pending = bytearray(rest + partial)
        return True

    def _careful(self, text: bytes, *, last: bool) -> None:
        """Decode ``text``, which is all that is pending, and find its first fault."""
        bad_escape = -1
        partial = b""
        plain = text.replace(rb"\/", b"/")
        if _BACKSLASH in plain:
            bad_escape, partial = self._judge_escapes(text, last=last)
            stop = bad_escape if bad_escape >= 0 else len(text) - len(partial)
            plain = _ESCAPE.sub(_unescape, text[:stop])
        good = self._decode_quads(plain)
        rest = plain[good:]
        if rest and (self._padded or len(rest) >= 4):
            raise self._bad_character(rest)
        if bad_escape >= 0:
            message = f"{self._name!r} has an illegal escape in its base64"
            raise MalformedJSON(message, offset=self._end - len(text) + bad_escape)
        if last and rest:
            raise self._malformed(f"base64 that ends within a group of four characters, {_quoted(rest)}")
        self._pending = bytearray(rest + partial)

    @staticmethod
    def _judge_escapes(text: bytes, *, last: bool) -> tuple[int, bytes]:
        """Return where the first illegal escape stands (or -1), and an escape that the text's end cuts."""
        at = text.find(b"\\")
        while at >= 0:
            escape = _ESCAPE.match(text, at)
            if escape is None:
                if not last and _ESCAPE_PREFIX.match(text, at):
                    return -1, text[at:]
                return at, b""
            at = text.find(b"\\", escape.end())
        return -1, b""

    def _decode_quads(self, plain: bytes) -> int:
        """Decode the good quads that ``plain`` begins with and return where they end."""
        if self._padded:
            return 0
        quads = _WHOLE_QUADS.match(plain)
        good = quads.end() if quads else 0
        if _PADDED_QUAD.match(plain, good):
            good += 4
            self._padded = True
        self._out.write(decode(plain[:good]))
        return good

    def _bad_character(self, rest: bytes) -> MalformedArray:
        if self._padded:
            return self._malformed("base64 that goes on behind its padding")
        quad = rest[:4]
        bad = next((quad[k : k + 1] for k in range(len(quad)) if quad[k] not in _ALPHABET), quad)
        return self._malformed(f"base64 in which {_quoted(bad)} does not belong")

    def _malformed(self, what: str) -> MalformedArray:
        return MalformedArray(f"{self._name!r}, read as {self._wire}, has {what}", offset=self._value_offset)


def _quoted(text: bytes) -> str:
    """Return characters of base64, in which escapes that do not belong there were replaced."""
    return "an escaped character" if text == _FOREIGN else repr(text)[1:]


def _cut_escape(text: bytes) -> bytes:
    """Return the beginning of an escape that ``text`` ends with; nothing if it ends with none."""
    prefix = _ESCAPE_PREFIX.search(text, max(len(text) - _LONGEST_PREFIX, 0))
    if prefix is None or odd_backslashes(text, 0, prefix.start(), 0):
        return b""
    return prefix[0]


def encoded_length(n_bytes: int) -> int:
    """Return the number of characters that ``n_bytes`` bytes take in padded base64."""
    return (n_bytes + 2) // 3 * 4


def encode_pieces(array: NDArray[Any], piece_bytes: int) -> Iterator[bytes]:
    """Yield the base64 of the array's bytes, in C order and little-endian, in pieces.

    At no time is there a second copy of the array: strided and byte-swapped arrays are gathered piece by piece.

    Args:
        array: Any dtype of the table, any layout.
        piece_bytes: About how many characters a piece has.
    """
    dtype = little_endian(array.dtype)
    # Whole groups of three items encode to whole groups of four characters, whatever the itemsize.
    step = max(piece_bytes // 4 // array.itemsize, 1) * 3
    if array.flags.c_contiguous and array.dtype == dtype:
        flat = array.reshape(-1).view("u1")
        step *= array.itemsize
        for start in range(0, flat.size, step):
            yield pybase64.b64encode(flat[start : start + step].data)
        return
    items = array.flat
    for start in range(0, array.size, step):
        piece = items[start : start + step]
        yield pybase64.b64encode(piece.astype(dtype, copy=False).view("u1").data)
