"""Routed experts, traces, batches and log-probabilities."""

from __future__ import annotations

import logging
import math
import os
import pathlib
import sys
import types
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

import ndwire.rl
from ndwire import Field, MalformedArray, Packed, dumps, loads, unpack_ndarray
from ndwire.rl import (
    LOGPROB_FLOOR,
    RoutedExpertTrace,
    _cpus,
    _logprobs,
    canonical_experts,
    collate,
    logprob_columns,
    pack_routed_experts,
    smallest_experts,
    usable_cpus,
)
from support.modules import without
from support.vectors import recording


def test_all_is_exactly_the_public_names() -> None:
    public = {name for name in vars(ndwire.rl) if not name.startswith("_")}
    assert public == set(ndwire.rl.__all__)
    for name in ndwire.rl.__all__:
        item = getattr(ndwire.rl, name)
        assert not callable(item) or item.__doc__


# Routed experts.


@pytest.mark.parametrize(
    ("greatest", "dtype", "signed"),
    [
        (0, "uint8", "int8"),
        (127, "uint8", "int8"),
        (128, "uint8", "int16"),
        (255, "uint8", "int16"),
        (256, "int16", "int16"),
        (2**15 - 1, "int16", "int16"),
        (2**15, "int32", "int32"),
        (2**31 - 1, "int32", "int32"),
    ],
)
def test_the_smallest_dtype(greatest: int, dtype: str, signed: str) -> None:
    array = np.zeros((2, 3, 4), np.int64)
    array[1, 2, 3] = greatest
    for source in (array, array.astype(np.uint64), np.asfortranarray(array), array[::-1].astype(">i8")):
        envelope = pack_routed_experts(source, start=np.int64(3))
        assert (envelope["dtype"], envelope["shape"], envelope["start"]) == (dtype, [2, 3, 4], 3)
        assert np.array_equal(unpack_ndarray(envelope, Field("x")).array, source)
        assert pack_routed_experts(source, signed=True)["dtype"] == signed
    assert "start" not in pack_routed_experts(array)
    canonical_experts(2**31)(array.astype(dtype))
    canonical_experts(signed=True)(array.astype(signed))


def test_no_copy_where_the_dtype_is_right() -> None:
    array = np.zeros((2, 3, 4), np.uint8)
    assert np.shares_memory(smallest_experts(array), array)


def test_empty_routed_experts() -> None:
    assert pack_routed_experts(np.zeros((0, 4, 2), np.int64)) == {"data": "", "shape": [0, 4, 2], "dtype": "uint8"}


