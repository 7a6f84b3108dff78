from __future__ import annotations

import array as array_module
import collections
import gc
import json
import mmap
import tracemalloc
import weakref
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from ndwire import (
    ContractError,
    Field,
    IncompleteBody,
    LayoutDrift,
    LimitExceeded,
    Limits,
    MalformedArray,
    MalformedJSON,
    Packed,
    Parser,
    Rewriter,
    Wire,
    dumps,
    loads,
)
from support.chunking import lawful, plain

X = Field("x")
ARRAY = b'{"data":"AAEC","shape":[3],"dtype":"uint8"}'
ONE = b'{"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'


def envelope(values: Any, **sidecar: Any) -> Packed:
    return Packed(np.asarray(values), sidecar)


def test_arrays_are_ready_before_the_body_ends() -> None:
    parser = Parser([X, Field("y", sidecar=True)])
    assert parser.feed(b'[{"x":{"data":"AAEC"') == []
    (ready,) = parser.feed(b',"shape":[3],"dtype":"uint8"},"y":')
    assert (ready.name, ready.ordinal, ready.sidecar, ready.offset) == ("x", 0, {}, 6)
    assert ready.array.tolist() == [0, 1, 2]
    (second,) = parser.feed(b'{"data":"","shape":[0],"dtype":"int8","start":7}}]')
    assert (second.name, second.ordinal, second.sidecar) == ("y", 1, {"start": 7})
    document = parser.close()
    assert document[0]["x"] is ready.array
    assert document[0]["y"].array is second.array
    assert document[0]["y"].sidecar == {"start": 7}


def test_close_is_idempotent_and_final() -> None:
    parser = Parser([X])
    parser.feed(ONE)
    assert parser.close() is parser.close()
    with pytest.raises(RuntimeError, match="after close"):
        parser.feed(b"")


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, lambda b: np.frombuffer(b, np.uint8), lambda b: memoryview(b)[::1]]
)
def test_any_bytes_like_chunk(wrap: Any) -> None:
    parser = Parser([X])
    ready = [event for start in range(0, len(ONE), 5) for event in parser.feed(wrap(ONE[start : start + 5]))]
    assert plain(parser.close()) == plain({"x": ready[0].array})
    assert plain(loads(wrap(ONE), [X])) == plain({"x": ready[0].array})


def test_views_of_other_shapes_and_items() -> None:
    padded = ONE + b" " * (-len(ONE) % 8)
    for chunk in (
        memoryview(padded).cast("Q"),
        array_module.array("Q", padded),
        np.repeat(np.frombuffer(padded, np.uint8), 2)[::2],
        memoryview(bytes(b for pair in zip(padded, padded, strict=True) for b in pair))[::2],
    ):
        parser = Parser([X], content_length=len(padded))
        parser.feed(chunk)  # type: ignore[arg-type]  # bytes-like all the same
        assert parser.close()["x"].tolist() == [0, 1, 2]
    with mmap.mmap(-1, len(ONE)) as mapped:
        mapped[:] = ONE
        assert loads(mapped, [X])["x"].tolist() == [0, 1, 2]  # type: ignore[arg-type]  # bytes-like all the same


def test_a_chunk_may_be_reused_at_once() -> None:
    body = dumps({"a": "text" * 50, "x": np.arange(1000), "b": [1, 2, 3]})
    for size in (1, 7, 100, 5000):
        chunk = bytearray(size)
        parser = Parser([X])
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            chunk[: len(piece)] = piece
            parser.feed(memoryview(chunk)[: len(piece)])
            chunk[:] = b"\xff" * size
        document = parser.close()
        assert document["x"].tolist() == list(range(1000))
        assert (document["a"], document["b"]) == ("text" * 50, [1, 2, 3])


@pytest.mark.parametrize("chunk", ["text", 3, None, object(), np.int64(3), np.array([None])])
def test_what_is_not_bytes_like_is_refused_and_forgotten(chunk: Any) -> None:
    parser = Parser([X])
    with pytest.raises(TypeError):
        parser.feed(chunk)
    parser.feed(ONE)
    assert parser.close()["x"].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match=name if (name := type(chunk).__name__) != "str" else r"text\.encode\(\)"):
        loads(chunk, [X])
    with pytest.raises(TypeError, match=type(chunk).__name__):
        Rewriter([Field("x", dtypes=("uint8",))]).feed(chunk)


