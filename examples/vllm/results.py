"""What servers that sample for reinforcement learning answer: their documents and events, as arrays.

Nothing that is missing passes for a result: an error that comes under 200 is ``Refused``, a sample that never began or
has no end is a retryable ``IncompleteBody``, and an answer of another form a ``ContractError``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire import ContractError, IncompleteBody, Packed
from ndwire.rl import LogprobColumns, logprob_columns

# A proxy or a server that restarts; everything else is an answer.
RETRYABLE_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))


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
    """The server answered with another status than 200, or with an error in the place of a document.

    Attributes:
        status: The response's, or the code that the error names.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text[:500]}")
        self.status = status

    @property
    def retryable(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status in RETRYABLE_STATUS


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
    # Of errors.
    error: Any
    object: Any
    message: Any
    code: Any


_decoder = msgspec.json.Decoder(_Document)


def parse(text: Any) -> Any:
    """Parse what remains of a body of vLLM: only what is used, and log-probabilities not at all yet."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        # Another form, or none: orjson says which, and where.
        return orjson.loads(text)


async def from_vllm(document: Any, *, n: int, start: int) -> Generation:
    """Read the document of /inference/v1/generate.

    Args:
        document: With arrays where the fields hold them.
        n: How many samples were asked for.
        start: The position of the first row of routed experts that was asked for.

    Raises:
        Refused: It is an error.
        IncompleteBody: A sample is missing.
        ContractError: It is something else.
    """
    choices: list[Choice] = []
    n_floored = 0
    request_id = str(_answer(document).get("request_id", "?"))
    for item in _choices(document):
        # Parsing took some milliseconds, and so do columns: let others go on in between.
        await asyncio.sleep(0)
        made, floored = _choice(item, request_id)
        choices.append(made)
        n_floored += floored
    return Generation(request_id, _complete(choices, n), start, n_floored)


async def from_vllm_events(documents: AsyncIterable[Any], *, n: int, start: int) -> Generation:
    """Put the samples together from the documents of their events. See ``from_vllm``."""
    parts: dict[int, list[Choice]] = {}
    request_id, n_floored = "?", 0
    async for document in documents:
        request_id = str(_answer(document).get("request_id", request_id))
        for item in _choices(document):
            part, floored = _choice(item, request_id)
            n_floored += floored
            parts.setdefault(part.index, []).append(part)
    return Generation(request_id, _complete([_joined(of_one) for of_one in parts.values()], n), start, n_floored)


def from_sglang(document: Any, *, n: int, start: int) -> Generation:
    """Read SGLang's form: an object for each sample, and log-probabilities as triples. See ``from_vllm``."""
    items: list[Any] = document if isinstance(document, list) else [document]
    choices: list[Choice] = []
    request_id, n_floored = "?", 0
    for index, item in enumerate(items):
        meta = _answer(item).get("meta_info")
        if not isinstance(meta, dict):
            raise ContractError("a sample has no meta_info")
        if index == 0:
            request_id = str(meta.get("id", "?"))
        triples = meta.get("output_token_logprobs")
        columns: LogprobColumns | None = None
        if triples is not None:
            columns = logprob_columns(triples, request_id=request_id)
            n_floored += columns.n_floored
        routes = meta.get("routed_experts")
        choices.append(
            Choice(
                index,
                _tokens(item.get("output_ids")),
                (meta.get("finish_reason") or {}).get("type"),
                None if columns is None else columns.logprobs,
                Packed(routes, {}) if isinstance(routes, np.ndarray) else routes,
            )
        )
    return Generation(request_id, _complete(choices, n), start, n_floored)


def _answer(document: Any) -> dict[str, Any]:
    """Return an object that is no error."""
    if not isinstance(document, dict):
        raise ContractError(f"the answer is no object, but {type(document).__name__}")
    error = document if document.get("object") == "error" else document.get("error")
    if error is not None:
        code = str(error.get("code")) if isinstance(error, dict) else ""
        # A status has three digits; what else stands there is no status.
        raise Refused(int(code) if code.isdecimal() and len(code) == 3 else 200, orjson.dumps(error).decode())
    return document


def _choices(document: Mapping[str, Any]) -> list[Any]:
    choices = document.get("choices")
    if not isinstance(choices, list):
        raise ContractError("the answer has no choices")
    return choices


def _choice(item: Any, request_id: str) -> tuple[Choice, int]:
    if not isinstance(item, dict) or type(item.get("index")) is not int:
        raise ContractError("a choice has no index")
    columns = _columns(item, request_id)
    made = Choice(
        item["index"],
        _tokens(item.get("token_ids")),
        item.get("finish_reason"),
        None if columns is None else columns.logprobs,
        item.get("routed_experts") if isinstance(item.get("routed_experts"), Packed) else None,
    )
    return made, 0 if columns is None else columns.n_floored


def _columns(item: Mapping[str, Any], request_id: str) -> LogprobColumns | None:
    logprobs = item.get("logprobs")
    if not logprobs:
        return None
    content = logprobs["content"]
    return logprob_columns(bytes(content) if isinstance(content, msgspec.Raw) else content, request_id=request_id)


def _tokens(values: Any) -> NDArray[np.int32]:
    if not isinstance(values, (np.ndarray, list)):
        raise ContractError("a sample has no token ids")
    try:
        return np.asarray(values, np.int32)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ContractError(f"a sample has token ids that are none: {exc}") from exc


def _joined(parts: Sequence[Choice]) -> Choice:
    """Return one sample that came in parts."""
    index = parts[0].index
    finish_reason = next((part.finish_reason for part in parts if part.finish_reason), None)
    if finish_reason is None:
        raise IncompleteBody(f"sample {index} has no end")
    logprobs = [part.logprobs for part in parts if part.logprobs is not None]
    return Choice(
        index,
        np.concatenate([part.token_ids for part in parts]),
        finish_reason,
        np.concatenate(logprobs) if logprobs else None,
        next((part.routed_experts for part in parts if part.routed_experts is not None), None),
    )


def _complete(choices: list[Choice], n: int) -> list[Choice]:
    """Return the samples by index: each of those that were asked for, once."""
    found = sorted(choice.index for choice in choices)
    missing = sorted(set(range(n)) - set(found))
    if missing:
        raise IncompleteBody(f"samples {missing} of {n} are missing")
    if found != list(range(n)):
        raise ContractError(f"{n} samples were asked for, and {found} came")
    return sorted(choices, key=lambda choice: choice.index)
