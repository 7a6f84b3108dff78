from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ndwire import Field, IncompleteBody, MalformedJSON, loads
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


def test_short_text_that_nests_deep() -> None:
    # orjson runs out of the memory that it takes for text of this length.
    result = lawful(b"[" * 700, [X], every_cut=50)
    assert (result.error, result.offset) == (IncompleteBody, 700)
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