@pytest.mark.parametrize("body", [b"{}", ONE, b"\xef\xbb\xbf{}"])
def test_an_option_that_there_is_not(body: bytes) -> None:
    with pytest.raises(TypeError, match="limitz"):
        loads(body, [X], limitz=3)  # type: ignore[call-arg]  # that is the point


def test_a_negative_content_length() -> None:
    with pytest.raises(ValueError, match="content_length"):
        Parser([X], content_length=-1)


@pytest.mark.parametrize("body", [ONE, b"[1]", b"{}"])
def test_fewer_bytes_than_announced(body: bytes) -> None:
    result = lawful_with(body, content_length=len(body) + 1)
    assert (result.error, result.offset) == (IncompleteBody, len(body))


def lawful_with(body: bytes, **options: Any) -> Any:
    from support.chunking import chunkings, outcome

    first = outcome([body], [X], **options)
    assert all(outcome(chunks, [X], **options) == first for chunks in chunkings(body))
    return first


def test_more_bytes_than_announced_are_read_all_the_same() -> None:
    body = dumps({"x": np.arange(400_000)})
    parser = Parser([X], content_length=1_500_000)
    for start in range(0, len(body), 65536):
        parser.feed(body[start : start + 65536])
    assert np.array_equal(parser.close()["x"], np.arange(400_000))


def test_more_bytes_than_announced_and_allocate() -> None:
    array = np.arange(400_000)
    body = dumps({"x": array})
    given: list[int] = []

    def allocate(name: str, n_bytes: int) -> NDArray[np.uint8]:
        given.append(n_bytes)
        return np.zeros(n_bytes, np.uint8)

    parser = Parser([X], content_length=2_000_000, allocate=allocate)
    for start in range(0, len(body), 65536):
        parser.feed(body[start : start + 65536])
    assert np.array_equal(parser.close()["x"], array)
    assert given[-1] == array.nbytes


