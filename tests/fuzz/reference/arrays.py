"""What one value under a registered name is, by the simplest means: an array, ordinary, or against the contract."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io
import math
import re
import warnings
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from fuzz.reference.numbers import array_of, dtype_of
from fuzz.reference.tree import Items, Members, Node, Scalar, String, plain_value
from ndwire import ContractError, Field, LayoutDrift, MalformedArray

# RFC 4648 section 4, padded.
_BASE64: Final = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NPY_MAGIC: Final = b"k05VTVBZ"
_STANDARD: Final = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
)
_EXTENDED: Final = frozenset(("bfloat16", "float8_e4m3fn", "float8_e5m2"))
_RESERVED: Final = frozenset(("data", "shape", "dtype"))
_MOST_DIMENSIONS: Final = 64


class AgainstContract(Exception):
    """The body breaks the contract at a value.

    Attributes:
        kinds: What may be raised.
        offset: The first byte of the value.
    """

    def __init__(self, offset: int, *kinds: type[ContractError]) -> None:
        super().__init__(f"{' or '.join(kind.__name__ for kind in kinds)} at {offset}")
        self.kinds = kinds
        self.offset = offset


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An array.

    Attributes:
        field: The field under whose name it stands.
        array: Its values.
        sidecar: The further members of its envelope.
        offset: The first byte of the value.
    """

    field: Field
    array: NDArray[Any]
    sidecar: dict[str, Any]
    offset: int


def found(field: Field, node: Node) -> Found | None:
    """Return the array that ``node`` is; None where it is ordinary JSON.

    Raises:
        AgainstContract: It claims to be an array and is none, or has to be one.
    """
    offset = node.start
    if isinstance(node, Members) and opens_as_envelope(node) and "envelope" in field.wires:
        return _envelope(field, node)
    if isinstance(node, String):
        if "npy" in field.wires and node.spelling.startswith(_NPY_MAGIC):
            return Found(field, _allowed(field, _npy(field, node), offset), {}, offset)
        if field.raw_dtype is not None:
            return Found(field, _allowed(field, _raw(field, node), offset), {}, offset)
    if isinstance(node, Items) and "nested" in field.wires:
        array = _nested(field, node)
        if array is not None:
            return Found(field, array, {}, offset)
    if getattr(field, "required", False) and node.spelling != b"null":
        # An object may be packed otherwise than it has to be; which of the two is said of it does not matter.
        raise AgainstContract(offset, MalformedArray, *((LayoutDrift,) if isinstance(node, Members) else ()))
    return None


def opens_as_envelope(node: Members) -> bool:
    """Return whether an object opens with ``"data":"``."""
    if not node.members:
        return False
    name, item = node.members[0]
    return name.spelling == b"data" and isinstance(item, String)


def is_packed(field: Field, node: Node) -> bool:
    """Return whether a value has all that an envelope needs, in whatever order."""
    return (
        "envelope" in field.wires
        and isinstance(node, Members)
        and {name.value for name, _ in node.members} >= _RESERVED
    )


def _known(name: object, offset: int) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in _STANDARD | _EXTENDED:
        raise AgainstContract(offset, MalformedArray)
    return dtype_of(name)


def _allowed(field: Field, array: NDArray[Any], offset: int) -> NDArray[Any]:
    if field.dtypes is not None and array.dtype.name not in field.dtypes:
        raise AgainstContract(offset, MalformedArray)
    if field.ndim is not None and array.ndim != field.ndim:
        raise AgainstContract(offset, MalformedArray)
    return array


def _decoded(node: String, offset: int) -> bytes:
    try:
        text = node.value.encode("ascii")
        octets = binascii.a2b_base64(text, strict_mode=True) if text else b""
    except (UnicodeEncodeError, binascii.Error) as exc:
        raise AgainstContract(offset, MalformedArray) from exc
    if not _BASE64.fullmatch(text) or base64.b64encode(octets) != text:
        raise AgainstContract(offset, MalformedArray)
    return octets


def _shaped(octets: bytes, dtype: np.dtype[Any], shape: list[int], offset: int) -> NDArray[Any]:
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) * dtype.itemsize != len(octets):
        raise AgainstContract(offset, MalformedArray)
    try:
        return np.frombuffer(bytearray(octets), dtype).reshape(shape) if octets else np.zeros(shape, dtype)
    except ValueError as exc:
        raise AgainstContract(offset, MalformedArray) from exc


