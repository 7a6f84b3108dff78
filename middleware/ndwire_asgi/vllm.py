"""The middleware for vLLM's own server: ``vllm serve MODEL --middleware ndwire_asgi.vllm.VLLMMiddleware``.

vLLM makes the middleware with the app alone, so what it does is said by environment variables or by a subclass::

    class Mine(VLLMMiddleware):
        when = "always"
        fields = (*FIELDS, Field("token_ids", dtypes=("int32",), ndim=1))
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.types import ASGIApp

from ndwire import Field
from ndwire_asgi._middleware import Fields, NDArrayMiddleware

WHEN_VARIABLE: Final = "NDWIRE_WHEN"
FIELDS_VARIABLE: Final = "NDWIRE_FIELDS"

FIELDS: Final[tuple[Field, ...]] = (
    # The server sends uint8 up to 256 experts and uint16 above. torch knows more of the signed dtypes.
    Field("routed_experts", dtypes=("uint8", "int16", "int32"), ndim=3, wires=("npy", "nested")),
    Field("prompt_token_id_logprobs", dtypes=("float32",), ndim=2, wires=("npy", "nested")),
    # Lists only: a string is base64 in a dtype that the request named, and nothing in the response says which.
    Field("embedding", dtypes=("float32",), wires=("nested",)),
)
"""``choices[i].routed_experts`` (rows, layers, top_k) and ``prompt_token_id_logprobs`` (rows, k), which are base64 of
``.npy`` files or nested lists as they come, and ``data[i].embedding`` (dimensions) where it is a list."""


class VLLMMiddleware(NDArrayMiddleware):
    """Rewrites the arrays of vLLM's responses into envelopes, for requests with ``Prefer: ndarray=envelope``.

    The environment variable ``NDWIRE_WHEN`` may be ``preferred`` or ``always``. ``NDWIRE_FIELDS`` takes the place of
    ``fields``: a JSON list of objects with the arguments of ``Field``, such as
    ``[{"name": "token_ids", "dtypes": ["int32"]}]``, or an object with such lists by path prefix.

    Args:
        app: The server's app.

    Attributes:
        fields: What is rewritten, unless the environment says otherwise.
        when: When, unless the environment says otherwise; a method of the scope decides for itself.
        max_hold_bytes: As for ``NDArrayMiddleware``; more than there, since who trains with a server is trusted.
        max_held_bytes_total: As for ``NDArrayMiddleware``.

    Raises:
        ValueError: A variable holds what cannot work; the message names it.
    """

    fields: Fields = FIELDS
    when: Any = "preferred"
    max_hold_bytes: int = 256 << 20
    max_held_bytes_total: int = 256 << 20

    def __init__(self, app: ASGIApp) -> None:
        when: Any = os.environ.get(WHEN_VARIABLE)
        if when is None:
            when = self.when
        elif when not in ("preferred", "always"):
            raise ValueError(f'{WHEN_VARIABLE} must be "preferred" or "always", not {when!r}')
        text = os.environ.get(FIELDS_VARIABLE)
        if text is None:
            self._configure(app, self.fields, when)
            return
        try:
            self._configure(app, _parsed(text), when)
        except (ValueError, TypeError) as exc:
            raise ValueError(f"{FIELDS_VARIABLE}: {exc}") from exc

    def _configure(self, app: ASGIApp, fields: Fields, when: Any) -> None:
        super().__init__(
            app,
            fields,
            when=when,
            max_hold_bytes=self.max_hold_bytes,
            max_held_bytes_total=self.max_held_bytes_total,
        )


def _parsed(text: str) -> Fields:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise ValueError(f"it is not JSON: {exc}") from exc
    if isinstance(value, Mapping):
        return {prefix: _sequence(items, f"under {prefix!r}") for prefix, items in value.items()}
    return _sequence(value, "at the top")


def _sequence(items: Any, where: str) -> list[Field]:
    if not isinstance(items, list):
        raise ValueError(f"a list of fields is wanted {where}, not {type(items).__name__}")
    return [_field(item) for item in items]


def _field(item: Any) -> Field:
    if not isinstance(item, Mapping) or "name" not in item:
        raise ValueError(f"a field is an object with a name, not {type(item).__name__}")
    return Field(**item)