class TestMemory:
    """Whose memory an array has, and how much of it."""

    def sizes(self) -> list[int]:
        return [0, 1, 3, 1000, 200_000, 1 << 20, (1 << 20) + 1, 3_000_001, 40_000_000]

    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize("step", [5000, 65536, 1 << 30])
    def test_arrays_own_exactly_their_bytes(self, *, known: bool, step: int) -> None:
        for size in self.sizes():
            values = np.arange(size, dtype=np.uint8)
            body = dumps({"x": values, "tail": "t" * 100})
            parser = Parser([X], content_length=len(body) if known else None)
            for start in range(0, len(body), step):
                parser.feed(body[start : start + step])
            result = parser.close()["x"]
            assert np.array_equal(result, values)
            assert result.flags.writeable
            base: Any = result.base
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            if size:
                assert size <= (base.nbytes if isinstance(base, np.ndarray) else len(base)) <= size + mmap.PAGESIZE

    @pytest.mark.parametrize("known", [True, False])
    @pytest.mark.parametrize("step", [5000, 65536, 1 << 30])
    def test_allocate_gives_the_memory(self, *, known: bool, step: int) -> None:
        for size in self.sizes():
            given: list[tuple[str, int, NDArray[np.uint8]]] = []

            def allocate(name: str, n_bytes: int, given: Any = given) -> NDArray[np.uint8]:
                buffer = np.full(n_bytes + 5, 7, np.uint8)
                given.append((name, n_bytes, buffer))
                return buffer

            values = np.arange(size, dtype=np.uint8)
            body = dumps({"x": values, "tail": "t" * 100})
            parser = Parser([X], content_length=len(body) if known else None, allocate=allocate)
            for start in range(0, len(body), step):
                parser.feed(body[start : start + step])
            result = parser.close()["x"]
            assert np.array_equal(result, values)
            ((name, n_bytes, buffer),) = given
            assert name == "x"
            assert n_bytes >= size
            assert n_bytes <= size + 200 or n_bytes == size
            assert size == 0 or np.shares_memory(result, buffer)
            assert np.array_equal(buffer[:size], values)

    @pytest.mark.parametrize(
        "buffer",
        [
            None,
            bytearray(9),
            np.zeros(9, np.int8),
            np.zeros(2, np.uint8),
            np.zeros(18, np.uint8)[::2],
            np.frombuffer(bytes(9), np.uint8),
        ],
    )
    def test_allocate_gives_something_else(self, buffer: Any) -> None:
        parser = Parser([X], allocate=lambda name, n_bytes: buffer)
        with pytest.raises(TypeError, match="allocate"):
            parser.feed(ONE)
        with pytest.raises(RuntimeError, match="earlier exception"):
            parser.feed(b"")
        with pytest.raises(RuntimeError, match="earlier exception"):
            parser.close()

    def test_allocate_may_fail_in_its_own_way(self) -> None:
        def allocate(name: str, n_bytes: int) -> NDArray[np.uint8]:
            raise MemoryError

        parser = Parser([X], allocate=allocate)
        with pytest.raises(MemoryError):
            parser.feed(ONE)

    def test_dropping_the_document_frees_its_arrays_at_once(self) -> None:
        gc.disable()
        try:
            for body in (ONE, dumps({"a": [1], "x": np.arange(500_000)})):
                for step in (9, 1 << 30):
                    parser = Parser([X], content_length=len(body))
                    for start in range(0, len(body), step):
                        parser.feed(body[start : start + step])
                    document = parser.close()
                    watched = weakref.ref(document["x"])
                    parser_gone = [parser]
                    del parser
                    parser_gone.clear()
                    assert watched() is not None
                    del document
                    assert watched() is None
        finally:
            gc.enable()

    def test_a_failed_parser_has_let_go(self) -> None:
        gc.disable()
        try:
            parser = Parser([X])
            watched = weakref.ref(parser.feed(b"[" + ONE + b",")[0].array)
            with pytest.raises(MalformedArray):
                parser.feed(ONE.replace(b"AAEC", b"AA!C"))
            assert watched() is None
        finally:
            gc.enable()

    def test_a_claimed_shape_allocates_nothing(self) -> None:
        with pytest.raises(MalformedArray):
            loads(ONE.replace(b"[3]", b"[99999999999999]"), [X])

    @pytest.mark.parametrize("shape", [b"[0,4611686018427387904]", b"[4611686018427387904,0]"])
    def test_shapes_that_numpy_refuses(self, shape: bytes) -> None:
        result = lawful(b'{"x":{"data":"","shape":' + shape + b',"dtype":"int32"}}', [X])
        assert (result.error, result.offset) == (MalformedArray, 5)


def test_json_loads_may_be_any() -> None:
    text = b'{"n":NaN,"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'
    with pytest.raises(MalformedJSON):
        loads(text, [X])
    document = loads(text, [X], json_loads=json.loads)
    assert document["x"].tolist() == [0, 1, 2]
    assert loads(b'{"n":NaN}', [X], json_loads=json.loads)["n"] != 0


def test_a_stricter_json_loads() -> None:
    def strict(text: Any) -> Any:
        document = json.loads(text)
        if "bad" in document:
            raise ValueError("no bad members")
        if "worse" in document:
            raise json.JSONDecodeError("no worse members", bytes(text).decode(), 3)
        return document

    bad = '{"ä":1,"bad":2,"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'.encode()
    with pytest.raises(MalformedJSON, match="no bad members") as caught:
        loads(bad, [X], json_loads=strict)
    assert caught.value.offset is None
    with pytest.raises(MalformedJSON, match="no worse members") as caught:
        loads(bad.replace(b"bad", b"worse"), [X], json_loads=strict)
    assert caught.value.offset == 4
    assert isinstance(caught.value.__cause__, json.JSONDecodeError)


def test_json_loads_that_fails_otherwise() -> None:
    def broken(text: Any) -> Any:
        raise KeyError("bug")

    parser = Parser([X], json_loads=broken)
    parser.feed(ONE)
    with pytest.raises(KeyError):
        parser.close()
    with pytest.raises(RuntimeError, match="earlier exception"):
        parser.close()


