"""Registries for the responses of known servers, as they send them without any middleware, or with ours.

Token ids stay the lists that they are. Whoever wants arrays of them, or other rules, builds a registry from these:
``(*presets.VLLM, Field("token_ids", dtypes=("int32",)))``.
"""

from __future__ import annotations

from typing import Final

from ndwire._field import Field

# Stock servers send uint8 up to 256 experts and uint16 above; ndwire's middleware sends the signed dtypes, which torch
# knows more of.
_EXPERT_IDS: Final = ("uint8", "int16", "int32", "uint16")

VLLM: Final[tuple[Field, ...]] = (
    Field("routed_experts", dtypes=_EXPERT_IDS, ndim=3, wires=("envelope", "npy")),
    Field("prompt_token_id_logprobs", dtypes=("float32",), ndim=2, wires=("envelope", "npy")),
    Field("embedding", dtypes=("float32",), ndim=1, raw_dtype="float32"),
)
"""vLLM 0.22 and newer: ``choices[i].routed_experts`` (rows, layers, top_k) and ``prompt_token_id_logprobs`` (rows, k)
are base64 of whole ``.npy`` files; ``data[i].embedding`` (dimensions) is a list of floats or base64 of raw float32, the
default of that server. For another ``embed_dtype`` of the request name another ``raw_dtype``."""

OPENAI_EMBEDDINGS: Final[tuple[Field, ...]] = (Field("embedding", dtypes=("float32",), ndim=1, raw_dtype="float32"),)
"""``data[i].embedding`` (dimensions) as OpenAI, llama.cpp, TEI and SGLang send it: a list of floats, or base64 of raw
little-endian float32 for ``encoding_format="base64"``."""

PRIME_RL: Final[tuple[Field, ...]] = (
    Field("routed_experts", dtypes=_EXPERT_IDS, ndim=3, wires=("envelope",), sidecar=True),
)
"""prime-rl, verifiers and renderers: ``choices[i].routed_experts`` (rows, layers, top_k) as an envelope whose sidecar
holds ``start``. The document has ``Packed(array, {"start": ...})``."""

SKYRL: Final[tuple[Field, ...]] = (
    Field("routed_experts", wires=("envelope",)),
    Field("rollout_sample_support", wires=("envelope",)),
)
"""SkyRL: ``choices[i].routed_experts`` and ``rollout_sample_support`` as envelopes."""


def SGLANG(layers: int, top_k: int) -> tuple[Field, ...]:  # noqa: N802 - a registry like the others
    """Return the registry for SGLang's native and OpenAI routes.

    ``meta_info.routed_experts`` or ``sglext.routed_experts`` is base64 of raw int32 that says neither dtype nor shape.

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
        wires=("envelope",),
        raw_dtype="int32",
        raw_shape=(-1, layers, top_k),
    )
    return (routed, *OPENAI_EMBEDDINGS)
