"""The envelope wire: ``{"data":"<base64>","shape":[12,40,8],"dtype":"int16"}``.

The base64 is decoded elsewhere, while it arrives. Here is what stands behind it, and both directions for single arrays.
"""

from __future__ import annotations

import itertools
import math
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson
import pybase64
from numpy.typing import NDArray

from ndwire._buffers.base64 import decode_as_bytearray
from ndwire._contract.arrays import as_array, contiguous, narrow
from ndwire._contract.dtypes import dtype_name
from ndwire._contract.errors import MalformedArray
from ndwire._contract.field import Field, Packed, check_dtype, check_shape
from ndwire._contract.json_text import parsed
from ndwire._contract.limits import Limits
from ndwire._contract.shown import shown
from ndwire._wires.spec import Meta, build, check_size

RESERVED: Final = frozenset(("data", "shape", "dtype"))
"""The keys of an envelope that no sidecar may have."""

OPENING: Final = b'{"data":"'
"""How a writer opens an envelope."""

# A string stands for the base64: nothing that follows it can be joined to it.
_STAND_IN: Final = b'{"data":""'
_NO_LIMITS: Final = Limits()
_SHOWN_MEMBERS: Final = 5


def read_tail(field: Field, tail: bytes, tail_offset: int, value_offset: int, limits: Limits) -> Meta:
    """Read what follows the base64 of an envelope, from behind its closing quote to its closing brace.

    Args:
        field: The field that the envelope was found under.
        tail: The text.
        tail_offset: Its first byte in the body.
        value_offset: The envelope's first byte in the body.
        limits: Bounds the number of dimensions.

    Raises:
        MalformedJSON: The text is not the rest of an object.
        MalformedArray: Shape or dtype are missing, wrong or not allowed, or there is a second ``data``.
        LimitExceeded: More dimensions than allowed.
    """
    members = parse_tail(tail, tail_offset, tail_offset + len(tail))
    # A second "data" would hide the first. Where it reads like the stand-in, another stand-in shows it.
    if members.pop("data") != "" or (
        (b"data" in tail or b"\\" in tail) and orjson.loads(b'{"data":[]' + tail)["data"] != []
    ):
        raise MalformedArray(f"{field.name!r} has an envelope with two members named data", offset=value_offset)
    return read_members(field, members, value_offset, limits)


def parse_tail(tail: bytes, tail_offset: int, body_length: int) -> dict[str, Any]:
    """Parse the rest of an envelope as an object whose ``data`` is empty.

    Raises:
        MalformedJSON: It is broken.
        IncompleteBody: It is cut short.
    """
    shift = tail_offset - len(_STAND_IN)
    members: dict[str, Any] = parsed(
        _STAND_IN + tail,
        orjson.loads,
        locate=lambda position: shift + position,
        body_length=body_length,
        is_callers=False,
    )
    return members


def read_members(field: Field, members: dict[str, Any], offset: int | None, limits: Limits) -> Meta:
    """Read the members of an envelope but its ``data``; what is left over is the sidecar.

    Raises:
        MalformedArray: Shape or dtype are missing, wrong or not allowed.
        LimitExceeded: More dimensions than allowed.
    """
    missing = RESERVED - {"data"} - members.keys()
    if missing:
        there = shown(list(itertools.islice(members, _SHOWN_MEMBERS))) if members else "nothing"
        raise MalformedArray(
            f"{field.name!r} has an envelope without {' and '.join(sorted(missing))}: beside data it holds {there}",
            offset=offset,
        )
    dtype = check_dtype(field, members.pop("dtype"), offset)
    dimensions = members.pop("shape")
    # Text and bytes are sequences too, bytes even of integers.
    if isinstance(dimensions, (str, bytes, bytearray)) or not isinstance(dimensions, Sequence):
        raise MalformedArray(f"{field.name!r} has the shape {shown(dimensions)}, not a list", offset=offset)
    shape = check_shape(field, cast("Sequence[object]", dimensions), limits, offset)
    return Meta(dtype, shape, math.prod(shape) * dtype.itemsize, members)


