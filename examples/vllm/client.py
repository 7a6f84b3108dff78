"""A client for servers that sample for reinforcement learning: vLLM, with ndwire's middleware or without, and SGLang.

async with GenerateClient("http://127.0.0.1:8000") as client:
    generation = await client.generate([1, 2, 3], n=2, max_tokens=64, logprobs=True)
    generation.choices[0].routed_experts.shape  # (rows, layers, top_k)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, Self

import aiohttp
import httpx
import orjson
import tenacity
from examples.vllm.results import Choice, Generation, Refused, from_sglang, from_vllm, from_vllm_events, parse

import ndwire
from ndwire import Field, WireError, presets

__all__ = ["VLLM_FIELDS", "Choice", "GenerateClient", "Generation", "Refused", "may_be_retried"]

# As vLLM sends them, and as the middleware does. Token ids are lists on the wire and int32 here.
VLLM_FIELDS = (
    Field("routed_experts", dtypes=("uint8", "int16", "int32", "uint16"), ndim=3, sidecar=True, required=True),
    Field("token_ids", dtypes=("int32",), ndim=1, required=True),
)


def may_be_retried(error: BaseException) -> bool:
    """Return whether asking again can help: a broken connection, a busy server, a body that ended early."""
    if isinstance(error, (WireError, Refused)):
        return error.retryable
    return isinstance(error, (httpx.TransportError, aiohttp.ClientError, asyncio.TimeoutError))


class _Answer:
    """A response of either HTTP client."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self.status: int = response.status_code if isinstance(response, httpx.Response) else response.status

    async def read(self) -> bytes:
        """Read the body to its end."""
        body: bytes = await (
            self.response.aread() if isinstance(self.response, httpx.Response) else self.response.read()
        )
        return body


class GenerateClient:
    """Asks a server for samples, again where that can help, until the deadline.

    Args:
        base_url: The server.
        session: An ``httpx.AsyncClient`` or ``aiohttp.ClientSession`` of yours, which stays open; by default one of
            aiohttp's.
        server: ``"vllm"``, or ``"sglang"`` with ``layers`` and ``top_k``, which its responses do not say.
        layers: The model's layers with experts (SGLang).
        top_k: The experts for each token and layer (SGLang).
        attempts: How often a request is sent at most.
        deadline: Seconds for one request, all attempts and pauses together.
        backoff: Seconds before the second attempt at most; twice as many before each further one.
    """

    def __init__(
        self,
        base_url: str,
        *,
        session: httpx.AsyncClient | aiohttp.ClientSession | None = None,
        server: Literal["vllm", "sglang"] = "vllm",
        layers: int | None = None,
        top_k: int | None = None,
        attempts: int = 5,
        deadline: float = 600.0,
        backoff: float = 0.5,
    ) -> None:
        if server == "sglang" and (layers is None or top_k is None):
            raise ValueError("SGLang's routed experts need layers and top_k")
        self._base_url = base_url.rstrip("/")
        self._session = session
        self._owned = session is None
        self._fields: tuple[Field, ...] = VLLM_FIELDS
        if server == "sglang":
            self._fields = (
                *presets.SGLANG(layers or 0, top_k or 0)[:1],
                Field("output_ids", dtypes=("int32",), ndim=1, required=True),
            )
        self._server = server
        self._attempts = attempts
        self._deadline = deadline
        self._backoff = backoff

    async def __aenter__(self) -> Self:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._owned and isinstance(self._session, aiohttp.ClientSession):
            await self._session.close()
            self._session = None

    async def generate(
        self,
        token_ids: Sequence[int],
        *,
        n: int = 1,
        max_tokens: int = 16,
        logprobs: bool = False,
        routed_experts: bool = True,
        start: int = 0,
        stream: bool = False,
        **sampling_params: Any,
    ) -> Generation:
        """Sample.

        Args:
            token_ids: The prompt.
            n: How many samples.
            max_tokens: How long each may be.
            logprobs: Whether their log-probabilities are wanted.
            routed_experts: Whether the routed experts are read. A request that wants neither is parsed by orjson alone.
            start: The position of the first row of routed experts.
            stream: Whether the samples come in events (vLLM).
            **sampling_params: More of the server's.

        Raises:
            WireError: The body is broken, or samples are missing, and that stayed so.
            Refused: Another status than 200, or an error in the place of a document; 4xx at once.
            TimeoutError: The deadline has passed.
            httpx.TransportError, aiohttp.ClientError: No connection, to the last attempt.
        """
        sampling = {"n": n, "max_tokens": max_tokens, **sampling_params}
        if self._server == "sglang":
            path, body = self._sglang_request(list(token_ids), sampling, logprobs, routed_experts, start)
        else:
            path, body = self._vllm_request(list(token_ids), sampling, logprobs, start, stream)
        plain = not (logprobs or routed_experts)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(may_be_retried),
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=tenacity.wait_random_exponential(multiplier=self._backoff, max=30),
            reraise=True,
        )
        async with asyncio.timeout(self._deadline):
            async for attempt in retrying:
                with attempt:
                    return await self._once(path, body, start, n=n, plain=plain, stream=stream)
        raise AssertionError("tenacity raises when it gives up")

    def _vllm_request(
        self, prompt: list[int], sampling: dict[str, Any], logprobs: bool, start: int, stream: bool
    ) -> tuple[str, dict[str, Any]]:
        if logprobs:
            sampling.setdefault("logprobs", 1)
        if start:
            sampling["routed_experts_prompt_start"] = start
        return "/inference/v1/generate", {"token_ids": prompt, "sampling_params": sampling, "stream": stream}

    def _sglang_request(
        self, prompt: list[int], sampling: dict[str, Any], logprobs: bool, routed_experts: bool, start: int
    ) -> tuple[str, dict[str, Any]]:
        sampling["max_new_tokens"] = sampling.pop("max_tokens")
        return "/generate", {
            "input_ids": prompt,
            "sampling_params": sampling,
            "return_logprob": logprobs,
            "return_routed_experts": routed_experts,
            "routed_experts_start_len": start,
        }

    @contextlib.asynccontextmanager
    async def _post(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[_Answer, None]:
        session = self._session
        if session is None:
            raise RuntimeError("use it in `async with`, or give it a session")
        url = self._base_url + path
        headers = dict([ndwire.PREFER, ("Content-Type", "application/json")])
        if isinstance(session, httpx.AsyncClient):
            async with session.stream("POST", url, content=orjson.dumps(body), headers=headers) as response:
                yield _Answer(response)
        else:
            async with session.post(url, data=orjson.dumps(body), headers=headers) as answer:
                yield _Answer(answer)

    async def _once(
        self, path: str, body: Mapping[str, Any], start: int, *, n: int, plain: bool, stream: bool
    ) -> Generation:
        vllm = self._server == "vllm"
        async with self._post(path, body) as answer:
            if answer.status != 200:
                raise Refused(answer.status, (await answer.read()).decode("utf-8", "replace"))
            if stream and vllm:
                # A proxy may cut a stream between two events; without [DONE], a sample may be missing or short.
                events = ndwire.aiter_sse(answer.response, self._fields, done="required", json_loads=parse)
                return await from_vllm_events(events, n=n, start=start)
            if plain:
                document = ndwire.loads(await answer.read(), ())
            else:
                json_loads = parse if vllm else orjson.loads
                document = await ndwire.aload_response(answer.response, self._fields, json_loads=json_loads)
        return await from_vllm(document, n=n, start=start) if vllm else from_sglang(document, n=n, start=start)
