"""Values on their way into envelopes: what a rewritten value becomes, now or later.

A value is read as the client would read it, but that the dtypes of its field narrow it instead of judging it, and then
written as an envelope. Whatever stands in the way of that leaves the value as it came.
"""

from __future__ import annotations

import array
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import orjson
import pybase64
from numpy.typing import NDArray

from ndwire._buffers.array_buffer import ArrayBuffer
from ndwire._buffers.base64 import Base64Decoder, encode_pieces
from ndwire._contract.arrays import narrow
from ndwire._contract.dtypes import BIG_ENDIAN_HOST
from ndwire._contract.errors import MalformedArray, WireError
from ndwire._contract.field import Field
from ndwire._contract.limits import Limits
from ndwire._contract.types import Pause, no_pause
from ndwire._wires.envelope import OPENING, ending
from ndwire._wires.nested import read_flat, read_list
from ndwire._wires.npy import NpyBuffer
from ndwire._wires.npy_header import opaque_dtype
from ndwire._wires.numbers.fitting import attempts, integers_of
from ndwire._wires.numbers.flat import FlatKind
from ndwire._wires.raw import raw_meta, raw_size
from ndwire._wires.spec import build

HeldWire = Literal["npy", "raw", "nested"] | FlatKind
"""The wires that become envelopes; a short, flat list has its own kinds."""

_LIMITS: Final = Limits()
# Arrays of so many bytes are encoded in one call.
_SMALL: Final = 64 << 10
_PIECE_BYTES: Final = 256 << 10
# Longer lists are faster with NumPy, but for bytes.
_FEW_BYTES: Final = 256
_FEW: Final = 64
_ANY_OR_ONE: Final = (None, 1)
_FLOATS: Final = ("float32", "float64")

# Makes the bytes of a dtype out of a list of numbers. Raises for what the dtype does not hold.
Maker = Callable[[Any], Any]


def _float32(values: list[float]) -> array.array[float]:
    floats = array.array("f", values)
    # So few of them cannot exceed a double's range.
    if not math.isfinite(sum(floats)):
        raise OverflowError
    return floats


def _makers() -> Iterator[tuple[str, Maker]]:
    yield "uint8", bytes
    yield "float32", _float32
    for code in "bhHiIqQd":
        yield np.dtype(code).name, functools.partial(array.array, code)


# Name of a dtype -> its maker, and the ending of its envelope. Python's arrays are in the machine's byte order.
_MAKERS: Final[dict[str, tuple[Maker | None, bytes]]] = {
    name: (None if BIG_ENDIAN_HOST else maker, b'","shape":[%%d],"dtype":"%b"}' % name.encode())
    for name, maker in _makers()
}
_NO_MAKER: Final[tuple[Maker | None, bytes]] = (None, b"")


class Rendered(NamedTuple):
    """What a held value became.

    Attributes:
        pieces: Its new text, or the text that it came as.
        rewritten: Whether it is an envelope now.
        refusal: Why it is not, where its text or the field's check said so.
        fault: Why it is not, where something failed that should not have.
    """

    pieces: list[bytes]
    rewritten: bool
    refusal: Exception | None = None
    fault: Exception | None = None


class Held:
    """A complete value that is to become an envelope.

    Attributes:
        name: The field's name.
        n_bytes: The length of its text.
    """

    __slots__ = ("_field", "_runs", "_skeletons", "_wire", "n_bytes", "name")

    def __init__(
        self,
        field: Field,
        wire: HeldWire,
        runs: Sequence[bytes | bytearray],
        skeletons: Sequence[bytes | bytearray] | None,
        n_bytes: int,
    ) -> None:
        self.name: str = field.name
        self.n_bytes: int = n_bytes
        self._field = field
        self._wire: HeldWire = wire
        self._runs = runs
        self._skeletons = skeletons

    def original(self) -> list[bytes]:
        """Return the text as it came."""
        return [bytes(run) for run in self._runs]

    def render(self, pause: Pause = no_pause) -> Rendered:
        """Make the envelope, or give the text back as it came.

        It may run in any thread, any number of times, with the same result. It does not raise.

        Args:
            pause: Called every now and then, so that a thread can let others go on.
        """
        try:
            array = read(self._field, self._wire, self._runs, self._skeletons, pause)
            if self._field.check is not None:
                refusal = _checked(self._field, array)
                if refusal is not None:
                    return Rendered(self.original(), rewritten=False, refusal=refusal)
            return Rendered(envelope(array, pause), rewritten=True)
        except WireError as error:
            return Rendered(self.original(), rewritten=False, refusal=error)
        except Exception as exc:
            return Rendered(self.original(), rewritten=False, fault=exc)


def _checked(field: Field, array: NDArray[Any]) -> Exception | None:
    """Return what the field's own rule raised."""
    assert field.check is not None  # asked before
    try:
        field.check(array)
    except Exception as exc:
        return exc
    return None


