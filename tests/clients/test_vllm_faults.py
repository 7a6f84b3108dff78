"""What the vLLM example's client makes of answers that look like success and are none."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from examples.vllm.client import GenerateClient, Generation, Refused

from ndwire import ContractError, IncompleteBody, MalformedJSON, dumps
from support.rawserver import answer, chunked, saying

ROUTES = np.zeros((3, 2, 2), np.uint8)


def choice(index: int, finish_reason: str | None = "stop", **changed: Any) -> dict[str, Any]:
    return {
        "index": index,
        "token_ids": [1, 2],
        "finish_reason": finish_reason,
        "logprobs": None,
        "routed_experts": ROUTES if finish_reason else None,
        **changed,
    }


def event(*choices: Any) -> bytes:
    return b"data: " + dumps({"request_id": "r-1", "choices": list(choices)}) + b"\n\n"


def document(*choices: Any) -> bytes:
    return dumps({"request_id": "r-1", "choices": list(choices)})


def sample(**changed: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"id": "s-1", "finish_reason": {"type": "stop"}, "output_token_logprobs": [[-0.5, 7, None]]}
    return {"output_ids": [1, 2], "meta_info": meta, **changed}


DONE = b"data: [DONE]\n\n"
PAGE = b"<html>502 Bad Gateway</html>"
REFUSALS = {
    "an error object": b'{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}',
    "an error in the older form": b'{"object":"error","message":"no","type":"BadRequestError","code":400}',
    "an error with a code in words": b'{"error":{"message":"no","code":"invalid_prompt"}}',
    "an error that is a text": b'{"error":"no"}',
}
BUSY = b'{"error":{"message":"busy","type":"InternalServerError","code":503}}'


def ask(url: str, **arguments: Any) -> Generation:
    options: dict[str, Any] = {"backoff": 0.001, "attempts": 3}
    if arguments.pop("sglang", False):
        options |= {"server": "sglang", "layers": 2, "top_k": 2}

    async def run() -> Generation:
        async with httpx.AsyncClient(timeout=20) as session, GenerateClient(url, session=session, **options) as client:
            return await client.generate([1, 2, 3], **arguments)

    return asyncio.run(run())


def streamed(body: bytes) -> bytes:
    return answer(chunked(body), b"Transfer-Encoding: chunked")


RETRYABLE_STREAMS = {
    "a page under 200": (PAGE, MalformedJSON),
    "an empty body": (b"", IncompleteBody),
    "comments only": (b": ping\n\n: ping\n\n", IncompleteBody),
    "cut before the first event": (event(choice(0))[:4], IncompleteBody),
    "cut within an event": (event(choice(0))[:60], IncompleteBody),
    "cut before the second sample": (event(choice(0)), IncompleteBody),
    "cut before the end": (event(choice(0)) + event(choice(1)), IncompleteBody),
    "no sample at all": (DONE, IncompleteBody),
    "a sample that never began": (event(choice(0)) + DONE, IncompleteBody),
    "the first sample never began": (event(choice(1)) + DONE, IncompleteBody),
    "a sample without an end": (event(choice(0)) + event(choice(1, None)) + DONE, IncompleteBody),
    "an error outside of events": (event(choice(0)) + b'error: {"code":500}\n\n', MalformedJSON),
}


@pytest.mark.parametrize("name", RETRYABLE_STREAMS)
def test_a_stream_that_is_not_whole_is_asked_for_again(name: str) -> None:
    body, error = RETRYABLE_STREAMS[name]
    whole = streamed(event(choice(1, None)) + event(choice(0)) + event(choice(1)) + DONE)
    with saying(streamed(body), whole) as (url, requests):
        made = ask(url, n=2, stream=True)
    assert len(requests) == 2
    assert [(one.index, one.token_ids.tolist()) for one in made.choices] == [(0, [1, 2]), (1, [1, 2, 1, 2])]
    with saying(streamed(body)) as (url, requests), pytest.raises(error):
        ask(url, n=2, stream=True)
    assert len(requests) == 3


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("way", ["event", "event behind others", "document", "plain", "sglang", "sglang's list"])
def test_an_error_under_200_is_a_refusal(way: str, name: str) -> None:
    error = REFUSALS[name]
    body = {
        "event": b"data: " + error + b"\n\n" + DONE,
        "event behind others": event(choice(0, None)) + b"data: " + error + b"\n\n" + DONE,
        "sglang's list": b"[" + error + b"]",
    }.get(way, error)
    arguments: dict[str, Any] = {"sglang": "sglang" in way, "stream": "event" in way, "routed_experts": way != "plain"}
    with saying(streamed(body)) as (url, requests), pytest.raises(Refused, match="no") as caught:
        ask(url, **arguments)
    assert len(requests) == 1
    assert caught.value.status == (400 if b"400" in error else 200)


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_under_200_that_may_pass_is_asked_for_again(stream: bool) -> None:
    bad = b"data: " + BUSY + b"\n\n" if stream else BUSY
    good = event(choice(0)) + DONE if stream else document(choice(0))
    with saying(streamed(bad), streamed(good)) as (url, requests):
        assert ask(url, stream=stream).choices[0].token_ids.tolist() == [1, 2]
    assert len(requests) == 2


RETRYABLE_DOCUMENTS = {
    "a page under 200": (PAGE, MalformedJSON),
    "an empty body": (b"", IncompleteBody),
    "one sample of two": (document(choice(0)), IncompleteBody),
    "no sample": (document(), IncompleteBody),
}


@pytest.mark.parametrize("routed_experts", [False, True])
@pytest.mark.parametrize("name", RETRYABLE_DOCUMENTS)
def test_a_document_that_is_not_whole_is_asked_for_again(name: str, routed_experts: bool) -> None:
    body, error = RETRYABLE_DOCUMENTS[name]
    with saying(streamed(body), streamed(document(choice(1), choice(0)))) as (url, requests):
        made = ask(url, n=2, routed_experts=routed_experts)
    assert [one.index for one in made.choices] == [0, 1]
    assert len(requests) == 2
    with saying(streamed(body)) as (url, _), pytest.raises(error):
        ask(url, n=2, routed_experts=routed_experts)


@pytest.mark.parametrize(
    "body",
    [
        b"5",
        b"[]",
        b'{"choices":null}',
        b'{"request_id":"r-1"}',
        b'{"choices":[5]}',
        b'{"choices":[{"token_ids":[1]}]}',
        b'{"choices":[{"index":0}]}',
        b'{"choices":[{"index":0,"token_ids":null}]}',
        b'{"choices":[{"index":0,"token_ids":[1,null]}]}',
        b'{"choices":[{"index":0,"token_ids":[1],"routed_experts":"zzz"}]}',
        b'{"choices":[{"index":0,"token_ids":[1],"routed_experts":[[[1,2],[3]]]}]}',
        document(choice(0), choice(0)),
        document(choice(0), choice(1)),
    ],
)
def test_an_answer_of_another_form_breaks_the_contract(body: bytes) -> None:
    with saying(streamed(body)) as (url, requests), pytest.raises(ContractError):
        ask(url)
    assert len(requests) == 1
    if body.startswith(b"{"):
        with saying(streamed(b"data: " + body + b"\n\ndata: [DONE]\n\n")) as (url, _):
            if body == document(choice(0), choice(0)):
                assert ask(url, stream=True).choices[0].token_ids.tolist() == [1, 2, 1, 2]
            else:
                with pytest.raises(ContractError):
                    ask(url, stream=True)


def test_sglang_s_samples_are_counted() -> None:
    both = orjson.dumps([sample(), sample()])
    with saying(streamed(orjson.dumps(sample())), streamed(both)) as (url, requests):
        made = ask(url, n=2, sglang=True)
    assert len(requests) == 2
    assert [one.index for one in made.choices] == [0, 1]
    assert made.request_id == "s-1"
    with saying(streamed(both)) as (url, _), pytest.raises(ContractError, match="1 samples were asked for"):
        ask(url, sglang=True)
    for broken in (sample(meta_info=None), sample(output_ids=None), 5, [5]):
        with saying(streamed(orjson.dumps(broken))) as (url, requests), pytest.raises(ContractError):
            ask(url, sglang=True)
        assert len(requests) == 1


def test_routed_experts_as_lists_are_arrays_as_well() -> None:
    body = document(choice(0, routed_experts=[[[1, 2], [3, 4]]]))
    with saying(streamed(body)) as (url, _):
        routed = ask(url).choices[0].routed_experts
    assert routed is not None
    assert routed.array.tolist() == [[[1, 2], [3, 4]]]


def test_an_error_whose_code_is_no_status_is_a_refusal() -> None:
    body = b'{"error":{"message":"no","code":"' + b"9" * 5000 + b'"}}'
    with saying(streamed(body)) as (url, _), pytest.raises(Refused) as caught:
        ask(url)
    assert caught.value.status == 200
