from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndwire import LimitExceeded, MalformedArray, MalformedJSON, WireError
from ndwire._buffers.array_buffer import ArrayBuffer
from ndwire._buffers.base64 import Base64Decoder, encode_pieces, encoded_length
from support.chunking import partition

ESCAPED = {ord("/"): rb"\/", ord("+"): rb"\u002B", ord("="): rb"\u003d", ord("A"): rb"\u0041"}


def decode(pieces: list[bytes], *, limit: int = 1 << 40, finish: bool = True) -> bytes | tuple[Any, ...]:
    buffer = ArrayBuffer("x", 7, bound=0, limit=limit, allocate=None)
    decoder = Base64Decoder(buffer, 7, 17, name="x", wire="raw")
    try:
        for piece in pieces[:-1]:
            decoder.feed(piece, 0, len(piece))
        if finish:
            decoder.finish(pieces[-1], 0, len(pieces[-1]))
        else:
            decoder.feed(pieces[-1], 0, len(pieces[-1]))
            decoder.cut()
    except WireError as error:
        return type(error), error.offset, str(error)
    return bytes(buffer.finish())


def cuts_of(text: bytes, seed: int) -> list[list[bytes]]:
    chance = random.Random(seed)
    random_cuts = [partition(text, [chance.randint(0, len(text)) for _ in range(5)]) for _ in range(5)]
    return [[text], [text[k : k + 1] for k in range(len(text))] or [b""], [text, b""], [b"", text], *random_cuts]


@given(st.binary(max_size=200), st.integers(0, 999), st.sets(st.sampled_from(sorted(ESCAPED))))
def test_what_was_encoded_comes_back(data: bytes, seed: int, escaped: set[int]) -> None:
    text = b"".join(ESCAPED[c] if c in escaped else bytes((c,)) for c in base64.b64encode(data))
    for pieces in cuts_of(text, seed):
        assert decode(pieces) == data


@given(
    st.text("AQgwB+/=\\u0041n-x\"'é ", max_size=40), st.integers(0, 999), st.booleans(), st.sampled_from([5, 1 << 40])
)
def test_faults_do_not_depend_on_the_cuts(characters: str, seed: int, finish: bool, limit: int) -> None:
    text = characters.encode()
    results = [decode(pieces, limit=limit, finish=finish) for pieces in cuts_of(text, seed)]
    assert all(result == results[0] for result in results), results
    if finish and b"\\" not in text and limit > 99 and isinstance(results[0], bytes):
        assert base64.b64encode(results[0]) == text


@pytest.mark.parametrize("size", [32 << 10, 32 << 10 | 3, 300_000])
@pytest.mark.parametrize("escape", [b"", rb"\/", rb"\u002f"])
def test_long_text(size: int, escape: bytes) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    text = base64.b64encode(data)
    if escape:
        text = text.replace(b"/", escape)
    for step in (1000, 32 << 10, 70_001, len(text)):
        assert decode([text[k : k + step] for k in range(0, len(text), step)]) == data


@pytest.mark.parametrize("more", [b"A", b"AAAA", b"A" * 50_000, rb"\u0041"])
def test_padding_at_the_end_of_a_long_piece(more: bytes) -> None:
    text = b"AAAA" * 10_000 + b"AA=="
    assert len(decode([text])) == 30_001
    for pieces in ([text, more], [text, b"", more, b""], [text + more], [text[:-2], text[-2:] + more]):
        assert decode(pieces) == (
            MalformedArray,
            7,
            "'x', read as raw, has base64 that goes on behind its padding (byte 7 of the body)",
        )


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (b"AA*A", MalformedArray, "'*' does not belong"),
        (b"AA\\nA", MalformedArray, "an escaped character does not belong"),
        (b"AA=A", MalformedArray, "'AA=A' does not belong"),
        (b"AB==", MalformedArray, "'AB==' does not belong"),
        (b"AA==A", MalformedArray, "goes on behind its padding"),
        (b"AAAAA", MalformedArray, "ends within a group of four"),
        (b"AAAA\\x", MalformedJSON, "illegal escape"),
        (b"AAAA\\u00", MalformedJSON, "illegal escape"),
        (b"AA==\\x", MalformedJSON, "illegal escape"),
    ],
)
def test_messages(text: bytes, error: type[WireError], said: str) -> None:
    result = decode([text])
    assert result[0] is error
    assert said in str(result[2])
    assert result[1] == (17 + text.index(b"\\") if error is MalformedJSON else 7)


