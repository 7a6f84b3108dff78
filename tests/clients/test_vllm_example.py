"""The vLLM example: its server against recordings, its client against that and against servers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
import httpx
import numpy as np
import pytest
from examples.quickstart import Meter
from examples.vllm import demo, server
from examples.vllm.client import Choice, GenerateClient, Generation, Refused, may_be_retried
from examples.vllm.server import Model, make_app
from starlette.responses import JSONResponse

from ndwire import IncompleteBody, MalformedArray, MalformedJSON, Packed, WireError, dumps
from ndwire.rl import RoutedExpertTrace
from support.asgi import serving
from support.rawserver import answer, chunked, saying
from support.vectors import ROOT, recording

PROMPT = list(range(10, 20))
MODEL = Model()


def rendered(document: Any) -> bytes:
    return bytes(JSONResponse(document).body)


def remade(item: dict[str, Any], form: Any, n_tokens: int | None = None) -> dict[str, Any]:
    """Return a recorded choice made anew by the contract server's functions."""
    content = item["logprobs"]["content"]
    if form == "0.30":
        logprobs = [entry["logprob"] for entry in content]
        content = server.token_entries(item["token_ids"], logprobs, len(content[0]["top_logprobs"]))
    rest = (item["finish_reason"], item["token_ids"], item["routed_experts"])
    return server.choice(item["index"], content, *rest, form=form, n_tokens=n_tokens)


@pytest.mark.parametrize(
    ("name", "form"), [("routed.json", "0.30"), ("generate.json", "0.32"), ("generate_routed.json", "0.32")]
)
def test_documents_are_the_recorded_ones_to_the_byte(name: str, form: Any) -> None:
    document = json.loads(recording(name))
    made = server.generated(
        document["request_id"],
        [remade(item, form) for item in document["choices"]],
        document["usage"]["prompt_tokens"],
        document["created"],
        form=form,
        prompt_logprobs=document["prompt_logprobs"],
    )
    assert rendered(made) == recording(name)


def test_entries_of_the_later_form_have_the_recorded_keys() -> None:
    (entry,) = server.token_entries([7], [-1.0], 2, "0.32")
    recorded = json.loads(recording("generate.json"))["choices"][0]["logprobs"]["content"][0]
    assert list(entry) == list(recorded)
    assert [list(top) for top in entry["top_logprobs"]] == [list(top) for top in recorded["top_logprobs"]]


@pytest.mark.parametrize(
    ("name", "form", "n_tokens"), [("routed_stream.sse", "0.30", 5), ("generate_stream.sse", "0.32", 4)]
)
def test_events_are_the_recorded_ones_to_the_byte(name: str, form: Any, n_tokens: int) -> None:
    made = b""
    for line in recording(name).split(b"\n\n"):
        if line.startswith(b"data: {"):
            document = json.loads(line[6:])
            (item,) = document["choices"]
            made += server.event(document["request_id"], remade(item, form, n_tokens), form)
    assert made + b"data: [DONE]\n\n" == recording(name)


@pytest.mark.parametrize("name", ["embeddings_float.json", "embeddings_base64.json"])
def test_embeddings_are_the_recorded_ones_to_the_byte(name: str) -> None:
    document = json.loads(recording(name))
    numbers = json.loads(recording("embeddings_float.json"))
    vectors: Any = np.array([item["embedding"] for item in numbers["data"]])
    made = server.embedded(
        vectors,
        document["usage"]["prompt_tokens"],
        as_base64="base64" in name,
        identity=document["id"],
        model=document["model"],
        created=document["created"],
    )
    assert rendered(made) == recording(name)


def test_routes_are_written_as_they_were_recorded() -> None:
    truth = json.loads((ROOT / "recordings" / "routed.truth.json").read_text())["routed.json"][0]
    array = np.frombuffer(bytes.fromhex(truth["hex"]), truth["dtype"]).reshape(truth["shape"])
    assert server.npy(array) == json.loads(recording("routed.json"))["choices"][0]["routed_experts"]


@contextlib.asynccontextmanager
async def client_of(kind: str, url: str, **options: Any) -> AsyncGenerator[GenerateClient, None]:
    options = {"backoff": 0.001, **options}
    if kind == "httpx":
        async with httpx.AsyncClient(timeout=20) as session, GenerateClient(url, session=session, **options) as client:
            yield client
    elif kind == "aiohttp":
        async with aiohttp.ClientSession() as own, GenerateClient(url, session=own, **options) as client:
            yield client
    else:
        async with GenerateClient(url, **options) as client:
            yield client


def ask(url: str, kind: str = "own", options: dict[str, Any] | None = None, **arguments: Any) -> Generation:
    async def run() -> Generation:
        async with client_of(kind, url, **(options or {})) as client:
            return await client.generate(PROMPT, **arguments)

    return asyncio.run(run())