def _envelope(field: Field, node: Members) -> Found:
    offset = node.start
    data = node.members[0][1]
    assert isinstance(data, String)
    octets = _decoded(data, offset)
    if any(name.value == "data" for name, _ in node.members[1:]):
        raise AgainstContract(offset, MalformedArray)
    members = {name.value: plain_value(item) for name, item in node.members[1:]}
    dtype = _known(members.pop("dtype", None), offset)
    shape = members.pop("shape", None)
    if not isinstance(shape, list) or any(type(length) is not int or length < 0 for length in shape):
        raise AgainstContract(offset, MalformedArray)
    return Found(field, _allowed(field, _shaped(octets, dtype, shape, offset), offset), members, offset)


def _npy(field: Field, node: String) -> NDArray[Any]:
    octets = _decoded(node, node.start)
    begin = 10 if octets[6:7] == b"\x01" else 12
    if b"#" in octets[begin : begin + int.from_bytes(octets[8:begin], "little")]:
        # NumPy's reader evaluates the header, and skips comments in it. No writer makes any.
        raise AgainstContract(node.start, MalformedArray)
    file = io.BytesIO(octets)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array: NDArray[Any] = npy_format.read_array(file, allow_pickle=False)
    except Exception as exc:
        raise AgainstContract(node.start, MalformedArray) from exc
    if array.dtype == np.dtype("V2") and field.dtypes == ("bfloat16",):
        array = array.view(dtype_of("bfloat16"))
    elif array.dtype.newbyteorder("=") != np.dtype(array.dtype.name if array.dtype.name in _STANDARD else object):
        raise AgainstContract(node.start, MalformedArray)
    if file.read(1):
        raise AgainstContract(node.start, MalformedArray)
    return np.array(array, array.dtype.newbyteorder("="), order="C").reshape(array.shape)


def _raw(field: Field, node: String) -> NDArray[Any]:
    octets = _decoded(node, node.start)
    dtype = _known(field.raw_dtype, node.start)
    row = math.prod(length for length in field.raw_shape if length != -1) * dtype.itemsize
    shape = [(len(octets) // row if row else 0) if length == -1 else length for length in field.raw_shape]
    return _shaped(octets, dtype, shape, node.start)


def _nested(field: Field, node: Items) -> NDArray[Any] | None:
    """Return the array that a list is; None where it is no rectangle of numbers, or of bools where those are named."""
    shape = _shape(node)
    if shape is None or len(shape) > _MOST_DIMENSIONS:
        return None
    scalars = _scalars(node)
    spellings = [scalar.spelling for scalar in scalars]
    array: NDArray[Any] | None
    if not scalars:
        if field.ndim is not None:
            shape += (0,) * (field.ndim - len(shape))
        array = np.zeros(0, dtype_of((field.dtypes or ("float64",))[0]))
    elif all(spelling in (b"true", b"false") for spelling in spellings):
        if "bool" not in (field.dtypes or ()):
            return None
        array = np.array([spelling == b"true" for spelling in spellings])
    else:
        finite = [scalar.is_number for scalar in scalars]
        if not all(finite):
            if getattr(field, "nulls", None) != "nan" or b"true" in spellings or b"false" in spellings:
                return None
            if field.dtypes is not None and not any(dtype_of(name).kind in "fV" for name in field.dtypes):
                return None
        array = array_of(spellings, field.dtypes)
    if array is None or (field.ndim is not None and len(shape) != field.ndim):
        raise AgainstContract(node.start, MalformedArray)
    return array.reshape(shape)


def _shape(node: Node) -> tuple[int, ...] | None:
    """Return the shape of a rectangle of scalars, None for anything else."""
    if isinstance(node, Scalar):
        return ()
    if not isinstance(node, Items):
        return None
    shapes = {_shape(item) for item in node.items} or {()}
    shape = shapes.pop()
    return None if shapes or shape is None else (len(node.items), *shape)


def _scalars(node: Node) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node]
    assert isinstance(node, Items)
    return [scalar for item in node.items for scalar in _scalars(item)]
