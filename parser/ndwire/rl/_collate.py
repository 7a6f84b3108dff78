"""Batches: arrays of different lengths, padded on the right, in one array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ndwire._contract.arrays import as_array
from ndwire.rl._cpus import usable_cpus

# Copying less than this in a thread of its own takes longer than copying it here.
_WORTH_A_THREAD: Final = 1 << 20


def collate(
    arrays: Sequence[NDArray[Any]], pad_to: int | None = None, out: Any = None, *, workers: int | None = None
) -> Any:
    """Copy arrays into the rows of one batch, with zeros behind each.

    The copies run side by side in as many threads as the process has CPUs (NumPy lets the interpreter go on meanwhile).

    Args:
        arrays: Shape (length, ...) each; only the lengths may differ.
        pad_to: The length of the batch's rows; by default that of the longest array.
        out: Where the batch goes: a writable array of shape (len(arrays), pad_to, ...), or a tensor on the host,
            pinned or not, whose memory is filled. Its dtype must hold those of the arrays.
        workers: The number of threads; by default ``usable_cpus()``.

    Returns:
        ``out``, or a new array of shape (len(arrays), pad_to, ...) in the widest of the dtypes.

    Raises:
        ValueError: No arrays, shapes that do not fit together, an array longer than ``pad_to``, or an ``out`` that
            does not fit or cannot be written to.
    """
    if not arrays:
        raise ValueError("there is nothing to collate")
    longest = max(map(len, arrays))
    length = longest if pad_to is None else pad_to
    if longest > length:
        raise ValueError(f"an array of length {longest} does not fit {length}")
    tail = arrays[0].shape[1:]
    for array in arrays:
        if array.shape[1:] != tail:
            raise ValueError(f"arrays of the shapes (length, *{tail}) and (length, *{array.shape[1:]}) make no batch")
    shape = (len(arrays), length, *tail)
    dtype = np.result_type(*{array.dtype for array in arrays})
    target: NDArray[Any] | None = np.empty(shape, dtype) if out is None else as_array(out)
    if target is None or target.shape != shape or not np.can_cast(dtype, target.dtype, "safe"):
        found = type(out).__name__ if target is None else f"{target.dtype} in {target.shape}"
        raise ValueError(f"out must be an array for {dtype} in {shape}, not {found}")
    if not target.flags.writeable:
        raise ValueError("out cannot be written to")

    def fill(row: int) -> None:
        array = arrays[row]
        target[row, : len(array)] = array
        target[row, len(array) :] = 0

    n_bytes = math.prod(shape) * target.itemsize
    threads = min(workers or usable_cpus(), len(arrays), max(n_bytes // _WORTH_A_THREAD, 1))
    if threads == 1:
        for row in range(len(arrays)):
            fill(row)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, range(len(arrays))))
    return target if out is None else out
