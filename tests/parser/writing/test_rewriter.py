from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from fuzz.generate import mutated, seeds, written
from fuzz.laws import rewriting
from ndwire import Field, Held, MalformedArray, Rewriter, loads, presets, rewrite
from ndwire._scanning import scanner as scanner_module
from ndwire._wires import nested
from ndwire._writing import held as held_module
from ndwire._writing import rewriter as rewriter_module
from ndwire._writing import rewriting_sink
from support.arrays import npy_string
from support.chunking import chunkings
from support.rewriting import items, joined, originals, texts
from support.vectors import recording

X = Field("x", dtypes=("uint8", "int16", "float32"))


def lawful(body: bytes, fields: list[Field], **options: Any) -> bytes:
    """Return the rewritten body after checking that it is the same in every chunking."""
    whole = rewrite(body, fields, **options)
    for chunks in chunkings(body):
        assert joined(Rewriter(fields, **options), chunks) == whole, chunks
    return whole


BIG = b"[" + b",".join(b"%d" % (k % 251) for k in range(20_000)) + b"]"

CASES: list[tuple[str, list[Field], bytes, bytes]] = [
    ("flat", [X], b'{"x":[1,2,3],"y":[1]}', b'{"x":{"data":"AQID","shape":[3],"dtype":"uint8"},"y":[1]}'),
    ("widest needed", [X], b'{"x":[1,256]}', b'{"x":{"data":"AQAAAQ==","shape":[2],"dtype":"int16"}}'),
    ("decimals", [X], b'{"x":[1,0.5]}', b'{"x":{"data":"AACAPwAAAD8=","shape":[2],"dtype":"float32"}}'),
    ("nested", [X], b'{"x" : [[1, 2], [3, 4]]}', b'{"x" : {"data":"AQIDBA==","shape":[2,2],"dtype":"uint8"}}'),
    (
        "empty",
        [X],
        b'[{"x":[]},{"x":[[],[ ]]}]',
        b'[{"x":{"data":"","shape":[0],"dtype":"uint8"}},{"x":{"data":"","shape":[2,0],"dtype":"uint8"}}]',
    ),
    (
        "padded",
        [Field("x", dtypes=("int8",), ndim=3)],
        b'{"x":[]}',
        b'{"x":{"data":"","shape":[0,0,0],"dtype":"int8"}}',
    ),
    (
        "npy narrowed",
        [X],
        b'{"x":"%b"}' % npy_string(np.array([[1], [2]], ">i8")).encode(),
        b'{"x":{"data":"AQI=","shape":[2,1],"dtype":"uint8"}}',
    ),
    (
        "npy kept",
        [Field("x", wires=("npy",))],
        b'{"x":"%b"}' % npy_string(np.array(7, "<u2")).encode(),
        b'{"x":{"data":"BwA=","shape":[],"dtype":"uint16"}}',
    ),
    (
        "fortran",
        [X],
        b'{"x":"%b"}' % npy_string(np.asfortranarray([[1, 2], [3, 4]])).encode(),
        b'{"x":{"data":"AQIDBA==","shape":[2,2],"dtype":"uint8"}}',
    ),
    (
        "raw",
        [Field("x", wires=(), raw_dtype="int32", raw_shape=(-1, 2), dtypes=("int8", "int16"))],
        b'{"x":"AQAAAAACAAA="}',
        b'{"x":{"data":"AQAAAg==","shape":[1,2],"dtype":"int16"}}',
    ),
    (
        "raw escaped",
        [Field("x", wires=(), raw_dtype="uint8")],
        b'{"x":"\\/\\u002b+\\/"}',
        b'{"x":{"data":"/++/","shape":[3],"dtype":"uint8"}}',
    ),
    (
        "raw empty",
        [Field("x", wires=(), raw_dtype="uint8")],
        b'{"x":""}',
        b'{"x":{"data":"","shape":[0],"dtype":"uint8"}}',
    ),
    (
        "in a list of documents",
        [X],
        b'[{"a":{"x":[1]}},{"x":null},{"x":7}]',
        b'[{"a":{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}},{"x":null},{"x":7}]',
    ),
    (
        "behind a list of objects",
        [X],
        b'{"x":[{"x":[1]}]}',
        b'{"x":[{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}]}',
    ),
]


