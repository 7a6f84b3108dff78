"""A client for servers that sample for reinforcement learning: vLLM, with ndwire's middleware or without, and SGLang.

async with GenerateClient("http://127.0.0.1:8000") as client:
    generation = await client.generate([1, 2, 3], n=2, max_tokens=64, logprobs=True)
    generation.choices[0].routed_experts.shape  # (rows, layers, top_k)
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, Self, TypedDict

import aiohttp
import httpx
import msgspec
import numpy as np
import orjson
import tenacity
from numpy.typing import NDArray

import ndwire
from ndwire import Field, Packed, WireError, presets
from ndwire.rl import LogprobColumns, logprob_columns

# A proxy or a server that restarts; everything else is an answer.
RETRYABLE_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))

# As vLLM sends them, and as the middleware does. Token ids are lists on the wire and int32 here.
VLLM_FIELDS = (
    Field(
        "routed_experts", dtypes=("uint8", "int16", "int32", "uint16"), ndim=3, wires=("envelope", "npy"), sidecar=True
    ),
    Field("token_ids", dtypes=("int32",), ndim=1),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """One sample.

    Attributes:
        index: Its number.
        token_ids: Shape (tokens,), int32.
        finish_reason: Why it ended.
        logprobs: Shape (tokens,), float32; None where they were not asked for.
        routed_experts: Shape (rows, layers, top_k), with a sidecar that may hold the first row's position, ``start``;
            None where the server has none.
    """

    index: int
    token_ids: NDArray[np.int32]
    finish_reason: str | None
    logprobs: NDArray[np.float32] | None
    routed_experts: Packed | None


@dataclasses.dataclass(frozen=True, slots=True)
class Generation:
    """What one request gave.

    Attributes:
        request_id: The server's name for it.
        choices: The samples, by index.
        start: The position of the first row of routed experts.
        n_floored: The log-probabilities that were missing or not finite, of all choices.
    """

    request_id: str
    choices: list[Choice]
    start: int
    n_floored: int


class Refused(Exception):
    """The server answered with another status than 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status = status

    @property
    def retryable(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status in RETRYABLE_STATUS


def may_be_retried(error: BaseException) -> bool:
    """Return whether asking again can help: a broken connection, a busy server, a body that ended early."""
    if isinstance(error, (WireError, Refused)):
        return error.retryable
    return isinstance(error, (httpx.TransportError, aiohttp.ClientError, asyncio.TimeoutError))


class _Logprobs(TypedDict, total=False):
    content: msgspec.Raw


class _Choice(TypedDict, total=False):
    index: int
    token_ids: Any
    finish_reason: str | None
    logprobs: _Logprobs | None
    routed_experts: Any


class _Document(TypedDict, total=False):
    request_id: str
    choices: list[_Choice]


_decoder = msgspec.json.Decoder(_Document)


def _loads(text: Any) -> Any:
    """Parse what remains of a body: only what is used, and log-probabilities not at all yet."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        # Another form, or none: orjson says which, and where.
        return orjson.loads(text)


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
                Field("output_ids", dtypes=("int32",), ndim=1),
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
            stream: Whether the samples come in events.
            **sampling_params: More of the server's.

        Raises:
            WireError: The body is broken, and stayed so.
            Refused: Another status than 200; 4xx at once.
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
                    return await self._once(path, body, start, plain=plain, stream=stream)
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

    async def _once(self, path: str, body: Mapping[str, Any], start: int, *, plain: bool, stream: bool) -> Generation:
        async with self._post(path, body) as answer:
            if answer.status != 200:
                raise Refused(answer.status, (await answer.read()).decode("utf-8", "replace"))
            if stream and self._server == "vllm":
                return await _streamed(answer.response, self._fields, start)
            if plain:
                document = orjson.loads(await answer.read())
            else:
                json_loads = _loads if self._server == "vllm" else orjson.loads
                document = await ndwire.aload_response(answer.response, self._fields, json_loads=json_loads)
        if self._server == "sglang":
            return _from_sglang(document, start)
        choices, n_floored = [], 0
        for item in document["choices"]:
            # Parsing took some milliseconds, and so do columns: let others go on in between.
            await asyncio.sleep(0)
            made, floored = _choice(item, document["request_id"])
            choices.append(made)
            n_floored += floored
        return Generation(document["request_id"], choices, start, n_floored)


def _columns(item: Mapping[str, Any], request_id: str) -> LogprobColumns | None:
    logprobs = item.get("logprobs")
    if not logprobs:
        return None
    content = logprobs["content"]
    return logprob_columns(bytes(content) if isinstance(content, msgspec.Raw) else content, request_id=request_id)


def _choice(item: Mapping[str, Any], request_id: str) -> tuple[Choice, int]:
    columns = _columns(item, request_id)
    made = Choice(
        item["index"],
        np.asarray(item["token_ids"], np.int32),
        item.get("finish_reason"),
        None if columns is None else columns.logprobs,
        item.get("routed_experts") if isinstance(item.get("routed_experts"), Packed) else None,
    )
    return made, 0 if columns is None else columns.n_floored


async def _streamed(response: Any, fields: Sequence[Field], start: int) -> Generation:
    """Put the samples together from their events."""
    parts: dict[int, list[Choice]] = {}
    request_id, n_floored = "?", 0
    async for document in ndwire.aiter_sse(response, fields, json_loads=_loads):
        request_id = document.get("request_id", request_id)
        for item in document["choices"]:
            part, floored = _choice(item, request_id)
            n_floored += floored
            parts.setdefault(part.index, []).append(part)
    choices: list[Choice] = []
    for index in sorted(parts):
        of_one = parts[index]
        finish_reason = next((part.finish_reason for part in of_one if part.finish_reason), None)
        if finish_reason is None:
            raise ndwire.IncompleteBody(f"choice {index} has no end")
        logprobs = [part.logprobs for part in of_one if part.logprobs is not None]
        choices.append(
            Choice(
                index,
                np.concatenate([part.token_ids for part in of_one]),
                finish_reason,
                np.concatenate(logprobs) if logprobs else None,
                next((part.routed_experts for part in of_one if part.routed_experts is not None), None),
            )
        )
    return Generation(request_id, choices, start, n_floored)


def _from_sglang(document: Any, start: int) -> Generation:
    """Read SGLang's form: an object for each sample, and log-probabilities as triples."""
    items: list[dict[str, Any]] = document if isinstance(document, list) else [document]
    choices, n_floored = [], 0
    for index, item in enumerate(items):
        meta = item["meta_info"]
        triples = meta.get("output_token_logprobs")
        columns: LogprobColumns | None = None
        if triples is not None:
            content = [{"logprob": logprob, "token_id": token_id} for logprob, token_id, _ in triples]
            columns = logprob_columns(content, request_id=meta["id"])
            n_floored += columns.n_floored
        routes = meta.get("routed_experts")
        choices.append(
            Choice(
                index,
                np.asarray(item["output_ids"], np.int32),
                (meta.get("finish_reason") or {}).get("type"),
                None if columns is None else columns.logprobs,
                Packed(routes, {}) if isinstance(routes, np.ndarray) else routes,
            )
        )
    return Generation(items[0]["meta_info"]["id"], choices, start, n_floored)
