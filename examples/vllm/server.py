"""A server that answers as vLLM does, without a model: for tests, and for trying the client.

The routes, keys, their order and the spacing are those of recorded responses. The "model" is a function of the tokens
so far: a conversation always gets the same tokens, log-probabilities and experts, as a prefix of a longer one too.

    python -m examples.vllm.server --port 8000 --middleware
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import io
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import numpy as np
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ndwire_asgi.vllm import VLLMMiddleware

CREATED = 1_795_972_081


@dataclasses.dataclass(frozen=True)
class Model:
    """What the model would be.

    Attributes:
        layers: Layers with experts.
        top_k: Experts for each token and layer.
        experts: Experts in each layer.
        vocabulary: Tokens.
    """

    layers: int = 4
    top_k: int = 4
    experts: int = 16
    vocabulary: int = 1024

    def sample(self, prompt: list[int], count: int, index: int) -> list[int]:
        """Return the tokens that follow a prompt."""
        seed = (sum(prompt[-64:]) * 31 + len(prompt) * 17 + index * 101) % self.vocabulary
        positions = np.arange(len(prompt), len(prompt) + count)
        return [int(token) for token in (seed + positions * 7919 + index) % self.vocabulary]

    def logprobs(self, tokens: list[int], first: int) -> list[float]:
        """Return the log-probabilities of tokens, of which the first stands at position ``first``."""
        positions = np.arange(first, first + len(tokens))
        noise = (np.array(tokens) * 13 + positions * 5) % 1000
        return [float(value) for value in (-6.931 - noise / 1000).astype(np.float32)]

    def routes(self, tokens: list[int], start: int) -> NDArray[Any]:
        """Return the experts of the tokens from ``start`` on, but for the last token, which is not fed.

        Shape (rows, layers, top_k), uint8 up to 256 experts, else uint16, as vLLM has it.
        """
        dtype = np.uint8 if self.experts <= 256 else np.uint16
        fed = np.arange(start, max(len(tokens) - 1, start))
        base = (np.array(tokens, np.int64)[start : len(tokens) - 1] * 7 + fed * 3).astype(np.int32)
        layer = np.arange(self.layers, dtype=np.int32)[:, None] * 5 + np.arange(self.top_k, dtype=np.int32)
        return ((base[:, None, None] + layer) % self.experts).astype(dtype)


def npy(array: NDArray[Any]) -> str:
    """Return an array as the base64 of a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(file.getbuffer()).decode("ascii")


Form = Literal["0.30", "0.32"]
"""Whose responses are written: the keys differ."""


def token_entries(tokens: list[int], logprobs: list[float], top: int, form: Form = "0.30") -> list[dict[str, Any]]:
    """Return ``logprobs.content``."""
    entries: list[dict[str, Any]] = []
    for token, logprob in zip(tokens, logprobs, strict=True):
        entry: dict[str, Any] = {"token": f"token_id:{token}", "logprob": logprob, "bytes": None}
        if form == "0.32":
            entry = {"token_id": token, "logprob": logprob, "rank": 1}
        entries.append({**entry, "top_logprobs": [entry] * top})
    return entries


def choice(
    index: int,
    content: list[dict[str, Any]] | None,
    finish_reason: str | None,
    token_ids: list[int],
    routed_experts: str | None,
    *,
    form: Form = "0.30",
    n_tokens: int | None = None,
) -> dict[str, Any]:
    """Return one of the ``choices`` of /inference/v1/generate.

    Args:
        index: Its number.
        content: Its log-probabilities.
        finish_reason: Why it ended; None while it goes on.
        token_ids: Its tokens, or those of the event.
        routed_experts: The base64 of a ``.npy`` file.
        form: Whose response it is.
        n_tokens: All of its tokens, where the event has not all of them.
    """
    logprobs = None if content is None else {"content": content}
    if form == "0.32":
        versions = [{"version": "default", "start": 0, "end": len(token_ids) if n_tokens is None else n_tokens}]
        return {
            "index": index,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "token_ids": token_ids,
            "routed_experts": routed_experts,
            "sampling_mask": None,
            "weight_versions": versions if finish_reason else None,
            "logprobs": logprobs,
        }
    return {
        "index": index,
        "logprobs": logprobs,
        "finish_reason": finish_reason,
        "token_ids": token_ids,
        "routed_experts": routed_experts,
        "sampling_mask": None,
    }


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Return the numbers of tokens."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def generated(
    request_id: str,
    choices: list[dict[str, Any]],
    prompt_tokens: int,
    created: int,
    *,
    form: Form = "0.30",
    prompt_logprobs: Any = None,
) -> dict[str, Any]:
    """Return the document of /inference/v1/generate."""
    counted = usage(prompt_tokens, sum(len(item["token_ids"]) for item in choices))
    head: dict[str, Any] = {"request_id": request_id, "model": "tiny", "created": created}
    if form == "0.32":
        nothing = dict.fromkeys(
            ("prompt_token_id_logprobs", "prompt_token_ids", "mm_placeholders", "metrics", "kv_transfer_params")
        )
        tail = {"ec_transfer_params": None, "output_mode": "tokens", "choices": choices}
        return {**head, "usage": counted, "prompt_logprobs": prompt_logprobs, **nothing, **tail}
    nothing = dict.fromkeys(("prompt_token_ids", "mm_placeholders", "kv_transfer_params", "ec_transfer_params"))
    return {**head, "choices": choices, "usage": counted, "prompt_logprobs": prompt_logprobs, **nothing}


