"""Texts of random parts that are repeated, and the heads that they stand behind, for the law of linear time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from fuzz.grammar import Grammar
from fuzz.linear.entries import DOCUMENTS, EVENTS, HEADERS, LINES, TOKENS, Read
from fuzz.linear.measure import Text

_JSON: Final = (
    *(b'"', b"\\", b'\\"', b"\\\\", b"\\/", b"\\u002f", b"\\u0078", b"\\ud800", b"{", b"}", b"[", b"]", b":", b","),
    *(
        b" ",
        b"\t",
        b"\n",
        b"\r",
        b"0",
        b"1",
        b"-",
        b".",
        b"e5",
        b"1.5",
        b"12,",
        b"[1,2],",
        b"[]",
        b"{}",
        b"null",
        b"NaN",
    ),
    *(b"A", b"AAAA", b"=", b"/", b"true", b"\xc3\xa4", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf", b"\xff", b"\x00"),
    *(b'"x"', b'"x', b'"data"', b'"dat', b'"data":', b'"raw"', b'"ids"', b'"\xc3\xa4/b"', b'"\\u00e4\\/b"', b'"k"'),
    *(
        b'{"x":',
        b'{"x":{',
        b'{"data":"',
        b'{"x":{"data":"',
        b'"x":1',
        b'"x":[',
        b'{"x":{"k":1,',
        b'"shape":[1]',
        b"}}",
        b'"}',
    ),
    *(b'"dtype":"uint8"', b'"AAAA"', b'"k05VTVBZ', b'{"x":{"k":1,"data":0,"shape":0,"dtype":0}},', b'"\\u0078":{'),
)
_JSON_HEADS: Final = (
    *(
        b"",
        b"[",
        b'["',
        b"{",
        b'{"x":',
        b'{"x"',
        b'{"x":[',
        b'{"x":[[',
        b'{"x":{',
        b'{"x":{"data":"',
        b'{"raw":"',
        b'{"x":"k05VTVBZ',
    ),
    *(
        b'{"x":{"data":"","shape":[0',
        b'{"x":{"data":"","shape":[0],"dtype":"uint8","k":"',
        b'{"x":{"data":"","shape":[0],',
    ),
    *(
        b'[{"x":{"k":1,"data":0,"shape":0,"dtype":0}},',
        b'[{"\\u0078":{"k":1,"data":0,"shape":0,"dtype":0}},',
        b"\xef\xbb\xbf",
    ),
    *(
        b'{"ids":[[1,2],[',
        b'{"ids":[[1,2],',
        b'{"x":1,',
        b'{"x":{"data":"AAAA"',
        b'{"x":{"k":1,"data":0,"shape":0,"dtype":0},"y":',
    ),
)
_JSON_FEET: Final = (b"", b"", b'"', b"]", b"}", b'"]', b'"}', b"1]", b"1]}", b'","shape":[0],"dtype":"uint8"}}', b"]}")
_LINES: Final = (b"\n", b"\r", b"\r\n", b" ", b'{"x":[1]}', b'{"x":[1]}\n', b"{}\n", b"1\n", b"\t\n", b'{"x":{', b'"\n')
_EVENTS: Final = (
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b":",
        b": ping\n",
        b":\n",
        b"data",
        b"data:",
        b"data: ",
        b"data:\n",
        b"data\n",
        b"id",
        b"id:",
    ),
    *(b"id:a\n", b"event:", b"event:e\n", b"retry: 1\n", b"x", b" ", b"[DONE]", b"data: [DONE]", b"data: 1\n\n"),
    *(b'data: {"x":[1]}\n\n', b"data: {\n", b"\xef\xbb\xbf", b"\x00", b"error: 1\n"),
)
_HEADERS: Final = (
    *(
        b"ndarray",
        b"ndarray=envelope",
        b"=",
        b";",
        b",",
        b'"',
        b"\\",
        b'\\"',
        b" ",
        b"\t",
        b"a",
        b";a*=x",
        b";a*0=y",
        b";a*1=z",
    ),
    *(
        b"0",
        b"*",
        b"'",
        b"%41",
        b"wait=10",
        b"respond-async",
        b'"",',
        b'ndarray="',
        b"ndarray;",
        b"W/",
        b"\xff",
        b"(",
        b")",
        b"/",
    ),
)
_HEADER_HEADS: Final = (
    b"",
    b"ndarray",
    b'ndarray="',
    b"ndarray=envelope",
    b"ndarray=envelope;a",
    b"ndarray;a*",
    b"a, ",
    b'a="',
)
_TOKENS: Final = (
    *(
        b'{"logprob":-0.5}',
        b'{"logprob":-0.5,"token":"token_id:7"},',
        b"[-0.5,7,null],",
        b'{"7":{"logprob":-0.5}},',
        b"null,",
    ),
    *(
        b'"token_id:',
        b"0",
        b'{"token":"token_id:',
        b'"',
        b",",
        b"[",
        b"{",
        b"\\",
        b'{"logprob":null},',
        b"1e400,",
        b" ",
    ),
)

Pool = tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes], Mapping[str, Read]]

_POOLS: Final[tuple[Pool, ...]] = (
    (_JSON, _JSON_HEADS, _JSON_FEET, DOCUMENTS),
    (_JSON, _JSON_HEADS, _JSON_FEET, DOCUMENTS),
    ((*_LINES, *_LINES, *_JSON), (b"", b'{"x":[', b'{"x":{"data":"'), (b"", b"1]}"), LINES),
    ((*_EVENTS, *_EVENTS, *_JSON), (b"", b"data: ", b"id:", b"event:", b":", b"data:{\ndata:"), (b"", b"\n\n"), EVENTS),
    (_HEADERS, _HEADER_HEADS, (b"", b'"', b", ndarray=envelope"), HEADERS),
    (_TOKENS, (b"", b"[", b'[{"token":"token_id:', b'{"a":['), (b"", b"1]", b'"}]', b"]"), TOKENS),
)
# So many of a token in a row, mostly.
_RUNS: Final = (1, 1, 1, 2, 3, 40)


def random_text(chance: random.Random) -> tuple[Text, Mapping[str, Read]]:
    """Return a text that can be made longer, and the entries that it is for."""
    tokens, heads, feet, entries = chance.choice(_POOLS)
    if entries is DOCUMENTS and chance.random() < 0.4:
        return _valid(chance), entries
    part = b"".join(chance.choice(tokens) * chance.choice(_RUNS) for _ in range(chance.choice((1, 1, 2, 2, 3, 5))))
    return Text(chance.choice(heads), part, foot=chance.choice(feet)), entries


def _valid(chance: random.Random) -> Text:
    """Return JSON of elements, members or levels without end."""
    grammar = Grammar(chance)
    member = grammar.key() + b":" + grammar.value(2)
    first = grammar.key() + b":" + grammar.value(2)
    match chance.randrange(5):
        case 0:
            return Text(b"[", grammar.value(1) + b",", foot=b"1]")
        case 1:
            return Text(b"{" + first, b"," + member, foot=b"}")
        case 2:
            return Text(b"[{" + first + b"},", b"{" + member + b"},", foot=b"1]")
        case 3:
            return Text(b"", b"{" + member + b"," + grammar.key() + b":", b"}", b"")
        case _:
            return Text(b'{"x":', b"[" * chance.choice((1, 3)) + grammar.value(3) + b",", b"", b"")
