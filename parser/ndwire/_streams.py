"""Bodies that come in chunks: the loops around the parser."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import orjson

from ndwire._buffers import Allocate
from ndwire._field import Field
from ndwire._limits import Limits
from ndwire._parser import BytesLike, JSONLoads, Parser

_DEFAULT_LIMITS: Final = Limits()


def load(
    chunks: Iterable[BytesLike],
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    allocate: Allocate | None = None,
    limits: Limits = _DEFAULT_LIMITS,
    json_loads: JSONLoads = orjson.loads,
) -> Any:
    """Read a body that comes in chunks; the arrays are decoded while they arrive.

    Args:
        chunks: Pieces of the body, of any size.
        fields: The registered fields.
        content_length: As for ``Parser``.
        allocate: As for ``Parser``.
        limits: As for ``Parser``.
        json_loads: As for ``Parser``.

    Returns:
        The document, with arrays where the registered names hold them.

    Raises:
        WireError: The body is broken or ended early.
    """
    parser = Parser(fields, content_length=content_length, allocate=allocate, limits=limits, json_loads=json_loads)
    for chunk in chunks:
        parser.feed(chunk)
    return parser.close()


async def aload(
    chunks: AsyncIterable[BytesLike],
    fields: Iterable[Field],
    *,
    content_length: int | None = None,
    allocate: Allocate | None = None,
    limits: Limits = _DEFAULT_LIMITS,
    json_loads: JSONLoads = orjson.loads,
) -> Any:
    """Read a body that comes in chunks, asynchronously. See ``load``."""
    parser = Parser(fields, content_length=content_length, allocate=allocate, limits=limits, json_loads=json_loads)
    async for chunk in chunks:
        parser.feed(chunk)
    return parser.close()