def test_short_lists_go_the_same_way_in_fewer_steps() -> None:
    chance = random.Random(7)
    kinds: list[Callable[[], Any]] = [
        lambda: chance.randrange(200),
        lambda: chance.randrange(-200, 70_000),
        lambda: chance.choice([1, 1 << 70]),
        lambda: chance.choice([-(1 << 63), -(1 << 63) - 1, 1 << 63]),
        chance.random,
        lambda: chance.choice([1, 1e39, 1e-50, -0.0]),
    ]
    choices: list[tuple[str, ...]] = [
        ("uint8", "int16", "int32"),
        ("uint8", "float32"),
        ("int8", "uint16", "int64", "uint64", "float64"),
        ("float32", "float64"),
        ("float16",),
        ("bool",),
        ("uint8", "float16", "float64"),
    ]
    for _ in range(600):
        kind = chance.choice(kinds)
        values = [kind() for _ in range(chance.choice([0, 1, 3, 60, 70, 300]))]
        field = Field("x", dtypes=chance.choice(choices), ndim=chance.choice([None, 1, 2]))
        text = orjson.dumps(values) if all(abs(value) < 1 << 62 for value in values) else repr(values).encode()
        body = b'{"x":%b}' % text
        short = rewrite(body, [field])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rewriting_sink, "envelope_of_flat", lambda *_: None)
            assert rewrite(body, [field]) == short
            patch.setattr(scanner_module, "SHORT", 0)
            patch.setattr(nested, "SHORT", 0)
            assert rewrite(body, [field]) == short


UNTOUCHED: list[tuple[str, list[Field], bytes]] = [
    ("no name", [X], b'{"y":[1,2,3]}'),
    ("not a key", [X], b'["x",[1,2],"x:[1]","\\"x\\":[1]"]'),
    ("ragged", [X], b'{"x":[[1,2],[3]]}'),
    ("mixed", [X], b'{"x":[1,null,true]}'),
    ("no dtype holds it", [X], b'{"x":[1e300]}'),
    ("wrong ndim", [Field("x", dtypes=("int8",), ndim=2)], b'{"x":[1,2]}'),
    ("not JSON", [X], b'{"x":[1,,2]}'),
    ("not JSON either", [X], b'{"x":[01,+1]}'),
    ("cut list", [X], b'{"x":[1,2'),
    ("cut npy", [X], b'{"x":"k05VTVBZAQ'),
    ("cut magic", [X], b'{"x":"k05V'),
    ("broken npy", [X], b'{"x":"k05VTVBZAQB2AHsn"}'),
    ("npy in no dtype", [Field("x", dtypes=("float32",))], b'{"x":"%b"}' % npy_string(np.array([1.5])).encode()),
    ("broken raw", [Field("x", wires=(), raw_dtype="int32")], b'{"x":"AAA=","y":"x"}'),
    ("illegal escape in raw", [Field("x", wires=(), raw_dtype="uint8")], b'{"x":"AA\\q="}'),
    ("ordinary string", [X], b'{"x":"hello \\" x"}'),
    ("envelope", [X], b'{"x":{"data":"AQ==","shape":[1],"dtype":"uint8","x":[1],"more":{"x":[1]}}}'),
    ("envelope under a field that reads none", [Field("x", wires=("nested",), dtypes=("int8",))],
     b'{"x": {\n"data" : "AQ==","shape":[1],"dtype":"uint8","x":[1]}}'),
    ("broken envelope", [X], b'{"x":{"data":"!","x":[1'),
    ("cut opening", [X], b'{"x":{ "da'),
    ("nothing", [X], b""),
    ("no fields", [], b'{"x":[1]}'),
    ("a wire that is not read", [Field("x", wires=("npy",))], b'{"x":[1,2]}'),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "body", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_arrays_become_envelopes(fields: list[Field], body: bytes, expected: bytes) -> None:
    assert lawful(body, fields) == expected
    assert rewrite(expected, fields) == expected
    lines = body.replace(b"\n", b" ")
    stream = b"".join(b"data: %b\n\n" % line for line in [lines] * 2)
    assert lawful(stream, fields, framing="events") == b"".join(b"data: %b\n\n" % line for line in [expected] * 2)


@pytest.mark.parametrize(("fields", "body"), [pytest.param(*case[1:], id=case[0]) for case in UNTOUCHED])
def test_everything_else_goes_out_byte_for_byte(fields: list[Field], body: bytes) -> None:
    assert lawful(body, fields) == body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"x":[1,\n2]}', b'{"x":[1,\n2]}'),
        (b'{"x":\n[1,2]}', b'{"x":\n[1,2]}'),
        (b'{"x"\r:[1,2]}', b'{"x"\r:[1,2]}'),
        (b'{"x":[1\r,2]}\n{"x":[1]}', b'{"x":[1\r,2]}\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":[[1],\r\n{"x":[1]}', b'{"x":[[1],\r\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":"k05VTVBZ\n{"x":[1]}', b'{"x":"k05VTVBZ\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":{"data":"AA\n{"x":[1]}', b'{"x":{"data":"AA\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":{"data":"","\n{"x":[1]}', b'{"x":{"data":"","\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":{"data"\n{"x":[1]}', b'{"x":{"data"\n{"x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
        (b'{"x":{\n"data":"AA==","x":[1]}', b'{"x":{\n"data":"AA==","x":{"data":"AQ==","shape":[1],"dtype":"uint8"}}'),
    ],
)
def test_a_line_end_ends_every_value_in_a_stream_of_lines(body: bytes, expected: bytes) -> None:
    assert lawful(body, [X], framing="lines") == expected


