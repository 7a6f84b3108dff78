from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import orjson
import pytest

from ndwire import Field, MalformedArray, Packed, dumps, iter_sse, loads, pack_ndarray, presets
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