def event(request_id: str, item: dict[str, Any], form: Form = "0.30") -> bytes:
    """Return an event of the stream."""
    document: dict[str, Any] = {"request_id": request_id, "choices": [item], "usage": None}
    if form == "0.32":
        document = {"request_id": request_id, "usage": None, "output_mode": "tokens", "choices": [item]}
    return b"data: %b\n\n" % json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def embedded(vectors: NDArray[Any], tokens: int, *, as_base64: bool, identity: str, model: str, created: int) -> Any:
    """Return the document of /v1/embeddings for vectors of shape (inputs, dimensions)."""
    data: list[dict[str, Any]] = []
    for index, vector in enumerate(vectors):
        packed = base64.b64encode(vector.astype("<f4").tobytes()).decode() if as_base64 else vector.tolist()
        data.append({"index": index, "object": "embedding", "embedding": packed})
    return {
        "id": identity,
        "object": "list",
        "created": created,
        "model": model,
        "data": data,
        "usage": usage(tokens, 0),
    }


def refusal(message: str) -> Response:
    """Return a 400, as the server words it."""
    error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return JSONResponse({"error": error}, status_code=400)


class Server:
    """The routes."""

    def __init__(self, model: Model, form: Form) -> None:
        self.model = model
        self.form: Form = form
        self.requests = 0

    def _identity(self, prefix: str) -> str:
        self.requests += 1
        return f"{prefix}-{self.requests:016x}"

    async def generate(self, request: Request) -> Response:
        """/inference/v1/generate: tokens in, tokens out."""
        body = await request.json()
        prompt: list[int] = body.get("token_ids") or []
        sampling: dict[str, Any] = body.get("sampling_params") or {}
        start: int = sampling.get("routed_experts_prompt_start", 0)
        if not prompt:
            return refusal("token_ids must not be empty")
        if not 0 <= start <= len(prompt):
            return refusal(f"routed_experts_prompt_start must be between 0 and {len(prompt)}")
        identity = self._identity("generate-tokens")
        count: int = sampling.get("max_tokens", 16)
        top: int | None = sampling.get("logprobs")
        choices: list[dict[str, Any]] = []
        for index in range(sampling.get("n", 1)):
            tokens = self.model.sample(prompt, count, index)
            content = None
            if top is not None:
                content = token_entries(tokens, self.model.logprobs(tokens, len(prompt)), top, self.form)
            routes = npy(self.model.routes([*prompt, *tokens], start))
            choices.append(choice(index, content, "length", tokens, routes, form=self.form))
        if body.get("stream"):
            return StreamingResponse(self._events(identity, choices), media_type="text/event-stream")
        return JSONResponse(generated(identity, choices, len(prompt), CREATED, form=self.form))

    async def _events(self, identity: str, choices: list[dict[str, Any]]) -> AsyncIterator[bytes]:
        for step in range(max((len(item["token_ids"]) for item in choices), default=0)):
            for item in choices:
                last = step == len(item["token_ids"]) - 1
                content = item["logprobs"]["content"][step : step + 1] if item["logprobs"] else None
                part = choice(
                    item["index"],
                    content,
                    item["finish_reason"] if last else None,
                    item["token_ids"][step : step + 1],
                    item["routed_experts"] if last else None,
                    form=self.form,
                    n_tokens=len(item["token_ids"]),
                )
                yield event(identity, part, self.form)
        yield b"data: [DONE]\n\n"

    async def completions(self, request: Request) -> Response:
        """/v1/completions: the prompt is a list of token ids here, and the text their numbers."""
        body = await request.json()
        prompt: list[int] = body["prompt"]
        with_ids = bool(body.get("return_token_ids"))
        choices: list[dict[str, Any]] = []
        for index in range(body.get("n", 1)):
            tokens = self.model.sample(prompt, body.get("max_tokens", 16), index)
            routes = self.model.routes([*prompt, *tokens], body.get("routed_experts_prompt_start", 0))
            choices.append(
                {
                    "index": index,
                    "text": " ".join(map(str, tokens)),
                    "logprobs": None,
                    "finish_reason": "length",
                    "stop_reason": None,
                    "token_ids": tokens if with_ids else None,
                    "prompt_logprobs": None,
                    "prompt_token_ids": prompt if with_ids else None,
                    "routed_experts": npy(routes),
                }
            )
        return JSONResponse(
            {
                "id": self._identity("cmpl"),
                "object": "text_completion",
                "created": CREATED,
                "model": "tiny",
                "choices": choices,
                "service_tier": None,
                "system_fingerprint": None,
                "usage": usage(len(prompt), body.get("max_tokens", 16) * len(choices)),
                "kv_transfer_params": None,
            }
        )

    async def embeddings(self, request: Request) -> Response:
        """/v1/embeddings: each input is a list of token ids."""
        body = await request.json()
        inputs: list[list[int]] = body["input"]
        angles = np.array([[sum(tokens)] for tokens in inputs]) + np.arange(256) / 7
        document = embedded(
            np.sin(angles).astype(np.float32),
            sum(map(len, inputs)),
            as_base64=body.get("encoding_format") == "base64",
            identity=self._identity("embd"),
            model="tinyemb",
            created=CREATED,
        )
        return JSONResponse(document)

    async def health(self, _: Request) -> Response:
        """/health: an empty 200."""
        return Response()

    async def sglang(self, request: Request) -> Response:
        """/generate, as SGLang has it: raw int32 without dtype and shape."""
        body = await request.json()
        prompt: list[int] = body["input_ids"]
        sampling: dict[str, Any] = body.get("sampling_params") or {}
        start: int = body.get("routed_experts_start_len", 0)
        documents: list[dict[str, Any]] = []
        for index in range(sampling.get("n", 1)):
            tokens = self.model.sample(prompt, sampling.get("max_new_tokens", 16), index)
            logprobs = self.model.logprobs(tokens, len(prompt))
            meta: dict[str, Any] = {
                "id": self._identity("sgl"),
                "finish_reason": {"type": "length", "length": len(tokens)},
                "prompt_tokens": len(prompt),
                "completion_tokens": len(tokens),
            }
            if body.get("return_logprob"):
                meta["output_token_logprobs"] = [
                    [logprob, token, None] for logprob, token in zip(logprobs, tokens, strict=True)
                ]
            if body.get("return_routed_experts"):
                routes = self.model.routes([*prompt, *tokens], start).astype("<i4")
                meta["routed_experts"] = base64.b64encode(routes.tobytes()).decode()
            documents.append({"text": "", "output_ids": tokens, "meta_info": meta})
        return JSONResponse(documents if len(documents) > 1 else documents[0])


def make_app(model: Model | None = None, *, middleware: bool = False, form: Form = "0.30") -> Any:
    """Return the app, behind vLLM's middleware if asked."""
    server = Server(model or Model(), form)
    app = Starlette(
        routes=[
            Route("/inference/v1/generate", server.generate, methods=["POST"]),
            Route("/v1/completions", server.completions, methods=["POST"]),
            Route("/v1/embeddings", server.embeddings, methods=["POST"]),
            Route("/generate", server.sglang, methods=["POST"]),
            Route("/health", server.health),
        ]
    )
    return VLLMMiddleware(app) if middleware else app


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="the port on loopback (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--top-k", type=int, default=4)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=1024)
    parser.add_argument("--form", choices=("0.30", "0.32"), default="0.30", help="the version of vLLM to answer like")
    parser.add_argument("--middleware", action="store_true", help="stand behind ndwire_asgi.vllm.VLLMMiddleware")
    arguments = parser.parse_args()
    model = Model(arguments.layers, arguments.top_k, arguments.experts, arguments.vocabulary)
    uvicorn.run(
        make_app(model, middleware=arguments.middleware, form=arguments.form), port=arguments.port, log_level="warning"
    )


if __name__ == "__main__":
    main()
