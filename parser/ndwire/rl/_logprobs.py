"""Log-probabilities as columns: two arrays instead of a dict for each token."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from ndwire._contract.shown import shown
from ndwire._contract.types import as_octets

try:
    import msgspec as _msgspec
except ImportError:
    _msgspec = None  # type: ignore[assignment]  # the module is optional

LOGPROB_FLOOR: Final = -9999.0
"""What vLLM itself sends for minus infinity."""

NO_TOKEN_ID: Final = -1
_PREFIX: Final = "token_id:"
_PREFIX_LENGTH: Final = len(_PREFIX)
_TRIPLES: Final = re.compile(rb"[ \t\n\r]*+\[[ \t\n\r]*+\[")
_INT32: Final = np.iinfo(np.int32)

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
    content: Sequence[Mapping[str, Any]] | Sequence[Sequence[Any]] | bytes | bytearray | memoryview | None,
    *,
    request_id: str = "?",
) -> LogprobColumns:
    """Make columns of a list with an entry for each token, as inference servers send it.

    In ``logprobs.content`` of vLLM and SkyRL that is an object with ``logprob``, and ``token_id`` or a ``token`` such
    as ``"token_id:855"``; in ``meta_info.output_token_logprobs`` of SGLang a triple ``[logprob, token id, text]``.
    Null for a log-probability is one that the server does not know.

    Args:
        content: The list, parsed, or as JSON text. From text it is several times faster where msgspec is installed: it
            builds no dicts, and skips what is not asked for.
        request_id: Names the request in the log.

    Returns:
        The columns; empty for None.

    Raises:
        ValueError: It is no such list: an entry of another form, one without ``logprob``, or a number out of range.
        TypeError: A log-probability is neither a number nor null, or a token id no integer.
    """
    values, token_ids = _columns(content)
    # NumPy makes NaN of None.
    logprobs = _numbers(values, (float, int, np.floating, np.integer, type(None)), np.float64, "log-probability")
    ids = _numbers(token_ids, (int, np.integer), np.int64, "token id")
    if len(ids) and not (_INT32.min <= ids.min() and ids.max() <= _INT32.max):
        raise ValueError("a token id is out of range")
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(logprobs.astype(np.float32))
    n_floored = int(bad.sum())
    if n_floored:
        logprobs[bad] = LOGPROB_FLOOR
        logger.warning("request %s: %d of %d log-probabilities floored", request_id, n_floored, len(values))
    return LogprobColumns(logprobs.astype(np.float32), ids.astype(np.int32), n_floored)


if _msgspec is not None:

    class _Token(_msgspec.Struct, gc=False):
        logprob: float | None
        token: str | None = None
        token_id: int | None = None

    class _Triple(_msgspec.Struct, gc=False, array_like=True):
        logprob: float | None
        token_id: int | None
        token: str | None = None

    _decoder: Any = _msgspec.json.Decoder(list[_Token])
    _triples_decoder: Any = _msgspec.json.Decoder(list[_Triple])
else:
    _decoder = _triples_decoder = None


def _columns(content: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-probabilities and the token ids of ``content``."""
    if content is None:
        return [], []
    if not isinstance(content, (bytes, bytearray, memoryview, str)):
        return _columns_of(content)
    text = as_octets(content, "content")
    try:
        if _decoder is None:
            return _columns_of(orjson.loads(text))
        items = (_triples_decoder if _TRIPLES.match(text) else _decoder).decode(text)
    except Exception as exc:
        raise ValueError(f"not a list of tokens with log-probabilities: {exc}") from exc
    return [item.logprob for item in items], [_token_id(item.token_id, item.token) for item in items]


def _columns_of(items: Any) -> tuple[list[Any], list[Any]]:
    """Return the log-probabilities and the token ids of a parsed list."""
    if not isinstance(items, Sequence):
        raise ValueError(f"not a list of tokens with log-probabilities: {shown(items)}")
    triples = len(items) > 0 and isinstance(items[0], (list, tuple))
    try:
        if triples:
            return [item[0] for item in items], [_token_id(item[1], None) for item in items]
        return (
            [item["logprob"] for item in items],
            [_token_id(item.get("token_id"), item.get("token")) for item in items],
        )
    except (LookupError, TypeError, AttributeError) as exc:
        wanted = "[logprob, token id, text]" if triples else "an object with logprob"
        wrong = ((number, item) for number, item in enumerate(items) if not _is_entry(item, triples=triples))
        number, item = next(wrong, (0, items[0]))
        raise ValueError(
            f"not a list of tokens with log-probabilities: the entry {number} is {shown(item)}, not {wanted}"
        ) from exc


def _is_entry(item: Any, *, triples: bool) -> bool:
    if triples:
        return isinstance(item, (list, tuple)) and len(item) > 1
    return isinstance(item, Mapping) and "logprob" in item


def _numbers(values: list[Any], kinds: tuple[type, ...], dtype: Any, what: str) -> NDArray[Any]:
    for kind in set(map(type, values)):
        # NumPy would read text as numbers, cut decimals, and count true as 1.
        if kind is bool or not issubclass(kind, kinds):
            raise TypeError(f"a {what} is of type {kind.__name__}")
    try:
        return np.array(values, dtype)
    except OverflowError as exc:
        raise ValueError(f"a {what} is out of range") from exc


def _token_id(token_id: Any, token: Any) -> Any:
    if token_id is not None:
        return token_id
    if isinstance(token, str) and token.startswith(_PREFIX):
        number = token[_PREFIX_LENGTH:]
        return int(number) if number.isdecimal() else NO_TOKEN_ID
    return NO_TOKEN_ID
