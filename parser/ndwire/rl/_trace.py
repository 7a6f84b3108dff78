"""The routed experts of a conversation, turn by turn.

A server computes a row for every token that it feeds to the model, and the last token that it samples is not fed. So
a turn that ends with ``n`` tokens in the conversation has rows for the positions up to ``n - 2``, of which it returns
those from ``start`` on: ``n - 1 - start`` rows. The next turn goes on where this one ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ndwire._contract.field import Packed
from ndwire._contract.shown import shown
from ndwire.rl._experts import check_experts


class TracedExperts(NamedTuple):
    """The routed experts of a whole conversation.

    Attributes:
        experts: Shape (tokens, layers, top_k); zeros where there is no row. Writable, C order.
        mask: Shape (tokens,), bool: whether the token has a row.
    """

    experts: NDArray[Any]
    mask: NDArray[np.bool_]


class RoutedExpertTrace:
    """Collects the rows of the turns of one conversation.

    Appending keeps the arrays as they are, and copies nothing: ``finalize`` does so once.
    """

    __slots__ = ("_parts", "_starts", "n_rows")

    def __init__(self) -> None:
        self.n_rows: int = 0
        """The rows so far: where the next turn may start."""
        self._parts: list[NDArray[Any]] = []
        self._starts: list[int] = []

    def append(self, experts: NDArray[Any] | Packed, *, start: int | None = None, n_tokens: int | None = None) -> None:
        """Append the rows of a turn.

        Args:
            experts: Ids of shape (rows, layers, top_k) in any integer dtype, which must not change afterwards; or
                these with a sidecar that may hold ``start``.
            start: The position of the first row's token, from the request. By default the sidecar's, else 0 for the
                first turn and where the last one ended for the others.
            n_tokens: The tokens of the conversation with this turn, to check the number of rows against.

        Raises:
            ValueError: A gap behind the rows so far, rows that differ from those that are there, another number of
                rows than ``n_tokens`` asks for, or other layers or top_k than before.
            TypeError: Not integers.
        """
        sidecar: dict[str, Any] = {}
        if isinstance(experts, Packed):
            experts, sidecar = experts
        check_experts(experts)
        if self._parts and experts.shape[1:] != self._parts[0].shape[1:]:
            raise ValueError(f"a turn has the layers and top_k {experts.shape[1:]}, not {self._parts[0].shape[1:]}")
        start = self._start_of(start, sidecar)
        end = start + len(experts)
        if n_tokens is not None and end != max(n_tokens - 1, start):
            raise ValueError(
                f"{len(experts)} rows from {start} on do not fit {n_tokens} tokens, of which the last has none"
            )
        overlap = min(self.n_rows, end) - start
        if overlap > 0:
            self._compare(experts[:overlap], start)
        if end > self.n_rows:
            self._parts.append(experts[self.n_rows - start :])
            self._starts.append(self.n_rows)
            self.n_rows = end

    def finalize(
        self, n_tokens: int, loss_mask: ArrayLike | None = None, *, out: NDArray[Any] | None = None
    ) -> TracedExperts:
        """Put all rows into one array.

        Args:
            n_tokens: The tokens of the conversation.
            loss_mask: Shape (n_tokens,): what is trained on. A token that is needs the row of the token before it, by
                which it was sampled.
            out: Shape (n_tokens, layers, top_k) of an integer dtype that holds the ids: where the rows go.

        Returns:
            The rows in the widest of the turns' dtypes (or in ``out``), and which of them exist. The array is the
            caller's.

        Raises:
            ValueError: More rows than tokens have, a trained token without a row before it, or an ``out`` that does not
                fit.
        """
        if self.n_rows > max(n_tokens - 1, 0):
            raise ValueError(f"{self.n_rows} rows are more than {n_tokens} tokens have")
        if loss_mask is not None:
            self._check_loss(np.asarray(loss_mask, np.bool_), n_tokens)
        layers_and_top_k = self._parts[0].shape[1:] if self._parts else (0, 0)
        dtype = np.result_type(*(part.dtype for part in self._parts)) if self._parts else np.dtype(np.uint8)
        if out is None:
            out = np.empty((n_tokens, *layers_and_top_k), dtype)
        elif out.shape != (n_tokens, *layers_and_top_k) or not np.can_cast(dtype, out.dtype, "safe"):
            raise ValueError(
                f"out of {out.dtype} in {out.shape} does not fit {(n_tokens, *layers_and_top_k)} of {dtype}"
            )
        for start, part in zip(self._starts, self._parts, strict=True):
            out[start : start + len(part)] = part
        out[self.n_rows :] = 0
        return TracedExperts(out, np.arange(n_tokens) < self.n_rows)

    def _start_of(self, start: int | None, sidecar: dict[str, Any]) -> int:
        told = sidecar.get("start")
        if told is not None and (type(told) is not int or (start is not None and start != told)):
            raise ValueError(f"the server says that the rows start at {shown(told)}; {start} was asked for")
        begin = start if start is not None else told if told is not None else self.n_rows
        if begin < 0:
            raise ValueError(f"rows cannot start at {begin}")
        if begin > self.n_rows:
            raise ValueError(f"rows that start at {begin} leave a gap behind the {self.n_rows} rows so far")
        return begin

    def _compare(self, rows: NDArray[Any], start: int) -> None:
        """Refuse rows that differ from those that are there already."""
        end = start + len(rows)
        for begin, part in zip(self._starts, self._parts, strict=True):
            low, high = max(begin, start), min(begin + len(part), end)
            if low < high and not np.array_equal(part[low - begin : high - begin], rows[low - start : high - start]):
                raise ValueError(f"rows between {low} and {high} differ from those of an earlier turn")

    def _check_loss(self, loss_mask: NDArray[np.bool_], n_tokens: int) -> None:
        if loss_mask.shape != (n_tokens,):
            raise ValueError(f"loss_mask has the shape {loss_mask.shape}, not {(n_tokens,)}")
        trained = np.flatnonzero(loss_mask)
        if len(trained) and int(trained[-1]) > self.n_rows:
            raise ValueError(f"the token {int(trained[-1])} is trained on, but there are {self.n_rows} rows")