def pack_ndarray(
    array: Any, *, dtypes: Sequence[str] | None = None, sidecar: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Make an envelope out of one array, as a dict for any JSON library.

    Args:
        array: An ndarray in any layout and byte order, a NumPy scalar, a tensor, or anything with ``__array__`` or
            ``__dlpack__``, of shape (...) and a dtype of the wire.
        dtypes: Wire dtypes in order of preference. Integers become the first integer dtype among them that holds
            every value, floats the first float dtype that is at least as wide, the rest has to be among them.
        sidecar: JSON that belongs to the array.

    Returns:
        ``{"data": str, "shape": list[int], "dtype": str, **sidecar}``. ``data`` is base64 of the array's bytes in C
        order, little-endian.

    Raises:
        TypeError: Not an array, or of a dtype that the wire does not have (object, string, void, structured).
        ValueError: A sidecar named ``data``, ``shape`` or ``dtype``, a name in ``dtypes`` that is no dtype, or no
            dtype among them holds the array.

    Source: the README's wire format; base64 is RFC 4648 section 4.
    """
    values = as_array(array)
    if values is None:
        raise TypeError(f"{type(array).__name__} is not an array")
    if dtypes is not None:
        values = narrow(values, dtypes)
    extra = check_sidecar(sidecar)
    data = pybase64.b64encode_as_string(contiguous(values).data)
    return {"data": data, "shape": list(values.shape), "dtype": dtype_name(values.dtype), **extra}


def check_sidecar(sidecar: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``sidecar`` as a dict.

    Raises:
        ValueError: One of its keys belongs to the envelope.
        TypeError: It is no mapping, or a key is no string.
    """
    if sidecar is None:
        return {}
    if not isinstance(sidecar, Mapping):
        raise TypeError(f"a sidecar must be a mapping, not {type(sidecar).__name__}")
    extra = dict(sidecar)
    for key in extra:
        if not isinstance(key, str):
            raise TypeError(f"the keys of a sidecar must be strings, not {shown(key)}")
    taken = RESERVED & extra.keys()
    if taken:
        raise ValueError(f"a sidecar cannot be named {' or '.join(sorted(taken))}: the envelope has that key")
    return extra


def unpack_ndarray(envelope: Mapping[str, Any], field: Field) -> Packed:
    """Read one envelope that a JSON library has parsed already.

    Args:
        envelope: The object. ``data`` may be a str or bytes-like, ``shape`` may hold NumPy integers; the order of
            the keys does not matter here.
        field: What is allowed.

    Returns:
        The array (native byte order, C order, writable, memory of its own) and the sidecar.

    Raises:
        MalformedArray: It is no envelope, or one that breaks the contract. There is no offset.
    """
    if not isinstance(envelope, Mapping):
        raise MalformedArray(f"{field.name!r} is no envelope, but {shown(envelope)}")
    members = dict(envelope)
    data: Any = members.pop("data", None)
    if not isinstance(data, (str, bytes, bytearray, memoryview)):
        raise MalformedArray(f"{field.name!r} has no string under data, but {shown(data)}")
    try:
        text = data.encode("ascii") if isinstance(data, str) else bytes(data)
        memory = decode_as_bytearray(text)
    except (Base64Error, UnicodeEncodeError) as exc:
        raise MalformedArray(f"{field.name!r} holds broken base64: {exc}") from exc
    meta = read_members(field, members, None, _NO_LIMITS)
    check_size(field, meta, len(memory), None)
    return Packed(build(field, meta, memory, None), meta.sidecar)


def ending(array: NDArray[Any], sidecar: Mapping[str, Any] | None) -> bytes:
    """Return what a writer puts behind the base64 of an array: all from the closing quote to the closing brace."""
    shape = ",".join(map(str, array.shape)).encode()
    members = orjson.dumps(sidecar)[1:] if sidecar else b"}"
    name = (dtype_name(array.dtype) or "").encode()
    return b'","shape":[%b],"dtype":"%b"%b%b' % (shape, name, b"," if sidecar else b"", members)