def read(
    field: Field,
    wire: HeldWire,
    runs: Sequence[bytes | bytearray],
    skeletons: Sequence[bytes | bytearray] | None,
    pause: Pause = no_pause,
) -> NDArray[Any]:
    """Read a value as an array, in the first of the field's dtypes that keeps its values.

    Args:
        field: What is allowed.
        wire: What the value is.
        runs: Its text, in pieces; a string with its quotes.
        skeletons: As for ``read_list``.
        pause: Called every now and then.

    Raises:
        WireError: It is no array, or not one that the field allows.
    """
    if wire == "npy" or wire == "raw":
        return _narrowed(field, _read_npy(field, runs, pause) if wire == "npy" else _read_raw(field, runs, pause))
    if wire == "nested":
        array = read_list(field, runs, skeletons, _LIMITS, 0, pause)
    else:
        array = read_flat(field, bytes(runs[0]), wire, _LIMITS, 0)
    if array is None:
        raise MalformedArray(f"{field.name!r} is not a rectangle of numbers")
    return array


def _narrowed(field: Field, array: NDArray[Any]) -> NDArray[Any]:
    if field.dtypes is None:
        return array
    try:
        return narrow(array, field.dtypes)
    except ValueError as exc:
        raise MalformedArray(f"{field.name!r}: {exc}") from exc


@functools.lru_cache(maxsize=256)
def _any_dtype(field: Field) -> Field:
    return dataclasses.replace(field, dtypes=None, check=None)


def _read_npy(field: Field, runs: Sequence[bytes | bytearray], pause: Pause) -> NDArray[Any]:
    buffer = NpyBuffer(
        _any_dtype(field),
        0,
        bound=0,
        limit=_LIMITS.array_bytes,
        limits=_LIMITS,
        allocate=None,
        opaque=opaque_dtype(field.dtypes),
    )
    _decode(buffer, runs, pause, name=field.name, wire="npy")
    return buffer.finish()


def _read_raw(field: Field, runs: Sequence[bytes | bytearray], pause: Pause) -> NDArray[Any]:
    field = _any_dtype(field)
    buffer = ArrayBuffer(field.name, 0, bound=0, limit=_LIMITS.array_bytes, allocate=None, exact=raw_size(field))
    _decode(buffer, runs, pause, name=field.name, wire="raw")
    meta = raw_meta(field, buffer.size, _LIMITS, 0)
    return build(field, meta, buffer.finish(), 0)


def _decode(
    buffer: ArrayBuffer | NpyBuffer, runs: Sequence[bytes | bytearray], pause: Pause, *, name: str, wire: str
) -> None:
    """Decode the text between the quotes."""
    decoder = Base64Decoder(buffer, 0, 1, name=name, wire=wire)
    last = len(runs) - 1
    for number, run in enumerate(runs):
        begin, end = int(number == 0), len(run) - (number == last)
        if number == last:
            decoder.finish(run, begin, end)
        else:
            decoder.feed(run, begin, end)
        pause()


def envelope_of_flat(field: Field, text: bytes, kind: FlatKind) -> bytes | None:
    """Return the envelope of a short, flat list of numbers: the general way, in fewer steps.

    None: take the general way, whatever the text is.
    """
    if field.dtypes is None or field.ndim not in _ANY_OR_ONE:
        return None
    if len(text) > _FEW_BYTES and (kind == "decimals" or field.dtypes[0] != "uint8"):
        return None
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not values:
        return None
    for name, dtype, strict in attempts(field.dtypes, kind):
        maker, end = _MAKERS.get(name, _NO_MAKER)
        if maker is None:
            return None
        try:
            octets: Any = None
            if len(values) > _FEW and maker is not bytes and name not in _FLOATS:
                octets = integers_of(values, dtype)
            octets = maker(values) if octets is None else octets.data
        except (ValueError, OverflowError):
            # Too large for this dtype.
            continue
        except TypeError:
            # An integer of more than 64 bits, which orjson reads as a float, for an integer dtype.
            return None
        if strict and name in _FLOATS and not _is_kept(values, octets, kind):
            return None
        return b"".join((OPENING, pybase64.b64encode(octets), end % len(values)))
    return None


def _is_kept(values: list[Any], floats: array.array[float], kind: FlatKind) -> bool:
    """Return whether integers are exactly these floats, and no decimal became zero."""
    if kind == "decimals":
        return floats.count(0) == values.count(0)
    # An integer of more than 64 bits is a float already, and rounded.
    return floats.tolist() == values and float not in set(map(type, values))


def envelope(array: NDArray[Any], pause: Pause = no_pause) -> list[bytes]:
    """Return the text of the array's envelope, in pieces."""
    if array.nbytes <= _SMALL and array.dtype.isbuiltin == 1 and array.flags.c_contiguous and not BIG_ENDIAN_HOST:
        return [OPENING, pybase64.b64encode(array.data), ending(array, None)]
    pieces = [OPENING]
    for piece in encode_pieces(array, _PIECE_BYTES):
        pieces.append(piece)
        pause()
    pieces.append(ending(array, None))
    return pieces