def check(choice: Choice, *, count: int = 12, start: int = 0, logprobs: bool = True) -> None:
    tokens = MODEL.sample(PROMPT, count, choice.index)
    assert choice.token_ids.tolist() == tokens
    assert choice.token_ids.dtype == np.int32
    assert choice.finish_reason == "length"
    if logprobs:
        assert choice.logprobs is not None
        assert choice.logprobs.dtype == np.float32
        assert np.allclose(choice.logprobs, MODEL.logprobs(tokens, len(PROMPT)))
    else:
        assert choice.logprobs is None
    assert isinstance(choice.routed_experts, Packed)
    assert np.array_equal(choice.routed_experts.array, MODEL.routes([*PROMPT, *tokens], start))


@pytest.mark.parametrize("kind", ["httpx", "aiohttp", "own"])
@pytest.mark.parametrize("middleware", [False, True])
@pytest.mark.parametrize("form", ["0.30", "0.32"])
def test_generating(kind: str, middleware: bool, form: Any) -> None:
    with serving(make_app(middleware=middleware, form=form)) as url:
        for stream in (False, True):
            for logprobs in (False, True):
                made = ask(url, kind, n=2, max_tokens=12, logprobs=logprobs, stream=stream, start=3)
                assert [choice.index for choice in made.choices] == [0, 1]
                assert made.request_id.startswith("generate-tokens-")
                assert (made.start, made.n_floored) == (3, 0)
                for choice in made.choices:
                    check(choice, start=3, logprobs=logprobs)


def test_sglang() -> None:
    with serving(make_app()) as url:
        for n in (1, 2):
            options = {"server": "sglang", "layers": 4, "top_k": 4}
            made = ask(url, options=options, n=n, max_tokens=12, logprobs=True, start=2)
            assert len(made.choices) == n
            for choice in made.choices:
                check(choice, start=2)
        bare = ask(url, options={"server": "sglang", "layers": 4, "top_k": 4}, routed_experts=False).choices[0]
        assert bare.routed_experts is None
        assert bare.logprobs is None
    with pytest.raises(ValueError, match="need layers and top_k"):
        GenerateClient(url, server="sglang")


def test_a_request_without_side_channels_is_parsed_by_orjson_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("not for this")

    monkeypatch.setattr("ndwire.aload_response", never)
    with serving(make_app()) as url:
        choice = ask(url, routed_experts=False, max_tokens=3).choices[0]
    assert choice.token_ids.tolist() == MODEL.sample(PROMPT, 3, 0)
    assert choice.routed_experts is None


def test_turns_make_a_trace() -> None:
    async def run(url: str) -> None:
        conversation, trace = list(PROMPT), RoutedExpertTrace()
        async with GenerateClient(url) as client:
            for _ in range(3):
                made = await client.generate(conversation, max_tokens=5, start=trace.n_rows)
                choice = made.choices[0]
                assert choice.routed_experts is not None
                conversation += choice.token_ids.tolist()
                trace.append(choice.routed_experts, start=made.start, n_tokens=len(conversation))
        experts, mask = trace.finalize(len(conversation))
        assert np.array_equal(experts[:-1], MODEL.routes(conversation, 0))
        assert mask.sum() == len(conversation) - 1

    with serving(make_app(middleware=True)) as url:
        asyncio.run(run(url))


BODY = dumps(
    {
        "request_id": "r-1",
        "choices": [
            {
                "index": 0,
                "token_ids": [1, 2],
                "finish_reason": "stop",
                "logprobs": {"content": [{"token_id": 1, "logprob": None}, {"token_id": 2, "logprob": -1.0}]},
                "routed_experts": np.zeros((3, 2, 2), np.uint8),
            }
        ],
    }
)
GOOD = answer(BODY, b"Content-Length: %d" % len(BODY))
CUT = answer(BODY[:-40], b"Content-Length: %d" % len(BODY))
BROKEN = BODY.replace(b'"shape":[3,2,2]', b'"shape":[3,2,3]')


@pytest.mark.parametrize("kind", ["httpx", "aiohttp"])
@pytest.mark.parametrize(
    "bad",
    [
        b"",
        CUT,
        answer(chunked(BODY[:60]), b"Transfer-Encoding: chunked"),
        answer(BODY[:-1], b"Content-Length: %d" % (len(BODY) - 1)),
        answer(b"<html>502 Bad Gateway</html>", b"Content-Length: 28", status=b"502 Bad Gateway"),
        answer(b"<html>a page</html>", b"Content-Length: 19"),
        answer(b"busy", b"Content-Length: 4", status=b"429 Too Many Requests"),
    ],
)
def test_what_may_be_asked_for_again_is(kind: str, bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with saying(bad, bad, GOOD) as (url, requests), caplog.at_level(logging.WARNING, "ndwire.rl"):
        made = ask(url, kind, logprobs=True)
    assert len(requests) == 3
    assert made.choices[0].token_ids.tolist() == [1, 2]
    assert made.n_floored == 1
    assert caplog.messages == ["request r-1: 1 of 2 log-probabilities floored"]
    assert b"ndarray=envelope" in requests[0]


@pytest.mark.parametrize("kind", ["httpx", "aiohttp"])
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (answer(BROKEN, b"Content-Length: %d" % len(BROKEN)), MalformedArray),
        (answer(b'{"error":1}', b"Content-Length: 11", status=b"400 Bad Request"), Refused),
        (answer(b"no", b"Content-Length: 2", status=b"404 Not Found"), Refused),
    ],
)
def test_what_would_fail_again_is_not_asked_for_again(kind: str, bad: bytes, error: type[Exception]) -> None:
    with saying(bad) as (url, requests), pytest.raises(error):
        ask(url, kind)
    assert len(requests) == 1