@pytest.mark.parametrize(
    ("experts", "kind", "message"),
    [
        ([[[1]]], TypeError, "must be an array, not list"),
        (np.zeros((1, 1, 1)), TypeError, "must be integers, not float64"),
        (np.zeros((1, 1, 1), bool), TypeError, "must be integers, not bool"),
        (np.zeros((1, 1), int), ValueError, r"not the shape \(1, 1\)"),
        (np.full((1, 1, 1), -1), ValueError, "-1 is negative"),
        (np.full((1, 1, 1), 2**31), ValueError, "2147483648 is 2\\*\\*31 or more"),
    ],
)
def test_what_is_refused(experts: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        pack_routed_experts(experts)


@pytest.mark.parametrize(("start", "kind"), [(True, TypeError), (1.0, TypeError), ("1", TypeError), (-1, ValueError)])
def test_starts_that_are_none(start: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="start must be"):
        pack_routed_experts(np.zeros((1, 1, 1), np.uint8), start=start)


def test_the_check_of_a_field() -> None:
    field = Field("r", check=canonical_experts(200))
    good = np.full((2, 1, 1), 199, np.uint8)
    assert np.array_equal(loads(dumps({"r": good}), [field])["r"], good)
    for bad, message in [
        (good.astype(np.int16), "the ids are in int16, but uint8 holds them"),
        (np.full((1, 1, 1), 200, np.uint8), "200 is not below the number of experts, 200"),
        (np.full((1, 1, 1), -1, np.int16), "-1 is negative"),
        (np.zeros((1, 1)), "must be integers"),
    ]:
        with pytest.raises(MalformedArray, match=message):
            loads(dumps({"r": bad}), [field])
    with pytest.raises(ValueError, match="num_experts must be at least 1"):
        canonical_experts(0)


class Tensor:
    """What torch does with a tensor on a device, as far as it matters here."""

    __module__ = "torch"

    def __init__(self, array: Any, steps: list[str]) -> None:
        self.array, self.steps, self.dtype = array, steps, f"torch.{array.dtype}"

    def detach(self) -> Tensor:
        self.steps.append("detach")
        return self

    def cpu(self) -> Tensor:
        self.steps.append("cpu")
        return self

    def resolve_conj(self) -> Tensor:
        return self

    def resolve_neg(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.array


def test_tensors_are_brought_to_the_host() -> None:
    steps: list[str] = []
    envelope = pack_routed_experts(Tensor(np.full((1, 2, 3), 300), steps))
    assert (envelope["dtype"], steps) == ("int16", ["detach", "cpu"])


# Traces.


def turn(start: int, end: int, *, dtype: Any = np.uint8) -> NDArray[Any]:
    """The rows of positions start to end, of two layers and three experts."""
    return (np.arange(start, end)[:, None, None] * 7 + np.arange(6).reshape(2, 3)).astype(dtype) % 200


def test_a_conversation_of_three_turns() -> None:
    trace = RoutedExpertTrace()
    trace.append(turn(0, 9), n_tokens=10)
    trace.append(Packed(turn(9, 14), {"start": 9}), start=9, n_tokens=15)
    trace.append(turn(10, 19, dtype=np.int16), start=10, n_tokens=20)
    assert trace.n_rows == 19
    experts, mask = trace.finalize(22, loss_mask=np.arange(22) % 20 > 15)
    assert experts.dtype == np.int16
    assert np.array_equal(experts[:19], turn(0, 19))
    assert not experts[19:].any()
    assert mask.tolist() == [True] * 19 + [False] * 3
    assert experts.flags.writeable


def test_starts_come_from_the_sidecar_the_request_or_the_trace() -> None:
    trace = RoutedExpertTrace()
    trace.append(turn(0, 4))
    trace.append(turn(4, 6))
    trace.append(Packed(turn(3, 8), {"start": 3}))
    trace.append(Packed(turn(8, 9), {}), start=8)
    trace.append(turn(0, 0), start=9)
    trace.append(turn(2, 5), start=2)
    assert np.array_equal(trace.finalize(10).experts[:9], turn(0, 9))


@pytest.mark.parametrize(
    ("experts", "options", "message"),
    [
        (turn(6, 8), {"start": 6}, "leave a gap behind the 5 rows"),
        (turn(5, 8), {"start": 4}, "rows between 4 and 5 differ"),
        (turn(5, 8), {"start": -1}, "cannot start at -1"),
        (turn(5, 8), {"n_tokens": 8}, "3 rows from 5 on do not fit 8 tokens"),
        (turn(5, 8), {"n_tokens": 10}, "3 rows from 5 on do not fit 10 tokens"),
        (Packed(turn(5, 8), {"start": 5}), {"start": 4}, "the server says that the rows start at 5; 4 was asked for"),
        (Packed(turn(5, 8), {"start": "5"}), {}, "the rows start at '5'"),
        (Packed(turn(5, 8), {"start": True}), {}, "the rows start at True"),
        (turn(5, 8)[:, :1], {}, "layers and top_k"),
        (turn(5, 8)[0], {}, "not the shape"),
    ],
)
def test_turns_that_do_not_fit(experts: Any, options: dict[str, Any], message: str) -> None:
    trace = RoutedExpertTrace()
    trace.append(turn(0, 5))
    with pytest.raises(ValueError, match=message):
        trace.append(experts, **options)
    assert trace.n_rows == 5
    assert np.array_equal(trace.finalize(6).experts[:5], turn(0, 5))


def test_floats_are_no_experts() -> None:
    with pytest.raises(TypeError, match="must be integers"):
        RoutedExpertTrace().append(np.zeros((1, 1, 1)))


def test_rows_and_tokens() -> None:
    trace = RoutedExpertTrace()
    trace.append(turn(0, 5))
    with pytest.raises(ValueError, match="5 rows are more than 5 tokens have"):
        trace.finalize(5)
    for length, trained, message in [(7, [6], "token 6 is trained on, but there are 5 rows"), (6, [], "has the shape")]:
        mask = np.zeros(7, bool)
        mask[trained] = True
        with pytest.raises(ValueError, match=message):
            trace.finalize(length, mask)
    assert trace.finalize(6, [0, 0, 0, 0, 0, 1]).mask.sum() == 5
    out = np.empty((6, 2, 3), np.int32)
    assert trace.finalize(6, out=out).experts is out
    assert np.array_equal(out[:5], turn(0, 5))
    for bad in (np.empty((5, 2, 3), np.int32), np.empty((6, 2, 3), np.int8)):
        with pytest.raises(ValueError, match="does not fit"):
            trace.finalize(6, out=bad)


def test_a_trace_without_rows() -> None:
    experts, mask = RoutedExpertTrace().finalize(1)
    assert (experts.shape, mask.tolist()) == ((1, 0, 0), [False])
    trace = RoutedExpertTrace()
    trace.append(turn(0, 0), n_tokens=1)
    assert trace.finalize(2).experts.shape == (2, 0, 0)


def test_appending_copies_nothing() -> None:
    trace = RoutedExpertTrace()
    parts = [turn(k * 10, k * 10 + 10) for k in range(100)]
    for part in parts:
        trace.append(part)
    kept = vars_of(trace)
    assert all(np.shares_memory(one, two) for one, two in zip(kept, parts, strict=True))


def vars_of(trace: RoutedExpertTrace) -> list[NDArray[Any]]:
    parts: list[NDArray[Any]] = trace._parts  # pyright: ignore[reportPrivateUsage]
    return parts


# Batches.


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_collate(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from ndwire.rl import _collate

    monkeypatch.setattr(_collate, "_WORTH_A_THREAD", 1)
    arrays = [turn(0, n, dtype=dtype) for n, dtype in ((3, np.uint8), (0, np.uint8), (5, np.int16), (5, np.uint8))]
    for pad_to in (None, 5, 8):
        batch = collate(arrays, pad_to, workers=workers)
        assert (batch.shape, batch.dtype) == ((4, pad_to or 5, 2, 3), np.int16)
        for row, array in zip(batch, arrays, strict=True):
            assert np.array_equal(row[: len(array)], array)
            assert not row[len(array) :].any()
    out = np.full((4, 6, 2, 3), -1, np.int32)
    assert collate(arrays, 6, out, workers=workers) is out
    assert np.array_equal(out[2, :5], arrays[2])
    assert not out[2, 5:].any()


def test_collate_into_a_tensor() -> None:
    memory = np.full((1, 4, 2, 3), 9, np.uint8)
    tensor = Tensor(memory, [])
    assert collate([turn(0, 2)], 4, tensor) is tensor
    assert np.array_equal(memory[0, :2], turn(0, 2))
    assert not memory[0, 2:].any()


def test_batches_that_cannot_be() -> None:
    a = turn(0, 3)
    read_only = np.zeros((1, 3, 2, 3), np.uint8)
    read_only.flags.writeable = False
    cases: list[tuple[Any, Any, Any, str]] = [
        ([], None, None, "nothing to collate"),
        ([a], 2, None, "length 3 does not fit 2"),
        ([a, a[:, :1]], None, None, "make no batch"),
        ([a], 3, np.zeros((1, 4, 2, 3), np.uint8), "out must be an array for uint8"),
        ([a], 3, np.zeros((1, 3, 2, 3), np.int8), "not int8 in"),
        ([a], 3, [[]], "not list"),
        ([a], 3, read_only, "cannot be written to"),
    ]
    for arrays, pad_to, out, message in cases:
        with pytest.raises(ValueError, match=message):
            collate(arrays, pad_to, out)


def test_usable_cpus(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= usable_cpus() <= 4096
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(_cpus, "_CGROUPS", tmp_path)
    own = tmp_path / "own"
    monkeypatch.setattr(_cpus, "_OWN", own)
    assert usable_cpus() == 64
    own.write_text("1:name=systemd:/x\n0::/pods/this/container\n")
    inner = tmp_path / "pods" / "this" / "container"
    inner.mkdir(parents=True)
    for group, text, expected in [
        (inner, "max 100000\n", 64),
        (inner, "1650000 100000\n", 17),
        (inner.parent, "400000 100000\n", 4),
        (inner.parent.parent, "150000 100000\n", 2),
        (tmp_path, "10000 100000\n", 1),
        (tmp_path, "nonsense\n", 2),
        (tmp_path, "100000 0\n", 2),
    ]:
        (group / "cpu.max").write_text(text)
        assert usable_cpus() == expected, text
    first = tmp_path / "cpu"
    first.mkdir()
    (first / "cpu.cfs_quota_us").write_text("-1\n")
    (first / "cpu.cfs_period_us").write_text("100000\n")
    assert usable_cpus() == 2
    (first / "cpu.cfs_quota_us").write_text("100000\n")
    assert usable_cpus() == 1
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert usable_cpus() == 1


# Log-probabilities.


@pytest.fixture(params=["msgspec", "orjson"])
def parsing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "orjson":
        monkeypatch.setattr(_logprobs, "_decoder", None)
        monkeypatch.setattr(_logprobs, "_triples_decoder", None)
    else:
        pytest.importorskip("msgspec")


def test_logprob_columns(parsing: None) -> None:
    content = orjson.loads(recording("routed.json"))["choices"][0]["logprobs"]["content"]
    text = orjson.dumps(content)
    for source in (content, text, bytearray(text), memoryview(text)):
        columns = logprob_columns(source)
        assert [column.dtype.name for column in columns[:2]] == ["float32", "int32"]
        assert columns.token_ids.tolist() == [int(item["token"].split(":")[1]) for item in content]
        assert columns.logprobs.tolist() == [np.float32(item["logprob"]) for item in content]
        assert columns.n_floored == 0
        assert columns.logprobs.flags.writeable


def test_missing_log_probabilities_are_floored(parsing: None, caplog: pytest.LogCaptureFixture) -> None:
    content: list[dict[str, Any]] = [
        {"token": "hello", "logprob": -1.5, "top_logprobs": [{"token": "token_id:9", "logprob": 7}]},
        {"token": "token_id:7", "logprob": None},
        {"token_id": 8, "token": "x", "logprob": None},
        {"token": "token_id:x", "logprob": -1e300},
        {"logprob": -2},
        {"token": None, "token_id": None, "logprob": LOGPROB_FLOOR},
    ]
    with caplog.at_level(logging.WARNING, "ndwire.rl"):
        columns = logprob_columns(orjson.dumps(content), request_id="cmpl-7")
    floor = LOGPROB_FLOOR
    assert columns.logprobs.tolist() == [-1.5, floor, floor, floor, -2, floor]
    assert columns.token_ids.tolist() == [-1, 7, 8, -1, -1, -1]
    assert columns.n_floored == 3
    [record] = caplog.records
    assert record.getMessage() == "request cmpl-7: 3 of 6 log-probabilities floored"
    infinite = [{"logprob": -math.inf}, {"logprob": math.nan}, {"logprob": 0.0}]
    assert logprob_columns(infinite).logprobs.tolist() == [floor, floor, 0]


def test_no_log_probabilities(parsing: None) -> None:
    sources: list[Any] = [None, [], b"[]"]
    for nothing in sources:
        assert [len(column) for column in logprob_columns(nothing)[:2]] == [0, 0]


def test_triples(parsing: None, caplog: pytest.LogCaptureFixture) -> None:
    content: list[Any] = [[-0.5, 7, None], [-1, 9, "x"], [None, 3, None], [-2.5, None, "text"]]
    for source in (
        content,
        [tuple(item) for item in content],
        orjson.dumps(content),
        b" [ " + orjson.dumps(content)[1:],
    ):
        columns = logprob_columns(source)
        assert columns.logprobs.tolist() == [-0.5, -1, LOGPROB_FLOOR, -2.5]
        assert columns.token_ids.tolist() == [7, 9, 3, -1]
        assert columns.n_floored == 1
    assert logprob_columns([[np.float32(-0.5), np.int64(7)]]).token_ids.tolist() == [7]


BAD_LISTS: list[Any] = [
    7,
    {"content": []},
    [7],
    [None],
    ["text"],
    [{"7": {"logprob": -0.5}}],
    [None, {"7": {"logprob": -0.5}}],
    [{"token_id": 8}],
    [{"logprob": -1}, {"token_id": 8}],
    [{"logprob": -1}, [-0.5, 7, None]],
    [[-0.5, 7, None], {"logprob": -1}],
    [[-0.5]],
    [[]],
    [{"logprob": -1, "token_id": 2**31}],
    [{"logprob": -1, "token_id": -(2**31) - 1}],
    [{"logprob": -1, "token": "token_id:" + "9" * 30}],
    [{"logprob": -1, "token": "token_id:" + "9" * 5000}],
]


@pytest.mark.parametrize("number", range(len(BAD_LISTS)))
def test_what_is_no_list_of_tokens(number: int, parsing: None) -> None:
    content = BAD_LISTS[number]
    for source in (content, orjson.dumps(content)):
        with pytest.raises(ValueError, match=r"not a list of tokens|out of range|integer string") as caught:
            logprob_columns(source)
        assert len(str(caught.value)) < 300


def test_an_entry_that_is_none_is_named() -> None:
    objects: list[dict[str, Any]] = [{"logprob": -1}, {"7": {"logprob": -0.5}}]
    with pytest.raises(ValueError, match=r"the entry 1 is \{'7': \{'logprob': -0.5\}\}, not an object with logprob"):
        logprob_columns(objects)
    triples: list[list[Any]] = [[-0.5, 7, None], []]
    with pytest.raises(ValueError, match=r"the entry 1 is \[\], not \[logprob, token id, text\]"):
        logprob_columns(triples)


@pytest.mark.parametrize("text", [b"", b"[{]", b"[[", b"7", b"[7]"])
def test_text_that_is_no_list_of_tokens(text: bytes, parsing: None) -> None:
    with pytest.raises(ValueError, match="not a list of tokens"):
        logprob_columns(text)


WRONG_TYPES: list[Any] = [
    {"logprob": "-0.5"},
    {"logprob": True},
    {"logprob": [1]},
    {"logprob": -1, "token_id": "7"},
    {"logprob": -1, "token_id": 7.5},
    {"logprob": -1, "token_id": True},
    [-0.5, "7", None],
    ["-0.5", 7, None],
]


@pytest.mark.parametrize("number", range(len(WRONG_TYPES)))
def test_numbers_of_another_type(number: int, parsing: None) -> None:
    content = [WRONG_TYPES[number]]
    with pytest.raises(TypeError, match=r"a (log-probability|token id) is of type "):
        logprob_columns(content)
    with pytest.raises((TypeError, ValueError)):
        logprob_columns(orjson.dumps(content))


def test_numbers_too_large_for_any_float() -> None:
    with pytest.raises(ValueError, match="a log-probability is out of range"):
        logprob_columns([{"logprob": -(10**400)}])
    with pytest.raises(TypeError, match="content must be bytes-like, not str"):
        logprob_columns("[]")


def test_without_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    module: types.ModuleType = sys.modules["ndwire.rl._logprobs"]
    again: Any = without("msgspec", module, monkeypatch)
    assert again.logprob_columns(b'[{"logprob":-1,"token_id":3}]').token_ids.tolist() == [3]
