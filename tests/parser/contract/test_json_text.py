from __future__ import annotations

import json
import tracemalloc

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndwire import Field, IncompleteBody, MalformedJSON, loads
from support.arrays import npy_string
from support.chunking import lawful, outcome

X = Field("x")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4),
    max_leaves=12,
)


@given(json_values, st.booleans(), st.data())
def test_every_proper_beginning_of_a_document_is_incomplete(value: object, escaped: bool, data: st.DataObject) -> None:
    body = json.dumps([value], ensure_ascii=escaped).encode("utf-8", "replace")
    cut = data.draw(st.integers(0, len(body) - 1))
    result = outcome([body[:cut]], [X])
    assert (result.error, result.offset) == (IncompleteBody, cut)


@given(json_values, st.binary(min_size=1, max_size=3), st.data())
def test_faults_stand_where_orjson_stops(value: object, junk: bytes, data: st.DataObject) -> None:
    text = json.dumps([value]).encode()
    at = data.draw(st.integers(0, len(text)))
    body = text[:at] + junk + text[at:]
    result = outcome([body], [X])
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        if result.error is MalformedJSON and "UTF-8" not in exc.msg:
            assert result.offset == len(body.decode()[: exc.pos].encode())
        else:
            assert result.error in (MalformedJSON, IncompleteBody)
    else:
        assert result.document == document


ARRAY = b'{"data":"AAEC","shape":[3],"dtype":"uint8"}'


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        ('["é",{"x":A} 1]'.encode(), None),
        (b'[{"x":A},tru]', None),
        (b'[{"x":{"k":1,}}]', 12),
        (b'[{"x":A},{"x":{"k":2},"y":01}]', None),
        (b'{"x":A,"k":"\xff"}', None),
        (b'{"k":"\xed\xa0\x80"}', 6),
        (b'{"k" 1,"z":"\xc3', 5),
    ],
)
def test_offsets_are_mapped_back(body: bytes, offset: int | None) -> None:
    markers = {b"} 1]": 2, b",tru": 1, b":01": 1, b"\xff": 0}
    text = body.replace(b"A", ARRAY)
    if offset is None:
        marker = next(marker for marker in markers if marker in text)
        offset = text.index(marker) + markers[marker]
    result = lawful(text, [X])
    assert (result.error, result.offset) == (MalformedJSON, offset)


@pytest.mark.parametrize("behind", [b"", b" ", b"  \n", b'"', b'"a\\u00', b"tr", b"-", b"1.", b'{"a"', b"0,"])
def test_short_text_that_nests_deep(behind: bytes) -> None:
    # orjson runs out of the memory that it takes for text of this length.
    for depth in (260, 700, 1000):
        body = b"[" * depth + behind
        result = lawful(body, [X], every_cut=20)
        assert (result.error, result.offset) == (IncompleteBody, len(body))
        broken = lawful(body + b"]x", [X], every_cut=20) if behind in (b"", b" ") else None
        assert broken is None or (broken.error, broken.offset) == (MalformedJSON, len(body) + 1)


def test_text_that_nests_deeper_than_a_parser_can_follow() -> None:
    result = lawful(b"[" * 1100, [X], every_cut=50)
    assert result.error is MalformedJSON
    assert type(loads(b"[" * 1024 + b"]" * 1024, [X])) is list


@pytest.mark.parametrize("body", [b'{"a":"\xe2\x82', b'{"a":"\xf0', b"\xe2", b'{"x":{"data":"AAEC","k":"\xc3'])
def test_a_character_that_the_end_cuts(body: bytes) -> None:
    result = lawful(body, [X])
    assert (result.error, result.offset) == (IncompleteBody, len(body))


def test_a_cut_character_behind_a_complete_document() -> None:
    result = lawful(b"{}\xc3", [X])
    assert result.error in (MalformedJSON, IncompleteBody)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"x":{"data":"AAEC","shape" 3', MalformedJSON),
        (b'{"x":{"data":"AAEC","shape":[3]', IncompleteBody),
        (b'{"x":{"data":"AAEC" ', IncompleteBody),
        (b'{"x":{"data":"AAEC"x', MalformedJSON),
        (b'{"x":{"data":"AAEC"x}', MalformedJSON),
        (b'{"x":{"data":"AAEC",}', MalformedJSON),
        (b'{"x":{"data":"AAEC","shape":[}', MalformedJSON),
        (b'{"x":{"data":"AAEC","a":{"b":"}', IncompleteBody),
    ],
)
def test_tails(body: bytes, error: type[Exception]) -> None:
    result = lawful(body, [X])
    assert result.error is error
    if error is IncompleteBody:
        assert result.offset == len(body)
    else:
        assert result.offset is not None
        assert result.offset >= body.index(b"AAEC") + 5


