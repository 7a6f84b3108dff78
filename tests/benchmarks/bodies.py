"""The bodies that are measured, and the fields to read them with."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire import Field, dumps


@dataclasses.dataclass(frozen=True)
class Body:
    """A body, what it was made of, and what is left of it without its arrays.

    Attributes:
        text: The JSON.
        fields: What it is read with.
        name: The key of its arrays.
        arrays: The arrays, in order.
        remainder: The JSON with null for each array.
    """

    text: bytes
    fields: tuple[Field, ...]
    name: str
    arrays: list[NDArray[Any]]
    remainder: bytes

    def chunks(self, n_bytes: int) -> list[bytes]:
        """Return the text cut into chunks."""
        return [self.text[start : start + n_bytes] for start in range(0, len(self.text), n_bytes)]


def _body(document: Any, without: Any, name: str, dtypes: tuple[str, ...], arrays: list[NDArray[Any]]) -> Body:
    return Body(dumps(document), (Field(name, dtypes=dtypes),), name, arrays, orjson.dumps(without))


def _sample(choice: dict[str, Any], name: str, dtypes: tuple[str, ...], array: NDArray[Any]) -> Body:
    """A body of one choice that holds one array."""
    with_array, without = ({"choices": [{**choice, name: value}]} for value in (array, None))
    return _body(with_array, without, name, dtypes, [array])


def routed(scale: float = 1.0) -> Body:
    """One sample of 122,880 tokens: 90 MiB of int16 routes and 1.7 MB of other JSON."""
    chance = np.random.default_rng(0)
    tokens = max(int(122_880 * scale), 1)
    routes = chance.integers(0, 128, (tokens, 48, 8), dtype=np.int16)
    choice: dict[str, Any] = {
        "index": 0,
        "token_ids": chance.integers(0, 150_000, tokens).tolist(),
        "logprobs": [round(float(value), 5) for value in chance.random(tokens)],
        "finish_reason": "stop",
    }
    return _sample(choice, "routed_experts", ("uint8", "int16"), routes)


def experts(scale: float = 1.0) -> Body:
    """32,768 tokens x 48 layers x 8 experts as uint8."""
    routes = np.random.default_rng(4).integers(0, 128, (max(int(32_768 * scale), 1), 48, 8), dtype=np.uint8)
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    return _sample(choice, "routed_experts", ("uint8", "int16"), routes)


def experts_as_lists(scale: float = 1.0) -> Body:
    """The same as nested lists."""
    routes = experts(scale).arrays[0]
    text = b'{"routed_experts":%b}' % orjson.dumps(routes, option=orjson.OPT_SERIALIZE_NUMPY)
    return Body(text, (Field("routed_experts", dtypes=("uint8", "int16")),), "routed_experts", [routes], text)


def flat(n_bytes: int) -> Body:
    """One array of so many bytes and nothing else."""
    array = np.random.default_rng(5).integers(0, 256, n_bytes, dtype=np.uint8)
    return _sample({"index": 0}, "x", ("uint8",), array)


def embeddings(scale: float = 1.0) -> Body:
    """10,000 arrays of 1,536 float32."""
    count = max(int(10_000 * scale), 2)
    vectors = np.random.default_rng(1).standard_normal((count, 1536)).astype(np.float32)
    return _body(
        {"object": "list", "data": [{"index": k, "embedding": vectors[k]} for k in range(count)]},
        {"object": "list", "data": [{"index": k, "embedding": None} for k in range(count)]},
        "embedding",
        ("float32",),
        list(vectors),
    )


def remainder_heavy(scale: float = 1.0) -> Body:
    """33 MB of other JSON with 2.3 million numbers, and one small array."""
    chance = np.random.default_rng(2)
    count = max(int(1_150_000 * scale), 2)
    choice: dict[str, Any] = {
        "token_ids": chance.integers(0, 150_000, count).tolist(),
        "logprobs": chance.standard_normal(count).tolist(),
    }
    array = np.arange(1000, dtype=np.int16)
    return _sample(choice, "routed_experts", ("int16",), array)


TINY = b'{"id":"x","choices":[{"index":0,"text":"hello","finish_reason":"stop"}]}'


def nested(kind: str, scale: float = 1.0) -> Body:
    """A list of numbers as plain JSON, under a registered name.

    Args:
        kind: ``"integers"`` (small ones, in rows of 8), ``"decimals"`` (short ones, in pairs), ``"token ids"`` or
            ``"doubles"`` (17 digits).
        scale: The size, as a part of the full one, some 10 MB of text.
    """
    chance = np.random.default_rng(3)
    array: NDArray[Any]
    dtypes: tuple[str, ...]
    match kind:
        case "integers":
            array, dtypes = chance.integers(0, 128, (max(int(8000 * scale), 1), 48, 8)), ("uint8", "int16")
        case "decimals":
            array, dtypes = chance.random((max(int(500_000 * scale), 1), 2)).round(4), ("float32",)
        case "token ids":
            array, dtypes = chance.integers(0, 150_000, max(int(1_500_000 * scale), 1)), ("int32",)
        case _:
            array, dtypes = chance.standard_normal(max(int(500_000 * scale), 1)), ("float64",)
    text = orjson.dumps(array.tolist())
    return Body(b'{"x":' + text + b"}", (Field("x", dtypes=dtypes),), "x", [array], text)


def ordinary_list(scale: float = 1.0) -> Body:
    """A list of lists under a registered name whose last row is too short."""
    rows = [[1, 2, 3]] * max(int(500_000 * scale), 2) + [[1]]
    text = orjson.dumps({"x": rows})
    return Body(text, (Field("x"),), "x", [], text)