def test_the_limit_trips_at_the_quad_that_exceeds_it() -> None:
    for pieces in cuts_of(b"AAAAAAAA!AAA", 1):
        assert decode(pieces, limit=5)[0] is LimitExceeded
        assert decode(pieces, limit=6)[0] is MalformedArray


@given(
    st.sampled_from(["int8", "<i2", ">i4", "<f8", "bool", "complex64", ">f2"]),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(1, 100),
    st.sampled_from(["C", "F", "strided", "reversed", "read-only"]),
)
def test_pieces_are_the_encoding_of_the_whole(dtype: str, shape: list[int], piece_bytes: int, layout: str) -> None:
    array = np.arange(int(np.prod(shape)) * 2, dtype=np.uint8).astype(dtype)[: int(np.prod(shape))].reshape(shape)
    if layout == "F":
        array = np.asfortranarray(array)
    elif layout == "strided" and array.ndim:
        array = np.repeat(array, 2, axis=0)[::2]
    elif layout == "reversed" and array.ndim:
        array = array[::-1]
    elif layout == "read-only":
        array.flags.writeable = False
    little = array.astype(array.dtype.newbyteorder("<")).tobytes()
    pieces = list(encode_pieces(array, piece_bytes))
    assert b"".join(pieces) == base64.b64encode(little)
    assert sum(map(len, pieces)) == encoded_length(array.nbytes)


@pytest.mark.parametrize("escape", [rb"\/", rb"\u002f", rb"\u002F"])
def test_long_text_with_many_escapes(escape: bytes) -> None:
    data = bytes(range(256)) * 1200
    text = base64.b64encode(data).replace(b"/", escape).replace(b"Q", rb"\u0051")
    for step in (len(text), 40_000, 4099, 17):
        assert decode([text[k : k + step] for k in range(0, len(text), step)]) == data
    for bad, reason in ((b"\\\\u002f", "an escaped character"), (b'\\"', "an escaped character"), (b"!", "'!'")):
        at = text.index(b"\\", 150_000)
        broken = text[:at] + bad + text[at:]
        steps = (len(broken), 40_000, 17)
        results = [decode([broken[k : k + step] for k in range(0, len(broken), step)]) for step in steps]
        assert results[0] == results[1] == results[2]
        assert isinstance(results[0], tuple)
        assert results[0][0] is MalformedArray
        assert reason in results[0][2]
    illegal = text[:150_003] + rb"\x41" + text[150_003:]
    for step in (len(illegal), 40_000, 17):
        error = decode([illegal[k : k + step] for k in range(0, len(illegal), step)])
        assert error[:2] == (MalformedJSON, 17 + illegal.index(rb"\x"))


@pytest.mark.parametrize(
    "last", [b"\\", b"\\u", b"\\u00", b"\\u004", b"\\\\", b"\\\\\\", b"\\\\\\u0", b"\\/\\", b"\\u0041\\u00"]
)
def test_a_piece_that_ends_within_an_escape(last: bytes) -> None:
    text = b"AAAA" * 10_000 + last
    results = [decode([text[:cut], text[cut:]], finish=False) for cut in (0, 7, 40_000, 40_001, len(text))]
    assert all(result == results[0] for result in results)
    # What is behind the last complete group may still be completed, or not; nobody knows.
    assert results[0] == bytes(30_000)