def test_only_the_data_of_an_event_is_rewritten() -> None:
    string = npy_string(np.arange(2, dtype=np.uint8)).encode()
    values = (
        b'{"x":[1],"y":{"x":[[1],[2]],"z":{"x":"%b"}},"v":{"x":{"data":"AA==","shape":[1],"dtype":"uint8"}}}' % string
    )
    rewritten = rewrite(values, [X])
    assert b"[1]" not in rewritten.replace(b'"shape":[1]', b"")
    for head in (b"", b"\xef\xbb\xbf"):
        stream = head + b"data:%b\r" % values
        expected = head + b"data:%b\r" % rewritten
        for name in (b"id: ", b": ", b"event:", b"dat:", b"data", b"datum:", b"", b" data:", b"\xef\xbb\xbfdate:"):
            stream += b"%b%b\n" % (name, values)
            expected += b"%b%b\n" % (name, values)
        stream += b"\ndata: %b\r\n\r\n" % values
        expected += b"\ndata: %b\r\n\r\n" % rewritten
        assert lawful(stream, [X], framing="events") == expected


def test_a_value_of_more_text_than_may_be_held_goes_out_as_it_came() -> None:
    string = b'"%b"' % npy_string(np.arange(3, dtype=np.uint8)).encode()
    for value in (b"[1,2,3]", b"[[1],[2]]", string):
        body = b'{"x":%b,"z":{"x":[1]}}' % value
        for most in (0, 1, len(value) - 1):
            short = b"[1]" if most < 3 else b'{"data":"AQ==","shape":[1],"dtype":"uint8"}'
            assert lawful(body, [X], max_hold_bytes=most) == b'{"x":%b,"z":{"x":%b}}' % (value, short)
        assert lawful(body, [X], max_hold_bytes=len(value)) != body