class TestDuplicates:
    ARRAY = b'{"data":"AAEC","shape":[3],"dtype":"uint8"}'

    @pytest.mark.parametrize(
        "body",
        [
            b'{"x":H,"x":1}',
            b'{"x":H,"x":A}',
            b'{"x":H,"\\u0078":1}',
            b'{"a":{"x":H},"a":2}',
            b'[{"x":A},{"a":[{"x":H}],"a":0}]',
        ],
    )
    def test_an_array_that_would_be_hidden(self, body: bytes) -> None:
        text = body.replace(b"A", self.ARRAY.lower())
        result = lawful(body.replace(b"A", self.ARRAY).replace(b"H", self.ARRAY), [X])
        assert (result.error, result.offset) == (ContractError, text.index(b"H"))

    def test_the_last_duplicate_wins_otherwise(self) -> None:
        result = lawful(b'{"x":1,"x":%b,"a":[],"a":{}}' % self.ARRAY, [X])
        assert result.document["x"]["$ndarray"]["hex"] == "000102"
        assert result.document["a"] == {}


class TestDrift:
    DRIFTED = b'{"shape":[3],"dtype":"uint8","data":"AAEC"}'

    @pytest.mark.parametrize(
        "body",
        [
            b'{"x":D}',
            b'{"x": \n D}',
            '{"ä":"😀","x":D}'.encode(),
            b'{"a":{"x":{"k":{"x":D}}}}',
            b'{"\\u0078":D}',
            b'{"a\\n":{},"\\u0078" : D}',
            b'[{"x":D},{"x":D}]',
        ],
    )
    @pytest.mark.parametrize(
        "drifted",
        [
            DRIFTED,
            b'{"data": null,"shape":0,"dtype":0}',
            b'{"\\u0064ata":"AAEC","shape":[3],"dtype":"uint8"}',
            b'{ "k":{"x":1},"data":"AAEC","shape":[3],"dtype":"uint8"}',
        ],
    )
    def test_packed_but_not_where_it_can_be_cut(self, body: bytes, drifted: bytes) -> None:
        result = lawful(body.replace(b"D", drifted), [X])
        assert (result.error, result.offset) == (LayoutDrift, body.index(b"D"))

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("x", rb"\u0078"),
            ("a/b", rb"a\u002fb"),
            ("a/b/c", rb"a\/b/c"),
            ("ä", rb"\u00E4"),
            ("\U0001f600", rb"\uD83D\ude00"),
            ("x_y", rb"x\u005fy"),
        ],
    )
    @pytest.mark.parametrize(
        "value",
        [
            b'{"data":"AAEC","shape":[3],"dtype":"uint8"}',
            b'{"dtype":"uint8","shape":[3],"data":"AAEC"}',
            b"[1,2.5]",
            b"[[1,2], [3,4]]",
            b"[]",
            b'"AAEC"',
            b'"k05VTVBZ"',
        ],
    )
    def test_an_array_under_an_escaped_name(self, name: str, key: bytes, value: bytes) -> None:
        fields = [Field(name, raw_dtype="uint8")]
        for space in (b"", b" ", b"\n" * 5):
            before = b'["' + key + b'", {"q\\"":[{"k": "' + key + b'\\" :[1]"}],"' + key + b'"' + space + b":" + space
            result = lawful(before + value + b"}]", fields)
            assert (result.error, result.offset) == (LayoutDrift, len(before))
            assert repr(name) in result.message

    def test_a_solidus_may_be_escaped_as_php_does(self) -> None:
        for key in (rb"a\/\u00e4\/c", "a\\/ä\\/c".encode(), "a/ä/c".encode(), rb"a/\u00e4/c"):
            body = b'{"' + key + b'":[1,2],"' + key + b'":null}'
            assert lawful(body, [Field("a/ä/c")]).offset == len(key) + 4
            result = lawful(b'[{"' + key + b'":[1,2]}]', [Field("a/ä/c", dtypes=("int8",))])
            array = {"$ndarray": {"dtype": "int8", "shape": [2], "hex": "0102"}}
            assert result.document == [{"a/ä/c": array}]

    def test_a_list_under_an_escaped_name_counts_as_its_field_reads_it(self) -> None:
        for field in (Field("x", dtypes=("uint8",)), Field("x", ndim=2)):
            assert lawful(b'[{"\\u0078":[300]}]', [field]).error is LayoutDrift
        assert lawful(b'{"\\u0078":[1],"y":[1]}', [Field("x", wires=("envelope", "npy"))]).error is None
        assert lawful(b'{"\\u0078":"AAEC"}', [Field("x")]).error is None

    def test_an_envelope_that_is_none_under_an_escaped_name(self) -> None:
        for value in (b'{"data":"hello"}', b'{ "data" : "","shape":1}', b'{"data":"AAEC","shape":[4],"dtype":"uint8"}'):
            result = lawful(b'{"\\u0078":' + value + b',"x":null}', [X])
            assert (result.error, result.offset) == (LayoutDrift, 10)
            assert lawful(b'{"\\u0078":' + value + b"}", [Field("x", wires=("nested",))]).error is None

    def test_what_was_cut_out_of_an_object_under_an_escaped_name_is_no_envelope(self) -> None:
        result = lawful(b'[{"\\u0078":{"data":[1]}},{"\\u0078":{ "data" : []}}]', [X, Field("data")])
        assert result.error is None
        assert len(result.arrays) == 2

    def test_lone_surrogates_that_another_parser_reads_are_no_name(self) -> None:
        body = rb'{"\ud800":[1],"\u0078":"AA"}'
        assert lawful(body, [X], json_loads=json.loads).document == {"\ud800": [1], "x": "AA"}

    def test_the_drifted_one_of_many_objects(self) -> None:
        body = rb'[{"\u0078":{"k":1}},{"\u0078":{"data":1,"shape":1,"dtype":1}}]'
        result = lawful(body, [X])
        assert (result.error, result.offset) == (LayoutDrift, 30)
        plain = b'[{"x":{"k":{"x":{}}}},"x",{"y":"\\"x\\":{"},{"x": {"data":1,"shape":1,"dtype":1}},{"x":{"k":2}}]'
        result = lawful(plain, [X])
        assert (result.error, result.offset) == (LayoutDrift, plain.index(b'{"data'))

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            (b'{"shape":1,"dtype":1,"data":1}', "it opens with 'shape'"),
            (b'{"data":1,"shape":1,"dtype":1}', "data holds a int"),
            (b'{"d\\u0061ta":"AAEC","shape":[3],"dtype":"uint8"}', "is spelled with escapes"),
        ],
    )
    def test_the_message_says_whose_it_is_and_what_stood_there(self, value: bytes, why: str) -> None:
        message = lawful(b'{"x":' + value + b"}", [X]).message
        assert "'x'" in message
        assert why in message

    @pytest.mark.parametrize(
        "body",
        [
            b'{"x":{"shape":[3],"dtype":"uint8"}}',
            b'{"x":{"a":1,"data":2}}',
            b'{"x":{}}',
            b'{"x":{ }}',
            b'{"x":{"a":{"x":{"b":{}}}}}',
            b'{"x":{"data" : 1}}',
            b'{"x":{"data"\n:["x"]}}',
            b'{"\\u0078":[1,"x"],"y\\u0078":{"shape":1,"dtype":2,"data":3}}',
            b'{"\\u0078":"D","\\u0078\\u0078":[1]}',
            b'{"\\u0078":[[1],[2,3]]}',
            b'{"y":D}',
        ],
    )
    def test_ordinary_objects(self, body: bytes) -> None:
        text = body.replace(b"D", self.DRIFTED if b'"D"' not in body else b"D")
        result = lawful(text, [X])
        assert result.document == orjson.loads(text)

    def test_the_earlier_of_two_faults_counts(self) -> None:
        hidden = b'{"a":{"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}},"a":1}'
        first = lawful(b"[" + hidden + b',{"x":' + self.DRIFTED + b"}]", [X])
        assert (first.error, first.offset) == (ContractError, 11)
        second = lawful(b'[{"x":' + self.DRIFTED + b"}," + hidden + b"]", [X])
        assert (second.error, second.offset) == (LayoutDrift, 6)

    def test_fields_that_read_no_envelopes_are_not_looked_at(self) -> None:
        body = b'{"x":' + self.DRIFTED + b',"y":{"b":1},"\\u0078":1}'
        result = lawful(body, [Field("x", wires=["npy"]), Field("y")])
        assert result.document == orjson.loads(body)


