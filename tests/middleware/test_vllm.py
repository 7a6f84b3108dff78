"""vLLM's middleware, as that server makes it, over the recorded bodies of that server."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import anyio
import numpy as np
import orjson
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ndwire import Field, iter_sse, loads, presets
from ndwire_asgi.vllm import FIELDS, VLLMMiddleware
from support.arrays import npy_string
from support.asgi import ASKED, Exchange, exchange, http_scope
from support.vectors import recording

TOKENS = '[{"name": "token_ids", "dtypes": ["int32"], "ndim": 1, "wires": ["nested"]}]'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NDWIRE_WHEN", "NDWIRE_FIELDS"):
        monkeypatch.delenv(name, raising=False)


def answering(name: str) -> Any:
    media_type = "text/event-stream" if name.endswith(".sse") else "application/json"

    async def answer(request: Request) -> Response:
        return Response(recording(name), media_type=media_type)

    return Starlette(routes=[Route("/{path:path}", answer)])


def get(app: Any, *, asked: bool = True, path: str = "/inference/v1/generate") -> Exchange:
    return anyio.run(lambda: exchange(app, http_scope(*[ASKED] * asked, path=path)))


@pytest.mark.parametrize("name", ["routed.json", "routed_long.json", "routed_start.json", "generate_routed.json"])
def test_routed_experts(name: str) -> None:
    result = get(VLLMMiddleware(answering(name)))
    assert result.headers[b"preference-applied"] == b"ndarray=envelope"
    assert int(result.headers[b"content-length"]) == len(result.body)
    before, after = loads(recording(name), presets.VLLM), loads(result.body, presets.VLLM)
    for one, two in zip(before["choices"], after["choices"], strict=True):
        assert np.array_equal(one["routed_experts"], two["routed_experts"])
    assert b"k05VTVBZ" not in result.body
    assert get(VLLMMiddleware(answering(name)), asked=False).body == recording(name)


def test_routed_experts_that_are_lists_become_envelopes_as_well() -> None:
    async def answer(request: Request) -> Response:
        return Response(b'{"choices":[{"routed_experts":[[[1,2],[300,4]]]}]}', media_type="application/json")

    result = get(VLLMMiddleware(Starlette(routes=[Route("/{path:path}", answer)])))
    assert orjson.loads(result.body)["choices"][0]["routed_experts"]["dtype"] == "int16"
    assert loads(result.body, presets.VLLM)["choices"][0]["routed_experts"].tolist() == [[[1, 2], [300, 4]]]


@pytest.mark.parametrize(
    "value", ["[" * 900 + "]" * 900, '{"/a":' + "[" * 900 + "]" * 900 + "}", '[{"x":' * 200 + "1" + "}]" * 200]
)
def test_variables_that_nest_deep_are_named_in_short(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDWIRE_FIELDS", value)
    with pytest.raises(ValueError, match="NDWIRE_FIELDS") as caught:
        VLLMMiddleware(answering("routed.json"))
    assert len(str(caught.value)) < 300


def test_a_stream() -> None:
    result = get(VLLMMiddleware(answering("routed_stream.sse")))
    before = list(iter_sse([recording("routed_stream.sse")], presets.VLLM))
    after = list(iter_sse([result.body], presets.VLLM))
    arrays = 0
    for one, two in zip(before, after, strict=True):
        for left, right in zip(one["choices"], two["choices"], strict=True):
            if left.get("routed_experts") is not None:
                arrays += 1
                assert np.array_equal(left.pop("routed_experts"), right.pop("routed_experts"))
        assert one == two
    assert arrays
    assert b"k05VTVBZ" not in result.body


def test_embeddings() -> None:
    lists = get(VLLMMiddleware(answering("embeddings_float.json"))).body
    document = loads(lists, presets.VLLM)
    expected = loads(recording("embeddings_float.json"), presets.VLLM)
    for one, two in zip(document["data"], expected["data"], strict=True):
        assert np.array_equal(one["embedding"], two["embedding"])
    assert b'"embedding":{"data":"' in lists
    # A string is in a dtype that only the request names.
    strings = get(VLLMMiddleware(answering("embeddings_base64.json"))).body
    assert strings == recording("embeddings_base64.json")


def test_other_bodies_stay_as_they_are() -> None:
    for name in ("generate.json", "generate_stream.sse"):
        assert get(VLLMMiddleware(answering(name))).body == recording(name)


def test_more_experts_than_a_byte_holds() -> None:
    routes = np.arange(24, dtype=np.uint16).reshape(2, 3, 4) * 20
    text = orjson.dumps({"routed_experts": npy_string(routes)})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Response(text, media_type="application/json")(scope, receive, send)

    array = loads(get(VLLMMiddleware(app)).body, [Field("routed_experts")])["routed_experts"]
    assert array.dtype == np.int16
    assert np.array_equal(array, routes)


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDWIRE_WHEN", "always")
    assert b"k05VTVBZ" not in get(VLLMMiddleware(answering("routed.json")), asked=False).body
    monkeypatch.setenv("NDWIRE_WHEN", "preferred")
    assert b"k05VTVBZ" in get(VLLMMiddleware(answering("routed.json")), asked=False).body
    monkeypatch.setenv("NDWIRE_FIELDS", TOKENS)
    body = get(VLLMMiddleware(answering("routed.json"))).body
    assert b'"token_ids":{"data":"' in body
    assert b"k05VTVBZ" in body
    monkeypatch.setenv("NDWIRE_FIELDS", f'{{"/v1": {TOKENS}}}')
    app = VLLMMiddleware(answering("routed.json"))
    assert get(app).body == recording("routed.json")
    assert b'"token_ids":{"data":"' in get(app, path="/v1/completions").body


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NDWIRE_WHEN", "sometimes", 'must be "preferred" or "always", not \'sometimes\''),
        ("NDWIRE_WHEN", "", 'must be "preferred" or "always"'),
        ("NDWIRE_FIELDS", "", "it is not JSON"),
        ("NDWIRE_FIELDS", "[", "it is not JSON"),
        ("NDWIRE_FIELDS", "7", "a list of fields is wanted at the top"),
        ("NDWIRE_FIELDS", '"x"', "a list of fields is wanted at the top"),
        ("NDWIRE_FIELDS", '["x"]', "a field is an object with a name"),
        ("NDWIRE_FIELDS", '[{"dtypes": []}]', "a field is an object with a name"),
        ("NDWIRE_FIELDS", '{"/a": {}}', "a list of fields is wanted under '/a'"),
        ("NDWIRE_FIELDS", '{"a": []}', "begins with a slash"),
        ("NDWIRE_FIELDS", '[{"name": "x"}]', "dtypes must be named"),
        ("NDWIRE_FIELDS", '[{"name": "x", "dtypes": ["int7"]}]', "'int7' is not a dtype"),
        ("NDWIRE_FIELDS", '[{"name": "x", "dtype": "int8"}]', "unexpected keyword argument 'dtype'"),
        ("NDWIRE_FIELDS", '[{"name": "x", "wires": ["npy"], "check": 1}]', "check must be callable"),
        ("NDWIRE_FIELDS", '[{"name": 3}]', "cannot be named 3"),
        ("NDWIRE_FIELDS", '[{"name": "x", "wires": 3}]', "not iterable"),
    ],
)
def test_mistakes_in_the_environment_stop_the_server(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable) as caught:
        VLLMMiddleware(answering("routed.json"))
    assert message in str(caught.value)


def test_subclasses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Always(VLLMMiddleware):
        when = "always"
        fields = (*FIELDS, Field("token_ids", dtypes=("int32",), ndim=1))

    body = get(Always(answering("routed.json")), asked=False).body
    assert b'"token_ids":{"data":"' in body
    assert b"k05VTVBZ" not in body

    class Sometimes(VLLMMiddleware):
        fields = Always.fields

        def when(self, scope: Any) -> bool:
            return bool(scope["path"] == "/yes")

    class Others(VLLMMiddleware):
        fields = Always.fields

        @staticmethod
        def when(scope: Any) -> bool:
            return bool(scope["path"] == "/yes")

    for kind in (Sometimes, Others):
        app = kind(answering("routed.json"))
        assert get(app, asked=False, path="/yes").body == body
        assert get(app, path="/no").body == recording("routed.json")
    monkeypatch.setenv("NDWIRE_WHEN", "preferred")
    assert get(Sometimes(answering("routed.json")), asked=False, path="/yes").body == recording("routed.json")


def test_a_mistake_ends_the_process_with_the_variables_name() -> None:
    code = "from ndwire_asgi.vllm import VLLMMiddleware; VLLMMiddleware(None)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NDWIRE_FIELDS": "[}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.rstrip().rpartition("\n")[2].startswith("ValueError: NDWIRE_FIELDS: it is not JSON")


def test_it_holds_longer_values_than_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"embedding":[%b0]}' % (b"0.125," * (6 << 20))

    async def answer(request: Request) -> Response:
        return Response(text, media_type="application/json")

    class Small(VLLMMiddleware):
        max_hold_bytes = 1 << 20

    app = Starlette(routes=[Route("/", answer)])
    assert len(get(VLLMMiddleware(app), path="/").body) < len(text)
    assert get(Small(app), path="/").body == text
    monkeypatch.setenv("NDWIRE_FIELDS", '[{"name": "embedding", "dtypes": ["float32"]}]')
    assert get(Small(app), path="/").body == text