def test_no_more_is_held_than_may_be() -> None:
    rewriter = Rewriter([X], max_hold_bytes=1000)
    rewriter.feed(b'{"x":[')
    for _ in range(100):
        rewriter.feed(b"1," * 100)
        assert rewriter.n_held <= 1000
    rewriter = Rewriter([X], max_hold_bytes=1000)
    rewriter.feed(b'{"x":"k05VTVBZ')
    for _ in range(100):
        rewriter.feed(b"A" * 200)
        assert rewriter.n_held <= 1000
    rewriter = Rewriter([X], max_hold_bytes=1000)
    rewriter.feed(b'{"x":{')
    for _ in range(100):
        rewriter.feed(b" " * 2000)
        assert rewriter.n_held == 0
    assert texts(rewriter.feed(b'"x":[1]}'))[-43:] == b'{"data":"AQ==","shape":[1],"dtype":"uint8"}}'[-43:]


def test_text_goes_out_as_it_comes_in() -> None:
    rewriter = Rewriter([X], framing="lines")
    for body in (b'{"a":"b', b"longer text", b' with "quotes" and ', b'"xx":[1],', b'"x" ', b": ", b"7}\n\n", b"1"):
        assert texts(rewriter.feed(body)) == body
        assert rewriter.n_held == 0
    assert rewriter.feed(b'{"x":[1,') == [b'{"x":']
    assert rewriter.n_held == 3
    assert texts(rewriter.feed(b"2]")) == b'{"data":"AQI=","shape":[2],"dtype":"uint8"}'
    assert rewriter.feed(b'"') == []
    assert rewriter.close() == [b'"']


def test_long_values_are_rendered_later_and_elsewhere() -> None:
    body = b'{"x":%b,"y":1}' % BIG
    rewriter = Rewriter([X])
    first, held, last = items(rewriter, [body])
    assert (first, last) == (b'{"x":', b',"y":1}')
    assert isinstance(held, Held)
    assert (held.name, held.n_bytes, rewriter.fields) == ("x", len(BIG), {})
    results: list[Any] = []
    pauses: list[None] = []
    thread = threading.Thread(target=lambda: results.append(held.render(lambda: pauses.append(None))))
    thread.start()
    thread.join()
    assert results == [held.render()]
    assert results[0].rewritten
    assert pauses
    assert b"".join(held.original()) == BIG
    text = b'{"x":' + b"".join(results[0].pieces) + b"}"
    assert loads(text, [X])["x"].tolist() == orjson.loads(BIG)


@pytest.mark.parametrize("space", [b"", b" " * 7, b" \n\t" * 500])
@pytest.mark.parametrize(
    ("opening", "value", "rewritten"),
    [
        # An envelope; then an object that is none, in which the key may be a name of its own.
        (b'{"x":{S"data"S:S', b'"AAAA","shape":[3],"dtype":"uint8"}}', None),
        (b'{"x":{S"data"S:S', b"[0,0,0]}}", b"E}}"),
        (b'{"x":{S"data"S,"x"S:S', b"[0,0,0]}}", b"E}}"),
        (b'{"y":{S"data"S:S', b'"AAAA"}}', b"E}}"),
        (b'{"x":{S"da"S:S', b"[0,0,0]}}", b"E}}"),
        (b'{"x":{S"dat":1,"x":', b"[0,0,0]}}", b"E}}"),
        (b'{"x":{S"dab":1S,"da":', b"[0,0,0]}}", b"E}}"),
        (b'{"x":{S}S,"da":', b"[0,0,0]}", b"E}"),
    ],
)
def test_white_space_in_an_opening_changes_nothing(
    space: bytes, opening: bytes, value: bytes, rewritten: bytes | None
) -> None:
    dtypes = ("uint8",)
    fields = [X, Field("data", raw_dtype="uint8", dtypes=dtypes), Field("da", dtypes=dtypes)]
    envelope = b'{"data":"AAAA","shape":[3],"dtype":"uint8"}'
    opening = opening.replace(b"S", space)
    body = opening + value
    expected = body if rewritten is None else opening + rewritten.replace(b"E", envelope)
    for most in (1 << 20, 1000, 10, 5):
        for chunks in (
            [body],
            [body[k : k + 1] for k in range(len(body))],
            [body[:9], body[9:]],
            [body[:20], body[20:]],
        ):
            rewriter = Rewriter(fields, max_hold_bytes=most)
            assert joined(rewriter, chunks) == (expected if most > 5 else body)
    rewriter = Rewriter(fields, max_hold_bytes=1000)
    for k in range(len(body)):
        rewriter.feed(body[k : k + 1])
        assert rewriter.n_held <= 30


