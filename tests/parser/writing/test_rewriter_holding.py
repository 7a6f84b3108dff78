"""What a rewriter holds: how much, when it lets go, and where white space may stand in front of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from ndwire import Field, Rewriter, rewrite
from ndwire._scanning.scanner import Scanner
from support.arrays import npy_string
from support.chunking import chunkings
from support.rewriting import joined

X = Field("x", dtypes=("uint8", "int16", "float32"))
R = Field("r", wires=(), raw_dtype="uint8")
NPY = npy_string(np.arange(3, dtype=np.uint8)).encode()
FIELDS = [X, R]

BODIES: dict[str, tuple[Any, bytes]] = {
    "document": ("document", b'{"x":[1,2],"a":"x","r" : "AAEC","x" :[[1],[2]],"x":"%b","b":["x"]}' % NPY),
    "objects": ("document", b'[{"x":{  "data":"AAAA","shape":[3],"dtype":"uint8"}},{"x":{"y":[1]}},{"x":{"x":[4]}}]'),
    "words": ("document", b'[{"x":"k05no"},{"x":null,"r":null},"x",":[1,2]","\\"x\\":[1,2]",{"x":[1,"x"]}]'),
    "lines": ("lines", b'{"x":[1,2]}\n{"r":"AA=="}\n\x1e{"x":"%b"}\n{"x":[3,4]}\r\n' % NPY),
    "events": ("events", b'id: {"x":[5,6]}\ndata: {"x":[1,2],"r":"AA=="}\n\n: "x":[1]\ndata:{"x":"%b"}\n\n' % NPY),
}


def documents(text: bytes, framing: str) -> list[Any]:
    """Return what a reader of the text sees; of an event stream, also what is no data, as it came."""
    if framing == "document":
        return [orjson.loads(text)]
    lines = [line.strip(b"\x1e\r") for line in text.split(b"\n")]
    if framing == "lines":
        return [orjson.loads(line) for line in lines if line]
    return [orjson.loads(line[5:]) if line.startswith(b"data:") else line for line in lines]


@pytest.mark.parametrize("name", BODIES)
def test_a_space_may_stand_in_front_of_a_value_that_is_held(name: str) -> None:
    framing, body = BODIES[name]
    expected = documents(rewrite(body, FIELDS, framing=framing), framing)
    places: set[bytes] = set()
    for cut in range(len(body) + 1):
        rewriter = Rewriter(FIELDS, framing=framing)
        before = joined_part(rewriter, body[:cut])
        if rewriter.holds_value:
            places.add(body[cut - rewriter.n_held :][:2])
            before += b" "
        out = before + joined(rewriter, [body[cut:]])
        assert documents(out, framing) == expected, cut
        assert not rewriter.holds_value
    assert {place[:1] for place in places} == ({b"["} if name == "objects" else {b'"', b"["})


def joined_part(rewriter: Rewriter, data: bytes) -> bytes:
    out: list[bytes] = []
    for item in rewriter.feed(data):
        assert isinstance(item, bytes)
        out.append(item)
    return b"".join(out)


def test_no_space_may_stand_in_front_of_what_may_end_a_string() -> None:
    rewriter = Rewriter([X])
    assert joined_part(rewriter, b'{"y":"z"') == b'{"y":"z'
    assert rewriter.n_held == 1
    assert not rewriter.holds_value


def test_a_rewriter_that_searches_nothing_holds_nothing() -> None:
    rewriter = Rewriter([X])
    assert not rewriter.holds_value
    assert joined_part(rewriter, b"[1,2") == b"[1,2"
    assert not rewriter.holds_value
    assert rewriter.let_go() == []


@pytest.mark.parametrize("name", BODIES)
def test_what_is_let_go_goes_out_as_it_came_and_the_rest_is_rewritten(name: str) -> None:
    framing, body = BODIES[name]
    rewritten = documents(rewrite(body, FIELDS, framing=framing), framing)
    for cut in range(len(body) + 1):
        rewriter = Rewriter(FIELDS, framing=framing)
        out = joined_part(rewriter, body[:cut])
        n_held = rewriter.n_held
        for item in rewriter.let_go():
            assert isinstance(item, bytes)
            out += item
        if rewriter.n_held == 0:
            assert out.endswith(body[cut - n_held : cut])
        else:
            # What may be a name, the magic of an npy string or an envelope's opening.
            assert rewriter.n_held == n_held
            assert n_held < 20
            assert body[cut - n_held] in b'"{'
        out += joined(rewriter, [body[cut:]])
        assert len(documents(out, framing)) == len(rewritten)
        assert rewriter.fault is None


def test_a_fault_while_letting_go_loses_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Scanner) -> None:
        raise RuntimeError("forced")

    rewriter = Rewriter([X])
    out = joined_part(rewriter, b'{"x":[1,2')
    monkeypatch.setattr(Scanner, "let_go", failing)
    for item in rewriter.let_go():
        assert isinstance(item, bytes)
        out += item
    assert str(rewriter.fault) == "forced"
    assert out + joined_part(rewriter, b",3]}") == b'{"x":[1,2,3]}'


@pytest.mark.parametrize(
    ("body", "n_bytes"),
    [
        (b'{"x":[1,2,3]}', 7),
        (b'{"x":[[1,2],[3,4]]}', 13),
        (b'{"x":[1.5]}', 5),
        (b'{"r":"AAEC"}', 6),
        (b'{"x":"%b"}' % NPY, len(NPY) + 2),
        (b'{"x":[%b]}' % b",".join([b"17"] * 20_000), 60_001),
    ],
)
def test_a_value_of_less_text_than_is_worth_it_stays(body: bytes, n_bytes: int) -> None:
    always = rewrite(body, FIELDS)
    assert always != body
    for least, expected in ((0, always), (n_bytes, always), (n_bytes + 1, body)):
        assert rewrite(body, FIELDS, min_bytes=least) == expected
        for chunks in chunkings(body, every_cut=100):
            assert joined(Rewriter(FIELDS, min_bytes=least), chunks) == expected


def test_the_least_may_not_be_negative() -> None:
    with pytest.raises(ValueError, match="min_bytes must be at least 0"):
        Rewriter([X], min_bytes=-1)
