from __future__ import annotations

import base64
import json
import pickle
from typing import Any

import numpy as np
import orjson
import pytest

from ndwire import Field, MalformedArray, Packed, dumps, iter_sse, loads, pack_ndarray, presets
from support.arrays import npy_string
from support.chunking import lawful, plain
from support.vectors import recording


def truth(name: str, key: str | None = None) -> list[np.ndarray[Any, Any]]:
    data = json.loads(recording(name))
    items = data[key] if key is not None else list(data.values())
    return [np.frombuffer(bytes.fromhex(i["hex"]), i["dtype"]).reshape(i["shape"]) for i in items]


def same(left: Any, right: Any) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and np.array_equal(left, right)


@pytest.mark.parametrize("name", ["routed.json", "routed_long.json", "routed_start.json"])
def test_vllm_routed_experts(name: str) -> None:
    document = loads(recording(name), presets.VLLM)
    plain = orjson.loads(recording(name))
    for choice, before, expected in zip(
        document["choices"], plain["choices"], truth("routed.truth.json", name), strict=True
    ):
        assert same(choice.pop("routed_experts"), expected)
        del before["routed_experts"]
    assert document == plain


def test_vllm_constructed() -> None:
    document = loads(recording("generate_routed.json"), presets.VLLM)
    for choice, expected in zip(document["choices"], truth("generate_routed.truth.json"), strict=True):
        assert same(choice["routed_experts"], expected)


@pytest.mark.parametrize("name", ["routed_stream.sse", "generate_stream.sse"])
def test_vllm_streams(name: str) -> None:
    body = recording(name)
    alone = [
        loads(line[len(b"data: ") :], presets.VLLM)
        for line in body.split(b"\n\n")
        if line.startswith(b"data: ") and line != b"data: [DONE]"
    ]
    events = list(iter_sse([body[k : k + 100] for k in range(0, len(body), 100)], presets.VLLM))
    assert len(events) == len(alone) > 2
    for event, expected in zip(events, alone, strict=True):
        for left, right in zip(event["choices"], expected["choices"], strict=True):
            routes, others = left.pop("routed_experts"), right.pop("routed_experts")
            assert (routes is None and others is None) or same(routes, others)
        assert event == expected
    if name.startswith("routed"):
        arrays = [c["routed_experts"] for e in iter_sse([body], presets.VLLM) for c in e["choices"]]
        assert same(arrays[-1], truth("routed.truth.json", name)[0])
        assert arrays[:-1] == [None] * (len(arrays) - 1)


def test_vllm_prompt_logprobs_and_zero_rows() -> None:
    import io

    file = io.BytesIO()
    np.save(file, np.zeros((0, 48, 8), np.uint16))
    empty = base64.b64encode(file.getvalue()).decode()
    file = io.BytesIO()
    np.save(file, np.full((2, 5), -9999.0, np.float32))
    body = json.dumps({"prompt_token_id_logprobs": base64.b64encode(file.getvalue()).decode(), "routed_experts": empty})
    document = loads(body.encode(), presets.VLLM)
    assert document["prompt_token_id_logprobs"].shape == (2, 5)
    assert (document["routed_experts"].shape, document["routed_experts"].dtype) == ((0, 48, 8), np.uint16)


@pytest.mark.parametrize("fields", [presets.OPENAI_EMBEDDINGS, presets.VLLM, presets.SGLANG(2, 2)])
def test_embeddings(fields: tuple[Field, ...]) -> None:
    as_floats = loads(recording("embeddings_float.json"), fields)
    as_base64 = loads(recording("embeddings_base64.json"), fields)
    assert len(as_floats["data"]) == 3
    for left, right in zip(as_floats["data"], as_base64["data"], strict=True):
        assert same(left["embedding"], right["embedding"])
        assert left["embedding"].shape == (256,)


