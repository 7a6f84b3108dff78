"""Log-probabilities as columns: two arrays instead of a dict for each token."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

try:
    import msgspec as _msgspec
except ImportError:
    _msgspec = None  # type: ignore[assignment]  # the module is optional

LOGPROB_FLOOR: Final = -9999.0
"""What vLLM itself sends for minus infinity."""

NO_TOKEN_ID: Final = -1
_PREFIX: Final = "token_id:"
_PREFIX_LENGTH: Final = len(_PREFIX)

logger: Final = logging.getLogger("ndwire.rl")


class LogprobColumns(NamedTuple):
    """The log-probabilities of sampled tokens.

    Attributes:
        logprobs: Shape (tokens,), float32, natural logarithms; ``LOGPROB_FLOOR`` where there was none. Writable.
        token_ids: Shape (tokens,), int32; -1 where the server named the token by its text. Writable.
        n_floored: How many of the log-probabilities were missing or not finite.
    """

    logprobs: NDArray[np.float32]
    token_ids: NDArray[np.int32]
    n_floored: int


def logprob_columns(
    content: Sequence[Mapping[str, Any]] | bytes | bytearray | memoryview | None, *, request_id: str = "?"
) -> LogprobColumns:
    """Make columns of ``logprobs.content``, a list with an object for each token.

    An object holds ``logprob``, and ``token_id`` or a ``token`` such as ``"token_id:855"``.

    Args:
        content: The list, parsed, or as JSON text. From text it is several times faster where msgspec is installed: it
            builds no dicts, and skips what is not asked for.
        request_id: Names the request in the log.

    Returns:
        The columns; empty for None.

    Raises:
        ValueError: The text is no such list.
        TypeError: A ``logprob`` is neither a number nor null.
    """
    values, token_ids = _columns(content)
    # NumPy makes NaN of None.
    logprobs = np.array(values, np.float64)
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(logprobs.astype(np.float32))
    n_floored = int(bad.sum())
    if n_floored:
        logprobs[bad] = LOGPROB_FLOOR
        logger.warning("request %s: %d of %d log-probabilities floored", request_id, n_floored, len(values))
    return LogprobColumns(logprobs.astype(np.float32), np.array(token_ids, np.int32), n_floored)


if _msgspec is not None:

    class _Token(_msgspec.Struct, gc=False):
        logprob: float | None = None
        token: str | None = None
        token_id: int | None = None

    _decoder: Any = _msgspec.json.Decoder(list[_Token])
else:
    _decoder = None


def _columns(content: Any) -> tuple[list[float | None], list[int]]:
    """Return the log-probabilities and the token ids of ``content``."""
    if content is None:
        return [], []
    if not isinstance(content, (bytes, bytearray, memoryview)):
        values = [item.get("logprob") for item in content]
        return values, [_token_id(item.get("token_id"), item.get("token")) for item in content]
    try:
        if _decoder is None:
            return _columns(orjson.loads(content))
        items = _decoder.decode(content)
    except Exception as exc:
        raise ValueError(f"not a list of tokens with log-probabilities: {exc}") from exc
    return [item.logprob for item in items], [_token_id(item.token_id, item.token) for item in items]


def _token_id(token_id: int | None, token: str | None) -> int:
    if token_id is not None:
        return token_id
    if token is not None and token.startswith(_PREFIX):
        number = token[_PREFIX_LENGTH:]
        return int(number) if number.isdecimal() else NO_TOKEN_ID
    return NO_TOKEN_ID
