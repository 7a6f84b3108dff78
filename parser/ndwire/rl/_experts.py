"""Routed experts in their one canonical form: three dimensions, in the smallest dtype that holds the ids."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.arrays import as_array
from ndwire._contract.dtypes import dtype_name
from ndwire._contract.shown import shown
from ndwire._wires.envelope import pack_ndarray

EXPERT_DTYPES: Final = ("uint8", "int16", "int32")
"""The dtypes of routed experts, the smallest first. ``uint16`` is none of them: torch has no max or arange for it."""

_SIGNED: Final = ("int8", "int16", "int32")


def check_experts(array: NDArray[Any]) -> None:
    """Refuse what is no array of ids of shape (rows, layers, top_k).

    Raises:
        TypeError: Not integers.
        ValueError: Not three dimensions.
    """
    if array.dtype.kind not in "iu":
        raise TypeError(f"routed experts must be integers, not {array.dtype}")
    if array.ndim != 3:
        raise ValueError(f"routed experts have the dimensions (rows, layers, top_k), not the shape {array.shape}")


def smallest_experts(experts: Any, *, signed: bool = False) -> NDArray[Any]:
    """Return routed experts in the smallest dtype that holds every id.

    Args:
        experts: Ids of shape (rows, layers, top_k) in any integer dtype and layout: an ndarray, a tensor on any device,
            whatever has ``__array__`` or DLPack.
        signed: Take ``int8`` instead of ``uint8``.

    Returns:
        An array of shape (rows, layers, top_k): uint8 up to an id of 255 (or int8 up to 127), else int16 up to
        2**15 - 1, else int32; uint8 (int8) where there are no ids. It is ``experts`` itself where that has this dtype.

    Raises:
        TypeError: Not an array (nested lists are none), or not of integers.
        ValueError: Not three dimensions, or an id below 0 or beyond 2**31 - 1.
    """
    array = as_array(experts)
    if array is None:
        raise TypeError(f"routed experts must be an array, not {type(experts).__name__}")
    check_experts(array)
    least, greatest = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if least < 0:
        raise ValueError(f"the expert id {least} is negative")
    for name in _SIGNED if signed else EXPERT_DTYPES:
        if greatest <= np.iinfo(name).max:
            return array.astype(name, copy=False)
    raise ValueError(f"the expert id {greatest} is 2**31 or more")


def pack_routed_experts(experts: Any, *, start: SupportsIndex | None = None, signed: bool = False) -> dict[str, Any]:
    """Make the envelope of routed experts, as a dict for any JSON library.

    Args:
        experts: As for ``smallest_experts``.
        start: The position of the first row's token, where it is not the first; a sidecar of the envelope.
        signed: As for ``smallest_experts``.

    Returns:
        ``{"data": str, "shape": [rows, layers, top_k], "dtype": str}``, and ``"start"`` where it is given.

    Raises:
        TypeError: As ``smallest_experts``; or ``start`` is no integer.
        ValueError: As ``smallest_experts``; or ``start`` is negative.
    """
    sidecar: dict[str, int] | None = None
    if start is not None:
        if not isinstance(start, (int, np.integer)) or isinstance(start, bool):
            raise TypeError(f"start must be an integer, not {shown(start)}")
        sidecar = {"start": operator.index(start)}
        if sidecar["start"] < 0:
            raise ValueError(f"start must be at least 0, not {start}")
    return pack_ndarray(smallest_experts(experts, signed=signed), sidecar=sidecar)


def canonical_experts(num_experts: int | None = None, *, signed: bool = False) -> Callable[[NDArray[Any]], None]:
    """Return a ``check`` for a ``Field`` that holds routed experts in their canonical form.

    It refuses arrays that have not three dimensions, ids in a wider dtype than they need, and ids that are no expert's.
    Servers that choose the dtype by the number of experts send some ids in a wider one: leave the check to those
    whose servers use ``pack_routed_experts``.

    Args:
        num_experts: The model's number of experts; None allows every id that is not negative.
        signed: As for ``smallest_experts``.

    Returns:
        A function of an array of shape (rows, layers, top_k) that raises ``ValueError``.

    Raises:
        ValueError: ``num_experts`` is below 1.
    """
    if num_experts is not None and num_experts < 1:
        raise ValueError(f"num_experts must be at least 1, not {num_experts}")

    def check(array: NDArray[Any]) -> None:
        try:
            name = dtype_name(smallest_experts(array, signed=signed).dtype)
        except TypeError as exc:
            raise ValueError(str(exc)) from exc
        if name != dtype_name(array.dtype):
            raise ValueError(f"the ids are in {array.dtype}, but {name} holds them")
        if num_experts is not None and array.size and int(array.max()) >= num_experts:
            raise ValueError(f"the expert id {int(array.max())} is not below the number of experts, {num_experts}")

    return check