def test_sglang() -> None:
    routes = np.arange(24, dtype="<i4").reshape(4, 3, 2)
    raw = base64.b64encode(routes.tobytes()).decode()
    hidden = [[[0.1, 0.2], [0.3, 0.4]], [0.5, 0.6]]
    for body in (
        {"text": "a", "meta_info": {"routed_experts": raw, "hidden_states": hidden}},
        {"choices": [{"sglext": {"routed_experts": raw}}]},
        {"meta_info": {"routed_experts": pack_ndarray(routes.astype(np.uint8))}},
    ):
        document = loads(json.dumps(body).encode(), presets.SGLANG(3, 2))
        holder = document["meta_info"] if "meta_info" in document else document["choices"][0]["sglext"]
        assert np.array_equal(holder["routed_experts"], routes)
        assert holder.get("hidden_states", hidden) == hidden
    with pytest.raises(MalformedArray):
        loads(json.dumps({"routed_experts": raw}).encode(), presets.SGLANG(5, 2))
    with pytest.raises(ValueError, match="at least 1"):
        presets.SGLANG(0, 2)


def test_prime_rl_and_skyrl() -> None:
    routes = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    body = (
        b'{"choices":[{"routed_experts":{"data":"%b","shape":[2,3,2],"start":5,"dtype":"uint8"}}]}'
        % base64.b64encode(routes.tobytes())
    )
    packed = loads(body, presets.PRIME_RL)["choices"][0]["routed_experts"]
    assert isinstance(packed, Packed)
    assert np.array_equal(packed.array, routes)
    assert packed.sidecar == {"start": 5}
    support = np.arange(6, dtype=np.int32).reshape(3, 2)
    body = dumps({"choices": [{"routed_experts": routes, "rollout_sample_support": support}]})
    choice = loads(body, presets.SKYRL)["choices"][0]
    assert same(choice["routed_experts"], routes)
    assert same(choice["rollout_sample_support"], support)


ROUTES = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
EXPERTS = {"VLLM": presets.VLLM, "PRIME_RL": presets.PRIME_RL, "SKYRL": presets.SKYRL, "SGLANG": presets.SGLANG(2, 2)}


@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.parametrize(
    "form", ["list", "npy", "npy of uint16", "envelope", "envelope of int16", "envelope with start"]
)
def test_routed_experts_are_an_array_in_every_form(name: str, form: str) -> None:
    start = {"start": 5} if form == "envelope with start" else {}
    values: dict[str, Any] = {
        "list": ROUTES.tolist(),
        "npy": npy_string(ROUTES),
        "npy of uint16": npy_string(ROUTES.astype(np.uint16)),
        "envelope of int16": pack_ndarray(ROUTES.astype(np.int16)),
    }
    value = values.get(form, pack_ndarray(ROUTES, sidecar=start))
    body = json.dumps({"choices": [{"index": 0, "routed_experts": value}]}).encode()
    found = loads(body, EXPERTS[name])["choices"][0]["routed_experts"]
    if name == "PRIME_RL":
        assert found.sidecar == start
        found = found.array
    assert np.array_equal(found, ROUTES)
    assert found.dtype.name == {
        "list": "int32" if name == "SGLANG" else "uint8",
        "npy of uint16": "uint16",
        "envelope of int16": "int16",
    }.get(form, "uint8")
    assert lawful(body, EXPERTS[name], every_cut=60).error is None


@pytest.mark.parametrize("name", EXPERTS)
def test_the_smallest_list_of_routed_experts(name: str) -> None:
    found = loads(b'{"routed_experts":[[[1,2],[3,4]]]}', EXPERTS[name])["routed_experts"]
    array = found.array if name == "PRIME_RL" else found
    assert (array.shape, array.tolist()) == ((1, 2, 2), [[[1, 2], [3, 4]]])
    assert loads(b'{"routed_experts":null}', EXPERTS[name]) == {"routed_experts": None}
    for wrong in (b"[[1,2],[3,4]]", b"[[[0.5]]]", b'{"data":"AAAA","shape":[1,3,1]}'):
        assert lawful(b'{"routed_experts":%b}' % wrong, EXPERTS[name]).error is MalformedArray