class TestNames:
    def test_a_field_named_data(self) -> None:
        fields = [Field("data"), Field("x")]
        inner = b'{"data":"AAEC","shape":[3],"dtype":"uint8"}'
        assert lawful(b'{"data":' + inner + b"}", fields).document["data"]["$ndarray"]["hex"] == "000102"
        result = lawful(b'{"x":{"data" : ' + inner + b',"k":{"data":1}}}', fields)
        assert result.document["x"]["data"]["$ndarray"]["hex"] == "000102"
        assert result.document["x"]["k"] == {"data": 1}

    def test_names_that_overlap(self) -> None:
        fields = [Field("a"), Field("ab"), Field("b"), Field("a b")]
        inner = b'{"data":"AAEC","shape":[3],"dtype":"uint8"}'
        for name in ("a", "ab", "b", "a b"):
            body = b'{"abc":1,"%b":%b,"c":"%b"}' % (name.encode(), inner, name.encode())
            assert lawful(body, fields).document[name]["$ndarray"]["hex"] == "000102"

    def test_backslashes_before_and_behind(self) -> None:
        for body in (rb'{"k":"\\","x":1}', rb'{"k\"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}}', rb'["\"x\"",":"]'):
            assert lawful(body, [X]).document == orjson.loads(body)


class TestLimits:
    def test_each_trips_in_every_chunking(self) -> None:
        first = b'{"x":{"data":"AAECAwQF","shape":[6],"dtype":"uint8","k":1}}'
        body = b"[" + first + b',{"x":{"data":"AAEC","shape":[1,3],"dtype":"uint8"}}]'
        second = body.index(b'"x"', 10) + 4
        cut = {*range(6, body.index(b',"shape"')), *range(second, body.rindex(b',"shape"'))}
        kept = [k for k in range(len(body)) if k not in cut]
        for limits, offset, delivered in [
            (Limits(array_bytes=5), 6, 0),
            (Limits(array_bytes=6), None, 2),
            (Limits(total_array_bytes=8), second, 1),
            (Limits(total_array_bytes=9), None, 2),
            (Limits(arrays=0), 6, 0),
            (Limits(arrays=1), second, 1),
            (Limits(arrays=2), None, 2),
            (Limits(ndim=0), 6, 0),
            (Limits(ndim=1), second, 1),
            (Limits(ndim=2), None, 2),
            (Limits(remainder_bytes=5), 5, 0),
            (Limits(remainder_bytes=10), 6, 0),
            (Limits(remainder_bytes=45), kept[45], 1),
            (Limits(remainder_bytes=50), second, 1),
            (Limits(remainder_bytes=len(kept) - 1), len(body) - 1, 2),
            (Limits(remainder_bytes=len(kept)), None, 2),
        ]:
            result = lawful(body, [X], limits=limits)
            assert len(result.arrays) == delivered, (limits, result)
            assert (result.error, result.offset) == ((None if offset is None else LimitExceeded), offset), (
                limits,
                result,
            )

    def test_a_body_without_arrays(self) -> None:
        body = b'{"a":"' + b"b" * 100 + b'"}'
        with pytest.raises(LimitExceeded) as caught:
            loads(body, [X], limits=Limits(remainder_bytes=50))
        assert caught.value.offset == 50
        assert loads(body, [X], limits=Limits(remainder_bytes=len(body)))["a"] == "b" * 100

    def test_what_opens_an_envelope_is_bounded(self) -> None:
        envelope = b'{"data"%b:"AAEC","shape":[3],"dtype":"uint8"}'
        for space in (b" " * 82, b"\n" * 500):
            for fields in ([X], [X, Field("data")]):
                result = lawful(b'{"x":' + envelope % space + b"}", fields, limits=Limits(remainder_bytes=90))
                assert (result.error, result.offset) == (LimitExceeded, 5)
                ordinary = b'{"x":{"data"' + space + b":1}}"
                assert lawful(ordinary, fields, limits=Limits(remainder_bytes=90)).error is LimitExceeded
        assert lawful(b'{"x":' + envelope % (b" " * 81) + b"}", [X], limits=Limits(remainder_bytes=90)).error is None

    def test_objects_that_may_be_arrays_hold_no_more_than_their_text(self) -> None:
        n = 20_000
        body = b'[{"x":{"k":0}}' + b',{"x":{"k":0}}' * n + b"]"
        parser = Parser([X])
        tracemalloc.start()
        try:
            parser.feed(body)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 1.3 * len(body) + 10_000
        assert len(parser.close()) == n + 1