def test_a_required_field_passes_what_is_no_array_as_it_came() -> None:
    field = Field("x", dtypes=("uint8",), required=True)
    body = b'[{"x":"word"},{"x":{"data":1}},{"x":[1,[2]]},{"x":true},{"x":null},{"x":[1]},{"x":{"data":"AA==","k":1}}]'
    assert lawful(body, [field]) == body.replace(b"[1]}", b'{"data":"AQ==","shape":[1],"dtype":"uint8"}}')


def test_a_long_value_that_no_dtype_holds_says_why_it_stays() -> None:
    [_, held, _] = items(Rewriter([Field("x", dtypes=("uint8",))]), [b'{"x":%b}' % BIG.replace(b"250", b"256")])
    assert isinstance(held, Held)
    rendered = held.render()
    assert isinstance(rendered.refusal, MalformedArray)
    assert (rendered.rewritten, rendered.fault) == (False, None)
    assert b"".join(rendered.pieces) == BIG.replace(b"250", b"256")


def test_a_check_decides_and_whatever_it_raises_leaves_the_value_alone() -> None:
    seen: list[Any] = []

    def check(array: Any) -> None:
        seen.append(array)
        if array.sum() > 3:
            raise [ValueError, KeyError][int(array.sum() > 9)]("too much")

    field = Field("x", dtypes=("uint8",), check=check)
    body = b'[{"x":[1,2]},{"x":[3,4]},{"x":[8,9]}]'
    assert lawful(body, [field]) == b'[{"x":{"data":"AQI=","shape":[2],"dtype":"uint8"}},{"x":[3,4]},{"x":[8,9]}]'
    held = [item.render() for item in items(Rewriter([field]), [body]) if isinstance(item, Held)]
    assert [(item.rewritten, type(item.refusal), item.fault) for item in held] == [
        (True, type(None), None),
        (False, ValueError, None),
        (False, KeyError, None),
    ]


STEPS = ["read", "envelope", "envelope_of_flat", "append_run"]