FLOATS = np.array([[0.5, -1.25, 3], [4, 5, 6]], np.float32)


def forms(values: Any, *, raw: bool = False) -> list[Any]:
    """Return an array in the forms that a server, or ndwire in front of it, may send."""
    return [
        values.tolist(),
        npy_string(values),
        pack_ndarray(values),
        *([base64.b64encode(values.tobytes()).decode()] if raw else []),
    ]


# What is read with which registry, as what: the body around the value, the array, and whether it may be raw base64.
ELSEWHERE: list[tuple[str, tuple[Field, ...], str, np.ndarray[Any, Any], bool]] = [
    ("VLLM", presets.VLLM, '{"data":[{"embedding":@}]}', FLOATS[0], True),
    ("VLLM, log-probabilities", presets.VLLM, '{"prompt_token_id_logprobs":@}', FLOATS, False),
    ("OPENAI", presets.OPENAI_EMBEDDINGS, '{"data":[{"embedding":@}]}', FLOATS[0], True),
    ("SGLANG", presets.SGLANG(2, 2), '{"data":[{"embedding":@}]}', FLOATS[0], True),
    ("LLAMA_CPP, /v1/embeddings", presets.LLAMA_CPP, '{"data":[{"embedding":@,"index":0}]}', FLOATS[0], True),
    ("LLAMA_CPP, /embedding", presets.LLAMA_CPP, '[{"index":0,"embedding":@}]', FLOATS, False),
    ("LLAMA_CPP, pooled", presets.LLAMA_CPP, '[{"index":0,"embedding":@}]', FLOATS[:1], False),
    ("LLAMA_CPP, older", presets.LLAMA_CPP, '{"embedding":@}', FLOATS[0], False),
    ("OLLAMA, /api/embed", presets.OLLAMA, '{"model":"m","embeddings":@,"total_duration":1}', FLOATS, False),
    ("OLLAMA, /api/embeddings", presets.OLLAMA, '{"embedding":@}', FLOATS[0], False),
    ("OLLAMA, /v1/embeddings", presets.OLLAMA, '{"data":[{"object":"embedding","embedding":@}]}', FLOATS[0], True),
    ("SKYRL, support", presets.SKYRL, '{"rollout_sample_support":@}', np.array([[7, -1], [9, 2]], np.int32), False),
    ("SKYRL, log-probabilities", presets.SKYRL, '{"rollout_sample_support_logprobs":@}', FLOATS, False),
]


@pytest.mark.parametrize("case", ELSEWHERE, ids=[case[0] for case in ELSEWHERE])
def test_other_arrays_are_arrays_in_every_form(case: tuple[str, tuple[Field, ...], str, Any, bool]) -> None:
    _, fields, around, values, raw = case
    for form in forms(values, raw=raw):
        result = lawful(around.replace("@", json.dumps(form)).encode(), fields, every_cut=60)
        assert result.error is None
        [(_, ordinal, array, _, _)] = result.arrays
        assert (ordinal, array) == (0, plain(values))


@pytest.mark.parametrize("value", ["[[[1.5]]]", "[[[[1]]]]"])
def test_an_embedding_has_one_or_two_dimensions(value: str) -> None:
    body = f'[{{"embedding":{value}}}]'.encode()
    result = lawful(body, presets.LLAMA_CPP)
    assert result.error is MalformedArray
    assert "an embedding has one dimension, or a row for each token" in result.message


def test_registries_can_be_pickled() -> None:
    for fields in (*EXPERTS.values(), presets.LLAMA_CPP, presets.OLLAMA, presets.OPENAI_EMBEDDINGS):
        assert pickle.loads(pickle.dumps(fields)) == fields