@pytest.mark.parametrize("joined", [b"e5", b".0", b"E-1", b".5", b"0", b'"', b"x", b"[", b"{", b"null"])
def test_nothing_joins_what_stands_for_an_array(joined: bytes) -> None:
    npy = b'"' + npy_string(np.array([1], np.uint8)).encode() + b'"'
    for value, fields in (
        (ARRAY, [X]),
        (npy, [X]),
        (b'"AAEC"', [Field("x", raw_dtype="uint8")]),
        (b"[1,2]", [X]),
        (b"[[1.5],[2]]", [X]),
    ):
        result = lawful(b'{"x":' + value + joined + b"}", fields)
        assert result.error in (MalformedJSON, IncompleteBody), value
        assert result.offset is not None
        assert result.offset >= 5 + len(value)


@pytest.mark.parametrize("joined", [b"e5", b".0", b"E-1", b".5", b"0", b'"', b'"AAAA"', b"x", b"{}", b":", b" 1"])
def test_nothing_joins_the_base64_of_an_envelope(joined: bytes) -> None:
    body = b'{"x":{"data":"AAEC"' + joined + b',"shape":[3],"dtype":"uint8"}}'
    result = lawful(body, [X])
    assert result.error is MalformedJSON
    assert result.offset in (19, 20)


@pytest.mark.parametrize("text", [b"[" * 20_000, b'{"a":' * 20_000, b"[" * 20_000 + b"]" * 20_000])
def test_a_parser_that_runs_out_of_its_stack(text: bytes) -> None:
    result = lawful(b'{"x":[1],"y":' + text + b"}", [X], every_cut=3, json_loads=json.loads)
    assert (result.error, result.offset) == (MalformedJSON, None)
    with pytest.raises(MalformedJSON, match="nests too deep"):
        loads(text, [X], json_loads=json.loads)


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        (b"NaN", True),
        (b"-Infinity", True),
        (b"Infinity", True),
        (rb'"\ud800"', True),
        (rb'"\udc00\u0041"', True),
        (b"nan", False),
        (b"-x", False),
        (b"1.", False),
    ],
)
def test_the_message_says_who_reads_what_orjson_does_not(value: bytes, reads: bool) -> None:
    for body in (b'{"y":' + value + b"}", b'{"x":[1],"y":' + value + b"}"):
        with pytest.raises(MalformedJSON) as caught:
            loads(body, [X])
        assert ("json_loads=json.loads" in str(caught.value)) == reads
        if reads:
            assert "y" in loads(body, [X], json_loads=json.loads)


def test_places_in_long_text_with_characters_of_every_width() -> None:
    for filler in ("x", "é", "€", "\U0001f600"):
        for n in (262_143, 1 << 18, (1 << 18) + 1, 1_100_000):
            text = ("[" + '"' + filler * n + '"' + " 1]").encode()
            for body in (text, b'{"x":[1],"y":' + text):
                with pytest.raises(MalformedJSON) as caught:
                    loads(body, [X])
                assert caught.value.offset == len(body) - 2
            cut = text[: len(text) - 5]
            with pytest.raises(IncompleteBody) as incomplete:
                loads(cut, [X])
            assert incomplete.value.offset == len(cut)
    with pytest.raises(MalformedJSON, match="UTF-8") as caught:
        loads(b'["' + "€".encode() * 500_000 + b'\xe2\x82"]', [X])
    assert caught.value.offset == 2 + 1_500_000


def test_a_fault_in_long_text_holds_the_text_once_more_and_no_oftener() -> None:
    n = 4_000_000
    body = b'{"a":"' + b"x" * n + "\U0001f600".encode() + b'" 1}'
    tracemalloc.start()
    try:
        with pytest.raises(MalformedJSON) as caught:
            loads(body, [X])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.offset == len(body) - 2
    assert held < n
    # orjson's own error takes 12 bytes for each character of text with one character beyond 16 bits.
    assert peak < 13.5 * n


@pytest.mark.parametrize(
    "text", [b"[NaN,Infinity , -Infinity,null,\n1.5]", b"[[NaN],[-Infinity],[null]]", b"[Infinity]"]
)
def test_every_proper_beginning_of_a_list_with_words_is_incomplete(text: bytes) -> None:
    body = b'{"y":[0],"x": ' + text + b"}"
    fields = [Field("x", nulls="nan")]
    assert lawful(body, fields).error is None
    for end in range(len(body)):
        result = lawful(body[:end], fields, every_cut=3)
        assert (result.error, result.offset) == (IncompleteBody, end), body[:end]


@pytest.mark.parametrize(
    "text", [b"[Infinit,1", b"[nan", b"[1NaN", b"[NaN NaN", b"[Inx", b"[+Infinity", b"[1.-Infinity"]
)
def test_other_words_are_malformed(text: bytes) -> None:
    result = lawful(b'{"x":' + text, [Field("x", nulls="nan")])
    assert result.error is MalformedJSON
