"""Registries for the responses of known servers, as they send them without any middleware, or with ours.

Each field reads every form: envelopes, base64 of ``.npy`` files, nested lists, and raw base64 where the server sends
it. So a server that changes its form from one version to the next goes on giving arrays. In lists of floats null counts
as NaN, since that is what ndwire's own nested lists, and others, write for what is not finite.

Token ids stay the lists that they are. Whoever wants arrays of them, or other rules, builds a registry from these:
``(*presets.VLLM, Field("token_ids", dtypes=("int32",)))``.
"""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from ndwire._contract.field import Field

# Stock servers send uint8 up to 256 experts and uint16 above; ndwire's middleware sends the signed dtypes, which torch
# knows more of.
_EXPERT_IDS: Final = ("uint8", "int16", "int32", "uint16")
_EMBEDDING: Final = Field("embedding", dtypes=("float32",), ndim=1, raw_dtype="float32", nulls="nan")


def _one_or_two_dimensions(array: NDArray[Any]) -> None:
    if array.ndim not in (1, 2):
        raise ValueError(f"an embedding has one dimension, or a row for each token, not the shape {array.shape}")


VLLM: Final[tuple[Field, ...]] = (
    Field("routed_experts", dtypes=_EXPERT_IDS, ndim=3),
    Field("prompt_token_id_logprobs", dtypes=("float32",), ndim=2, nulls="nan"),
    _EMBEDDING,
)
"""vLLM 0.22 and newer: ``choices[i].routed_experts`` (rows, layers, top_k) and ``prompt_token_id_logprobs`` (rows, k)
are base64 of whole ``.npy`` files; ``data[i].embedding`` (dimensions) is a list of floats or base64 of raw float32, the
default of that server. For another ``embed_dtype`` of the request name another ``raw_dtype``. Checked against bodies of
vLLM 0.30.0 (routed experts, also in streams) and 0.32.0 (embeddings in both forms); ``prompt_token_id_logprobs``
against its documentation alone."""

OPENAI_EMBEDDINGS: Final[tuple[Field, ...]] = (_EMBEDDING,)
"""``data[i].embedding`` (dimensions) as OpenAI, TEI and SGLang send it: a list of floats, or base64 of raw
little-endian float32 for ``encoding_format="base64"``. Checked against vLLM's bodies in both forms; the others against
their documentation."""

LLAMA_CPP: Final[tuple[Field, ...]] = (
    Field("embedding", dtypes=("float32",), raw_dtype="float32", nulls="nan", check=_one_or_two_dimensions),
)
"""llama.cpp's server: ``data[i].embedding`` (dimensions) of ``/v1/embeddings`` is a list, or base64 of raw float32;
``embedding`` of ``/embedding`` is a list of (rows, dimensions), with one row of a pooled embedding and one for each
token without pooling, and was (dimensions) in older versions. Checked against the source of 2024 to 2026, not against
recorded bodies."""

OLLAMA: Final[tuple[Field, ...]] = (Field("embeddings", dtypes=("float32",), ndim=2, nulls="nan"), _EMBEDDING)
"""Ollama: ``embeddings`` (inputs, dimensions) of ``/api/embed`` is a nested list; ``embedding`` (dimensions) is a list
in the older ``/api/embeddings``, and a list or base64 of raw float32 in ``data[i]`` of ``/v1/embeddings``. Checked
against the source of 2025 and 2026, not against recorded bodies."""

PRIME_RL: Final[tuple[Field, ...]] = (Field("routed_experts", dtypes=_EXPERT_IDS, ndim=3, sidecar=True),)
"""prime-rl, verifiers and renderers: ``choices[i].routed_experts`` (rows, layers, top_k) as an envelope whose sidecar
holds ``start``, since July 2026; earlier ones name no dtype, and are refused. The document has ``Packed(array,
{"start": ...})``, and ``Packed(array, {})`` for nested lists and for the ``.npy`` files of the vLLM beneath. Checked
against its pull requests, not against recorded bodies."""

SKYRL: Final[tuple[Field, ...]] = (
    Field("routed_experts", dtypes=_EXPERT_IDS, ndim=3),
    Field("rollout_sample_support", dtypes=("int32", "int64"), ndim=2),
    Field("rollout_sample_support_logprobs", dtypes=("float32",), ndim=2, nulls="nan"),
)
"""SkyRL: ``choices[i].routed_experts`` (rows, layers, top_k), ``rollout_sample_support`` (tokens, k), ids that end in
-1, and ``rollout_sample_support_logprobs`` (tokens, k) are envelopes; routed experts were nested lists once. Checked
against the source of 2026, not against recorded bodies."""


def SGLANG(layers: int, top_k: int) -> tuple[Field, ...]:  # noqa: N802 - a registry like the others
    """Return the registry for SGLang's native and OpenAI routes.

    ``meta_info.routed_experts`` or ``sglext.routed_experts`` is base64 of raw int32 that says neither dtype nor shape.
    Checked against the documentation of 0.5, not against recorded bodies.

    Args:
        layers: The model's layers with experts.
        top_k: The experts per token and layer.

    Returns:
        Fields that give ``routed_experts`` the shape (rows, layers, top_k), and ``embedding`` (dimensions).

    Raises:
        ValueError: A number below 1.
    """
    if layers < 1 or top_k < 1:
        raise ValueError(f"layers and top_k must be at least 1, not {layers} and {top_k}")
    routed = Field(
        "routed_experts",
        dtypes=("int32", "uint8", "int16", "uint16"),
        ndim=3,
        raw_dtype="int32",
        raw_shape=(-1, layers, top_k),
    )
    return (routed, *OPENAI_EMBEDDINGS)