def test_a_server_that_stays_broken() -> None:
    with saying(CUT) as (url, requests), pytest.raises((WireError, httpx.TransportError)):
        ask(url, "httpx", options={"attempts": 3})
    assert len(requests) == 3
    with pytest.raises(aiohttp.ClientConnectionError):
        ask("http://127.0.0.1:1", "aiohttp", options={"attempts": 2})


def test_the_deadline_counts_for_all_attempts() -> None:
    with saying(b"") as (url, _), pytest.raises(TimeoutError):
        ask(url, options={"attempts": 1000, "deadline": 0.3, "backoff": 0.05})


def test_a_stream_that_ends_early() -> None:
    events = recording("routed_stream.sse").partition(b'"finish_reason":"length"')[0].rpartition(b"data: ")[0]
    early = answer(events, b"Content-Type: text/event-stream")
    whole = answer(recording("routed_stream.sse"), b"Content-Type: text/event-stream")
    with saying(early, whole) as (url, requests):
        made = ask(url, "httpx", stream=True, logprobs=True)
    assert len(requests) == 2
    assert made.choices[0].token_ids.tolist() == [855, 118, 682, 554, 487]


def test_what_is_retryable() -> None:
    assert may_be_retried(IncompleteBody("x"))
    assert may_be_retried(MalformedJSON("x"))
    assert not may_be_retried(MalformedArray("x"))
    assert may_be_retried(Refused(503, "x"))
    assert not may_be_retried(Refused(422, "x"))
    assert not may_be_retried(KeyError("x"))


def test_without_a_session() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(GenerateClient("http://127.0.0.1:1").generate([1]))


def test_refusals_of_the_contract_server() -> None:
    with serving(make_app()) as url:
        post = httpx.post
        for request, message in (
            ({"token_ids": []}, "token_ids must not be empty"),
            ({"token_ids": [1], "sampling_params": {"routed_experts_prompt_start": 2}}, "must be between 0 and 1"),
        ):
            response = post(url + "/inference/v1/generate", json=request)
            assert response.status_code == 400
            assert message in response.json()["error"]["message"]
        completion = post(url + "/v1/completions", json={"prompt": PROMPT, "max_tokens": 3, "return_token_ids": True})
        choice = completion.json()["choices"][0]
        assert choice["token_ids"] == MODEL.sample(PROMPT, 3, 0)
        assert choice["routed_experts"] == server.npy(MODEL.routes([*PROMPT, *choice["token_ids"]], 0))
        lists = post(url + "/v1/embeddings", json={"input": [[1], [2, 3]]}).json()["data"]
        strings = post(url + "/v1/embeddings", json={"input": [[1], [2, 3]], "encoding_format": "base64"}).json()[
            "data"
        ]
        assert [len(item["embedding"]) for item in lists] == [256, 256]
        assert isinstance(strings[0]["embedding"], str)


def test_the_demo() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.vllm.demo", "--tokens", "60"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT.parent,
    )
    assert result.returncode == 0, result.stderr
    assert "Every number is right." in result.stdout
    assert result.stdout.count("The arrays are equal.") == 2


@pytest.mark.timed
@pytest.mark.parametrize("middleware", [False, True])
def test_the_clients_loop_goes_on(middleware: bool) -> None:
    """32k tokens, 48 layers, top 8, in three turns: no turn stalls the loop for more than 20 ms."""
    model = ("--layers", "48", "--top-k", "8", "--experts", "128", "--vocabulary", "150000")
    least = [float("inf")] * 3

    async def converse(url: str) -> None:
        conversation, trace = list(range(1, 9)), RoutedExpertTrace()
        async with GenerateClient(url) as client:
            await client.generate(conversation, max_tokens=4, logprobs=True)
            for turn in range(3):
                async with Meter(memory=False) as meter:
                    made = await client.generate(conversation, max_tokens=10_900, logprobs=True, start=trace.n_rows)
                choice = made.choices[0]
                assert choice.routed_experts is not None
                conversation += choice.token_ids.tolist()
                trace.append(choice.routed_experts, start=made.start, n_tokens=len(conversation))
                least[turn] = min(least[turn], meter.stall)
        assert trace.n_rows > 32_000

    with demo.serving(*model, *["--middleware"] * middleware) as url:
        for _ in range(5):
            asyncio.run(converse(url))
            if max(least) < 0.02:
                return
    assert max(least) < 0.02, least
