"""Bodies out of a grammar, with junk at the boundaries of their tokens: what mutation alone seldom finds."""

from __future__ import annotations

import base64
import io
import random
import re
from typing import Final

import numpy as np

_KEYS: Final = (
    *(
        b'"x"',
        b'"x"',
        b'"x"',
        b'"a"',
        b'"a"',
        b'"data"',
        b'"shape"',
        b'"dtype"',
        b'"xx"',
        b'"b"',
        b'"x "',
        b'"\\u0078"',
    ),
    *(
        b'"\xc3\xa4/b"',
        b'"\\u00e4/b"',
        b'"\\u00E4/b"',
        b'"\xc3\xa4\\/b"',
        b'"\\u00e4\\/b"',
        b'"\xc3\xa4\\u002fb"',
        b'"\\u0061"',
    ),
)
_SPACES: Final = (b" ", b"\n", b"\r\n", b"\t ")
_NUMBERS: Final = (
    *(b"1", b"0", b"2", b"255", b"300", b"-5", b"70000", b"2049", b"16777216", b"16777217", b"-0", b"65505", b"65520"),
    *(b"1.5", b"0.1", b"1e3", b"-0.0", b"1e-8", b"1e30", b"1e39", b"1e300", b"1e-300", b"5e-324", b"3.5e38"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551615"),
    *(b"18446744073709551616", b"1180591620717411303424", b"9007199254740993"),
)
_WORDS: Final = (b"null", b"true", b"false")
_STRINGS: Final = (
    b'"s"',
    b'"x"',
    b'""',
    b'"\\"x\\":[1]"',
    b'"k05"',
    b'"AAAA"',
    b'"AA=="',
    b'"\\ud83d\\ude00"',
    b'"AA\\u003d="',
)
_BLOBS: Final = (
    b"",
    b"AAAA",
    b"AAECAwQF",
    b"AA==",
    b"AAAAAAAA",
    b"AAA\\/",
    b"\\u0041AAA",
    b"AAAA\\u002f///",
    b"AB==",
    b"AAA",
)
_SHAPES: Final = (
    b"-1",
    b"1.0",
    b"true",
    b'"1"',
    b"[1]",
    b"0",
    b"1,0",
    b"9223372036854775808,0",
    b"-0",
    b"0," * 70 + b"0",
)
_ITEM_BYTES: Final = ((b"uint8", 1), (b"uint8", 1), (b"int16", 2), (b"bool", 1), (b"float64", 8), (b"x", 1))
_JUNK: Final = (
    *(b"e5", b".0", b".5", b"E-1", b"-", b"+1", b"0", b"00", b"1", b"true", b"ull", b"null", b"\x00", b"\x1f", b"\x0b"),
    *(
        b"\xef\xbb\xbf",
        b"/**/",
        b"//",
        b"\xff",
        b"\xc3",
        b"\xc3\xa4",
        b'"',
        b'""',
        b'"x"',
        b'"x":',
        b'"data"',
        b'"data":',
    ),
    *(b":", b",", b"{", b"}", b"[", b"]", b"{}", b"[]", b"[[]]", b"\\", b'\\"', b"\\u0078", b" ", b"\n", b"\r", b"\t"),
    *(b"NaN", b"Infinity", b"-Infinity", b"'x'", b"-0", b"1e400", b"18446744073709551616", b'"shape":[0]', b"k05VTVBZ"),
    *(
        b'"dtype":"uint8"',
        b'"data":""',
        b"=",
        b"AA==",
        b"AAA=",
        b"\\/",
        b"\\u002f",
        b"\\ud800",
        b'"\\u00e4"',
        b"1,",
        b",1",
    ),
)
# What goes on with a number that stands in for something that was cut out.
_JOINING: Final = (b"e5", b".0", b".5", b"E-1", b"0", b"00", b"1", b"+1", b"-", b"e", b".")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^{}\[\]:,"\s]+|\s+', re.DOTALL)
_DEEPEST: Final = 4


class Grammar:
    """Writes JSON values with arrays in them, mostly well formed.

    Args:
        chance: Decides everything.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def body(self) -> bytes:
        """Return a document, with junk in most."""
        chance = self._chance
        text = self.value() if chance.random() < 0.4 else self.single()
        text = b"\xef\xbb\xbf" * (chance.random() < 0.05) + text
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 3))):
            text = self._spoilt(text)
        return text

    def single(self) -> bytes:
        """Return a document of one member."""
        key = self._chance.choice((b'"x"', b'"x"', b'"a"', self.key()))
        return b"{" + key + b":" + self.value(_DEEPEST) + b"}"

    def key(self) -> bytes:
        """Return a name in quotes, registered or not, escaped or not."""
        return self._chance.choice(_KEYS)

    def value(self, depth: int = 0) -> bytes:
        """Return a value; below ``_DEEPEST`` levels one that is an array, or ordinary."""
        match self._chance.randrange(11 if depth < _DEEPEST else 7):
            case 0:
                return self._chance.choice((*_NUMBERS, *_WORDS, *_STRINGS))
            case 1:
                return b'"' + self._npy() + b'"'
            case 2 | 3 | 4:
                return self._list(0)
            case 5 | 6:
                return self._envelope(depth)
            case 7 | 8:
                return self._between(b"[", [self.value(depth + 1) for _ in range(self._chance.randrange(4))], b"]")
            case _:
                return self._between(b"{", [self._member(depth + 1) for _ in range(self._chance.randrange(5))], b"}")

    def _member(self, depth: int) -> bytes:
        return self.key() + self._space() + b":" + self._space() + self.value(depth)

    def _space(self) -> bytes:
        return self._chance.choice(_SPACES) if self._chance.random() < 0.15 else b""

    def _between(self, opening: bytes, items: list[bytes], closing: bytes) -> bytes:
        spaced = [self._space() + item + self._space() for item in items] or [self._space()]
        return opening + b",".join(spaced) + closing

    def _list(self, depth: int) -> bytes:
        chance = self._chance
        if chance.random() < 0.25:
            return self._rectangle()
        if depth < 3 and chance.random() < 0.4:
            return self._between(b"[", [self._list(depth + 1) for _ in range(chance.randrange(4))], b"]")
        words = (*_NUMBERS, *_WORDS, b"NaN", b"Infinity", b"-Infinity") if chance.random() < 0.2 else _NUMBERS
        few = chance.sample(words, chance.randrange(1, 4))
        return self._between(b"[", [chance.choice(few) for _ in range(chance.choice((0, 1, 2, 3, 3, 60)))], b"]")

    def _rectangle(self) -> bytes:
        chance = self._chance
        few = chance.choice((_NUMBERS, _NUMBERS[:8], (b"true", b"false"), (b"null", b"1", b"1.5"), (b"NaN", b"2")))
        n_columns = chance.choice((0, 1, 2, 5, 40))
        rows = [
            self._between(b"[", [chance.choice(few) for _ in range(n_columns)], b"]")
            for _ in range(chance.choice((0, 1, 2, 3, 20)))
        ]
        if rows and chance.random() < 0.2:
            rows[-1] = self._between(b"[", [], b"]")
        return self._between(b"[", rows, b"]")

    def _envelope(self, depth: int) -> bytes:
        chance = self._chance
        blob = chance.choice(_BLOBS)
        n_characters = len(re.sub(rb"\\u....|\\/", b"?", blob))
        dtype, item_bytes = chance.choice(_ITEM_BYTES)
        n_bytes = n_characters // 4 * 3 - blob.count(b"=") - blob.count(b"\\u003d")
        shape = b"%d" % (n_bytes // item_bytes) if chance.random() < 0.9 else chance.choice(_SHAPES)
        members = [
            b'"shape"' + self._space() + b":" + self._space() + b"[" + shape + b"]",
            b'"dtype"' + self._space() + b':"' + dtype + b'"',
        ]
        if chance.random() < 0.3:
            members.append(self._member(depth + 1) if depth <= _DEEPEST else b'"start":7')
        chance.shuffle(members)
        at = 0 if chance.random() < 0.85 else chance.randrange(len(members) + 1)
        members.insert(at, b'"data"' + self._space() + b":" + self._space() + b'"' + blob + b'"')
        return self._between(b"{", members, b"}")

    def _npy(self) -> bytes:
        chance = self._chance
        file = io.BytesIO()
        shape = [chance.randrange(4) for _ in range(chance.randrange(3))]
        array = (
            np.arange(int(np.prod(shape))).reshape(shape).astype(chance.choice(("u1", "<i2", ">f8", "?", "<u4", "V2")))
        )
        np.save(file, np.asfortranarray(array) if chance.random() < 0.5 else array)
        octets = bytearray(file.getvalue())
        if chance.random() < 0.15:
            octets[chance.randrange(len(octets))] = chance.randrange(256)
        elif chance.random() < 0.1:
            del octets[chance.randrange(len(octets)) :]
        return base64.b64encode(octets)

    def _spoilt(self, text: bytes) -> bytes:
        """Return ``text`` with something put in, taken out or cut off, mostly between two tokens."""
        chance = self._chance
        junk = chance.choice(_JUNK)
        edges = [0, *(match.end() for match in _TOKEN.finditer(text))]
        if chance.random() < 0.4:
            # What is cut out of the text ends with a quote or a bracket.
            edges = [edge for edge in edges if text[edge - 1 : edge] in (b'"', b"]", b"}")] or edges
            junk = chance.choice(_JOINING) if chance.random() < 0.5 else junk
        at = chance.choice(edges) if chance.random() < 0.8 else chance.randrange(len(text) + 1)
        what = chance.random()
        if what < 0.75:
            return text[:at] + junk + text[at:]
        if what < 0.85:
            return text[:at] + junk + text[at + 1 :]
        if what < 0.95:
            return text[:at] + text[at + chance.randrange(1, 5) :]
        return text[:at]