@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("name", STEPS)
def test_a_fault_of_the_rewriter_lets_everything_out_as_it_came(
    name: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    string = npy_string(np.arange(9, dtype=np.uint8)).encode()
    body = b'[{"x":[1,2]},{"x":[[1],[2]]},{"x":"%b"},{"x":{"data":"AA==","shape":[1],"dtype":"uint8"}},1]' % string
    body = body * 3
    modules = [module for module in (rewriter_module, rewriting_sink) if hasattr(module, name)]
    real: Callable[..., Any] = vars(modules[0])[name]
    begins = {k: rewrite(body[:k], [X]) for k in range(len(body) + 1)}
    faults = 0
    for chunks in chunkings(body, every_cut=40):
        calls = 0

        def failing(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise MemoryError("forced")
            return real(*args)

        with monkeypatch.context() as patch:
            for module in modules:
                patch.setattr(module, name, failing)
            rewriter = Rewriter([X])
            out = joined(rewriter, [bytes(chunk) for chunk in chunks])
        if rewriter.fault is None:
            continue
        faults += 1
        assert isinstance(rewriter.fault, MemoryError)
        assert any(out == begin + body[k:] for k, begin in begins.items()), out
    assert faults


def test_a_fault_of_rendering_gives_the_text_back(monkeypatch: pytest.MonkeyPatch) -> None:
    [_, held, _] = items(Rewriter([X]), [b'{"x":%b}' % BIG])
    assert isinstance(held, Held)

    def failing(*_: Any) -> Any:
        raise RuntimeError("forced")

    for name in ("read", "envelope"):
        with monkeypatch.context() as patch:
            patch.setattr(held_module, name, failing)
            rendered = held.render()
        assert isinstance(rendered.fault, RuntimeError)
        assert (b"".join(rendered.pieces), rendered.rewritten) == (BIG, False)
    assert held.render().rewritten


def test_it_can_be_stopped_at_any_byte() -> None:
    body = b'{"x":[1,2],"y":"a","x":{ "data" : "AA==","shape":[1],"dtype":"uint8"},"x":"k05VTVBZAA"}'
    for cut in range(len(body) + 1):
        rewriter = Rewriter([X])
        out = b"".join(item for item in rewriter.feed(body[:cut]) if isinstance(item, bytes))
        out += b"".join(item for item in rewriter.close() if isinstance(item, bytes))
        assert out == rewrite(body[:cut], [X])
        assert rewriter.feed(body[cut:]) == [body[cut:]] * (cut < len(body))
        assert rewriter.close() == []
        assert rewriter.n_held == 0


def test_what_is_counted() -> None:
    rewriter = Rewriter([X, Field("y", wires=("npy",))])
    rewriter.feed(b'[{"x":[1]},{"x":[[1]]},{"x":[1,null]},{"y":"%b"}]' % npy_string(np.zeros(2)).encode())
    assert rewriter.fields == {"x": 2, "y": 1}


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="field 'x' reads nested lists, so its dtypes must be named"):
        Rewriter([Field("x")])
    with pytest.raises(ValueError, match="registered twice"):
        rewrite(b"", [X, X])
    with pytest.raises(TypeError, match="sequence of Field, not of str"):
        Rewriter(["x"])  # type: ignore[list-item]  # the mistake  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match='framing must be "document"'):
        Rewriter([X], framing="line")  # type: ignore[arg-type]  # the mistake  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="max_hold_bytes must be at least 0"):
        Rewriter([X], max_hold_bytes=-1)
    with pytest.raises(TypeError):
        Rewriter([X]).feed("text")  # type: ignore[arg-type]  # the mistake  # pyright: ignore[reportArgumentType]


def test_memory_may_be_reused_as_soon_as_feed_returns() -> None:
    chunk = bytearray(b'{"x":[1,2')
    rewriter = Rewriter([X])
    out = rewriter.feed(chunk)
    chunk[:] = b"?" * len(chunk)
    assert texts([*out, *rewriter.close()]) == b'{"x":[1,2'


@pytest.mark.parametrize("name", ["routed.json", "routed_long.json", "routed_start.json", "generate_routed.json"])
def test_recorded_bodies_hold_the_same_arrays(name: str) -> None:
    body = recording(name)
    out = joined(Rewriter(presets.VLLM[:2]), [body[k : k + 1000] for k in range(0, len(body), 1000)])
    assert b"k05VTVBZ" in body
    assert b"k05VTVBZ" not in out
    before, after = loads(body, presets.VLLM), loads(out, presets.VLLM)
    for one, two in zip(before["choices"], after["choices"], strict=True):
        if one["routed_experts"] is not None:
            assert np.array_equal(one.pop("routed_experts"), two.pop("routed_experts"))
    assert orjson.dumps(before, option=orjson.OPT_SERIALIZE_NUMPY) == orjson.dumps(
        after, option=orjson.OPT_SERIALIZE_NUMPY
    )


@pytest.mark.parametrize("seed", range(40))
def test_what_a_client_reads_stays_the_same(seed: int) -> None:
    chance = random.Random(seed)
    bodies = seeds()
    for _ in range(40):
        body = mutated(chance, bodies) if chance.random() < 0.6 else written(chance)
        rewriting(body, chance)


def test_originals_put_the_body_together_again() -> None:
    body = b'[{"x":%b},{"x":[1,2,null]}]' % BIG
    assert originals(Rewriter([X]), [body[k : k + 777] for k in range(0, len(body), 777)]) == body