class TestOtherOpenings:
    @pytest.mark.parametrize("text", [b"[1,2]", b"[]", b"[", b"]", b"[[1],[2]]", b"AAEC", b""])
    def test_a_string_that_looks_like_a_list_is_a_string(self, text: bytes) -> None:
        every: list[tuple[Wire, ...]] = [("nested",), ("nested", "npy"), ()]
        for wires in every:
            body = b'{"x":{"data":"' + text + b'"},"y":{"x" : {"data" :"' + text + b'","x":[1]}}}'
            result = lawful(body, [Field("x", wires=wires)])
            assert result.error is None
            assert result.document["x"] == {"data": text.decode()}
            assert result.document["y"]["x"]["data"] == text.decode()


class TestRequired:
    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (b"true", "a boolean"),
            (b"false", "a boolean"),
            (b"0", "a number"),
            (b"-1.5", "a number"),
            (b'"word"', "a string"),
            (b'""', "a string"),
            (b'"k05VTVB"', "a string"),
            (b"{}", "another object"),
            (b'{ "a":1}', "another object"),
            (b'{"data":1}', "another object"),
            (b'{"data" :[1]}', "another object"),
            (b'{"shape":[1],"dtype":"uint8","data":"AA=="}', "another object"),
            (b"[1,[2]]", "another list"),
            (b"[[1],[]]", "another list"),
            (b"[true]", "another list"),
            (b'[1,"a"]', "another list"),
            (b'[ {"a":1}]', "another list"),
            (b"[1,01]", "another list"),
        ],
    )
    def test_anything_but_an_array_or_null_is_malformed(self, value: bytes, kind: str) -> None:
        every: list[tuple[Wire, ...]] = [("envelope", "npy", "nested"), ("nested",), ("envelope",), ("npy",), ()]
        for wires in every:
            for before in (b'{"x":', b'{"y":null,"x" : '):
                result = lawful(before + value + b"}", [Field("x", required=True, wires=wires)])
                assert (result.error, result.offset) == (MalformedArray, len(before)), (value, wires)
                assert "'x'" in result.message
                assert kind in result.message

    def test_arrays_null_and_nothing_pass(self) -> None:
        field = Field("x", required=True, dtypes=("uint8",))
        body = b'[{"x":[1]},{"x":null},{"x" :\n null},{"y":1},{"x":%b},"x",{"y":["x",1]}]' % ARRAY
        result = lawful(body, [field])
        assert result.error is None
        assert len(result.arrays) == 2
        assert lawful(b'{"x":"AAEC"}', [Field("x", required=True, raw_dtype="uint8")]).error is None
        assert lawful(b'{"x":"AAE"}', [Field("x", required=True, raw_dtype="uint8")]).error is MalformedArray

    def test_text_that_is_no_json_stays_malformed_json(self) -> None:
        for body in (b'{"x":}', b'{"x":,', b'{"x":]', b'{"x" 1}', b'{"x":nul}'):
            assert lawful(body, [Field("x", required=True)]).error in (MalformedJSON, IncompleteBody)

    def test_an_envelope_where_none_is_read(self) -> None:
        result = lawful(b'[{"x":%b}]' % ARRAY, [Field("x", required=True, wires=("nested",))])
        assert (result.error, result.offset) == (MalformedArray, 6)

    def test_under_an_escaped_name(self) -> None:
        field = Field("x", required=True)
        for value, error in ((b"1", MalformedArray), (b'{"a":1}', MalformedArray), (b"[1]", LayoutDrift)):
            result = lawful(rb'[{"\u0078":null},{"\u0078":' + value + b"}]", [field])
            assert (result.error, result.offset) == (error, 27)

    def test_arrays_before_it_are_given_out(self) -> None:
        result = lawful(b'[{"x":[1]},{"x":1}]', [Field("x", required=True)])
        assert len(result.arrays) == 1
        assert result.error is MalformedArray


