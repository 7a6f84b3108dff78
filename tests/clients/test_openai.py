"""The OpenAI SDK against the contract server, and against one that streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import openai
import pytest
from examples.vllm.server import Model, make_app
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Mount, Route

from ndwire import (
    PREFER,
    Field,
    aiter_ndjson,
    aiter_sse,
    aload,
    aload_response,
    dumps,
    iter_ndjson,
    iter_sse,
    load,
    load_response,
    presets,
)
from support.asgi import serving

PROMPT = [5, 6, 7]
ROUTES = (Field("routed_experts"),)
ARRAY = np.arange(60_000, dtype=np.uint8).reshape(5000, 4, 3)
ASKING: dict[str, Any] = {"model": "tiny", "messages": [], "stream": True, "extra_headers": dict([PREFER])}


async def chat(request: Request) -> Response:
    asked = request.headers.get("prefer") == "ndarray=envelope"

    async def events() -> AsyncIterator[bytes]:
        for k in range(2):
            yield b"data: " + dumps({"asked": asked, "choices": [{"index": k, "routed_experts": ARRAY}]}) + b"\n\n"
        yield b"data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "behind the middleware"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    app = Starlette(
        routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Mount("/", make_app(middleware=request.param))]
    )
    with serving(app) as base:
        yield base + "/v1"


def check_completion(document: Any) -> None:
    tokens = Model().sample(PROMPT, 3, 0)
    assert np.array_equal(document["choices"][0]["routed_experts"], Model().routes([*PROMPT, *tokens], 0))


def check_events(documents: list[Any]) -> None:
    assert [document["choices"][0]["index"] for document in documents] == [0, 1]
    for document in documents:
        assert document["asked"]
        assert np.array_equal(document["choices"][0]["routed_experts"], ARRAY)


def check_embeddings(document: Any) -> None:
    vectors = [item["embedding"] for item in document["data"]]
    assert [vector.shape for vector in vectors] == [(256,), (256,)]
    assert np.allclose(vectors[0], np.sin(1 + np.arange(256) / 7))


def test_streaming_responses(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="x") as client:
        completions = client.completions.with_streaming_response
        for read in (load_response, load):
            with completions.create(model="tiny", prompt=PROMPT, max_tokens=3) as response:
                check_completion(read(response, ROUTES))
        with client.embeddings.with_streaming_response.create(model="e", input=[[1], [2, 3]]) as embedded:
            check_embeddings(load_response(embedded, presets.OPENAI_EMBEDDINGS))
        with completions.create(model="tiny", prompt=PROMPT, max_tokens=3) as response:
            (document,) = iter_ndjson(response, ROUTES)
            check_completion(document)
        with client.chat.completions.with_streaming_response.create(**ASKING) as response:
            check_events(list(iter_sse(response, ROUTES, done="required")))
        with pytest.raises(RuntimeError):
            load_response(response, ROUTES)


def test_raw_responses(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="x") as client:
        response: Any = client.completions.with_raw_response.create(model="tiny", prompt=PROMPT, max_tokens=3)
        for _ in range(2):
            check_completion(load_response(response, ROUTES))
        check_completion(next(iter(iter_ndjson(response, ROUTES))))
        response = client.chat.completions.with_raw_response.create(**ASKING)
        check_events(list(iter_sse(response, ROUTES, done="required")))


def test_streaming_responses_asynchronously(url: str) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
            completions = client.completions.with_streaming_response
            for read in (aload_response, aload):
                async with completions.create(model="tiny", prompt=PROMPT, max_tokens=3) as response:
                    check_completion(await read(response, ROUTES))
            async with client.embeddings.with_streaming_response.create(model="e", input=[[1], [2, 3]]) as embedded:
                check_embeddings(await aload_response(embedded, presets.OPENAI_EMBEDDINGS))
            async with completions.create(model="tiny", prompt=PROMPT, max_tokens=3) as response:
                check_completion(await anext(aiter(aiter_ndjson(response, ROUTES))))
            async with client.chat.completions.with_streaming_response.create(**ASKING) as response:
                check_events([document async for document in aiter_sse(response, ROUTES, done="required")])

    asyncio.run(run())


def test_raw_responses_asynchronously(url: str) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:
            response: Any = await client.completions.with_raw_response.create(model="tiny", prompt=PROMPT, max_tokens=3)
            for _ in range(2):
                check_completion(await aload_response(response, ROUTES))
            response = await client.chat.completions.with_raw_response.create(**ASKING)
            check_events([document async for document in aiter_sse(response, ROUTES, done="required")])

    asyncio.run(run())


def test_what_the_sdk_has_parsed_is_refused_with_what_to_use(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="x") as client, client.chat.completions.create(**ASKING) as stream:
        for read in (load, load_response, iter_sse, iter_ndjson):
            with pytest.raises(TypeError, match=r"openai\..*Stream gives.*with_streaming_response"):
                list(read(stream, ROUTES))
        with pytest.raises(TypeError, match="not a response of httpx"):
            load_response(client.completions.create(model="tiny", prompt=PROMPT, max_tokens=3), ROUTES)

    async def run() -> None:
        client = openai.AsyncOpenAI(base_url=url, api_key="x")
        async with client, await client.chat.completions.create(**ASKING) as stream:
            for read in (aiter_sse, aiter_ndjson):
                with pytest.raises(TypeError, match=r"AsyncStream.*with_streaming_response"):
                    read(stream, ROUTES)
            for load_it in (aload, aload_response):
                with pytest.raises(TypeError, match=r"AsyncStream.*with_streaming_response"):
                    await load_it(stream, ROUTES)

    asyncio.run(run())


def test_typed_answers_stay_typed_where_only_one_call_asks(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="x") as client:
        with client.chat.completions.with_streaming_response.create(**ASKING) as response:
            check_events(list(iter_sse(response, ROUTES)))
        embedding = client.embeddings.create(model="e", input=[[1]], encoding_format="float").data[0].embedding
        assert [type(value) for value in embedding] == [float] * 256