class TestByteOrderMark:
    MARK = b"\xef\xbb\xbf"

    def test_one_is_skipped_and_counted(self) -> None:
        body = self.MARK + b'{"x":[1],"y":%b}' % ARRAY
        result = lawful(body, [X, Field("y")])
        assert [event[4] for event in result.arrays] == [8, 16]
        broken = lawful(self.MARK + b'{"x":[1],"y":01}', [X])
        assert (broken.error, broken.offset) == (MalformedJSON, 16)
        drifted = lawful(self.MARK + b'{"x":{"shape":1,"dtype":1,"data":1}}', [X])
        assert (drifted.error, drifted.offset) == (LayoutDrift, 8)
        hidden = lawful(self.MARK + b'{"x":[1],"x":1}', [X])
        assert (hidden.error, hidden.offset) == (ContractError, 8)

    def test_a_body_without_arrays(self) -> None:
        for json_loads in (orjson.loads, json.loads):
            assert lawful(self.MARK + b' {"a":[]}', [X], json_loads=json_loads).document == {"a": []}
            assert loads(self.MARK + b' {"a":[]}', [X], json_loads=json_loads) == {"a": []}

    @pytest.mark.parametrize(
        ("body", "error", "offset"),
        [
            (MARK, IncompleteBody, 3),
            (MARK[:2], IncompleteBody, 2),
            (MARK + MARK + b"{}", MalformedJSON, 3),
            (b" " + MARK + b"{}", MalformedJSON, 1),
            (b"{}" + MARK, MalformedJSON, 2),
            (MARK + b"[1", IncompleteBody, 5),
        ],
    )
    def test_elsewhere_and_alone(self, body: bytes, error: type[Exception], offset: int) -> None:
        result = lawful(body, [X])
        assert (result.error, result.offset) == (error, offset)
        with pytest.raises(error):
            loads(body, [X])


class TestSidecars:
    def test_each_array_has_its_own(self) -> None:
        body = dumps([{"x": envelope([k], start=1)} for k in range(3)])
        documents = loads(body, [Field("x", sidecar=True)])
        documents[0]["x"].sidecar["start"] = 9
        assert [item["x"].sidecar["start"] for item in documents] == [9, 1, 1]
        assert loads(body, [Field("x", sidecar=True)])[2]["x"].sidecar == {"start": 1}

    def test_large_and_deep(self) -> None:
        sidecar = {"k}": ['"', "\\", "{", {"a": [{}] * 50, '\\"}': None}], "long": "y\\" * 2000, "z": 1}
        body = dumps({"x": envelope([1, 2], **sidecar)})
        result = lawful(body, [Field("x", sidecar=True)], every_cut=300)
        assert result.document["x"]["$packed"]["sidecar"] == sidecar

    def test_a_second_data(self) -> None:
        for second in (b"0", b"false", b'"AAEC"', b"null", b"0.0"):
            for key in (b"data", b"d\\u0061ta"):
                body = b'{"x":{"data":"AAEC","shape":[3],"dtype":"uint8","%b":%b}}' % (key, second)
                assert lawful(body, [X]).error is MalformedArray
        body = b'{"x":{"data":"AAEC","shape":[3],"dtype":"uint8","k":{"data":1}}}'
        assert lawful(body, [X]).error is None


def test_checks_run_on_both_paths() -> None:
    seen: list[int] = []

    def check(array: NDArray[Any]) -> None:
        seen.append(int(array[0]))
        if array[0] == 3:
            raise ValueError("three is not allowed")

    field = Field("x", check=check)
    body = dumps([{"x": np.array([k])} for k in range(5)])
    result = lawful(body, [field])
    assert result.error is MalformedArray
    assert "three is not allowed" in result.message
    assert len(result.arrays) == 3
    assert set(seen) == {0, 1, 2, 3}
    with pytest.raises(MalformedArray) as caught:
        loads(body, [field])
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_deferred_error_keeps_its_cause() -> None:
    parser = Parser([X])
    assert len(parser.feed(b"[" + ONE + b"," + ONE.replace(b"uint8", b"uint8\x01"))) == 1
    with pytest.raises(MalformedJSON) as caught:
        parser.close()
    assert isinstance(caught.value.__cause__, orjson.JSONDecodeError)


def test_the_remainder_may_hold_anything_that_orjson_reads() -> None:
    document: dict[str, Any] = {"a": [1.5, None, True, "é", {"b": []}], "c": collections.OrderedDict(d=1)}
    body = dumps(document)
    assert lawful(body, [X]).document == orjson.loads(body)
