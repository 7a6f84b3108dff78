"""What must hold for any bytes whatever."""

from __future__ import annotations

import base64
import dataclasses
import io
import random
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from fuzz.generate import LIMITS, REGISTRIES, REWRITING
from ndwire import (
    Field,
    Limits,
    MalformedArray,
    Packed,
    Rewriter,
    TextFraming,
    WireError,
    _base64,
    _blob,
    _rewriter,
    loads,
    rewrite,
)
from ndwire._assembler import Assembler
from support.chunking import Outcome, outcome, partition, plain
from support.rewriting import joined, originals


def law(body: bytes, chance: random.Random) -> None:
    """The same arrays, then the same document or the same error at the same offset, for every way to cut."""
    fields, limits = chance.choice(REGISTRIES), chance.choice(LIMITS)
    whole = outcome([body], fields, limits=limits)
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 7))]
    for chunks, length in (
        ([body[k : k + 1] for k in range(len(body))], None),
        (partition(body, cuts), len(body)),
        (partition(body, cuts[:1]), None),
    ):
        assert outcome(chunks, fields, limits=limits, content_length=length) == whole, (body, fields, limits, chunks)
    agrees_with_orjson(body, fields, limits, whole)


def paths_agree(body: bytes, chance: random.Random) -> None:
    """The fused path for short envelopes gives what the general path gives."""
    fields, limits = chance.choice(REGISTRIES), chance.choice(LIMITS)
    fused = outcome([body], fields, limits=limits)
    whole = Assembler.whole
    try:
        Assembler.whole = lambda *_: False  # type: ignore[method-assign]  # switches the fused path off
        general = outcome([body], fields, limits=limits)
    finally:
        Assembler.whole = whole  # type: ignore[method-assign]  # and on again
    assert fused == general, (body, fields, limits)


def windows_agree(body: bytes, chance: random.Random) -> None:
    """It is all the same how much of a blob is looked at, or decoded, at a time."""
    fields, limits = chance.choice(REGISTRIES), chance.choice(LIMITS)
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(5))]
    whole = outcome([body], fields, limits=limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blob, "WINDOW", chance.randrange(1, 40))
        patch.setattr(_base64, "_COALESCE", chance.randrange(1, 20))
        assert outcome(partition(body, cuts), fields, limits=limits) == whole, (body, fields, limits, cuts)


def rewriting(body: bytes, chance: random.Random) -> None:
    """A rewritten body says what the original says; what is not rewritten goes out as it came; cuts change nothing."""
    fields = chance.choice(REWRITING)
    framing: TextFraming = chance.choice(["document", "document", "lines", "events"])
    if framing == "events":
        body = chance.choice([b"data:", b""]) + body.replace(b"\n", chance.choice([b"\n", b"\ndata: "]))
    most = chance.choice([1 << 20, 1 << 20, 1 << 20, 40, 9, 0])
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 7))]
    whole = rewrite(body, fields, framing=framing, max_hold_bytes=most)
    for chunks in ([body[k : k + 1] for k in range(len(body))], partition(body, cuts), partition(body, cuts[:1])):
        rewriter = Rewriter(fields, framing=framing, max_hold_bytes=most)
        assert joined(rewriter, chunks) == whole, (body, fields, framing, most, chunks)
    with pytest.MonkeyPatch.context() as patch:
        # Every value is given out unrendered.
        patch.setattr(_rewriter, "_AT_ONCE", -1)
        patch.setattr(_rewriter, "envelope_of_flat", lambda *_: None)
        unrendered = originals(Rewriter(fields, framing=framing), partition(body, cuts))
        assert unrendered == body, (body, fields, framing)
    if framing == "document":
        says_the_same(body, whole, fields)
        return
    before, after = body.replace(b"\r", b"\n").split(b"\n"), whole.replace(b"\r", b"\n").split(b"\n")
    assert len(before) == len(after), (body, fields)
    for original, rewritten in zip(before, after, strict=True):
        if framing == "lines":
            says_the_same(original, rewritten, fields)
        elif original.startswith(b"data:"):
            says_the_same(original[5:], rewritten[5:], fields)
        else:
            assert original == rewritten, (body, fields)


def says_the_same(original: bytes, rewritten: bytes, fields: list[Field]) -> None:
    """A client has the same result from both."""
    client = [dataclasses.replace(field, wires=(*field.wires, "envelope")) for field in fields]
    before, after = result(original, client), result(rewritten, client)
    if before is MalformedArray and original != rewritten:
        # An array in a dtype that the client does not allow, and the server narrows.
        return
    assert before == after, (original, rewritten, fields)


def result(body: bytes, fields: list[Field]) -> Any:
    """Return the document with its arrays in a form that does not tell dtypes apart, or the class of the error."""
    try:
        return values(loads(body, fields))
    except WireError as error:
        return type(error)


def values(value: Any) -> Any:
    """Return a document with its arrays in a form that does not tell dtypes apart."""
    if isinstance(value, Packed):
        return ("packed", values(value.array), value.sidecar)
    if isinstance(value, np.ndarray):
        return ("array", value.shape, repr(value.tolist()))
    if isinstance(value, dict):
        return {key: values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [values(item) for item in value]
    return value


def agrees_with_orjson(body: bytes, fields: list[Field], limits: Limits, result: Outcome) -> None:
    """A body that is read holds what orjson and plain decoding find in it; one call gives the same."""
    escaped_magic = b"k05VTVBZ" not in body and b"\\u006" in body.lower()
    if result.error is None and not escaped_magic:
        assert plain_decoding(orjson.loads(body), {field.name: field for field in fields}) == result.document, body
    try:
        document = plain(loads(body, fields, limits=limits))
    except WireError as error:
        assert (type(error), error.offset, str(error)) == (result.error, result.offset, result.message), body
    else:
        assert (result.error, result.document) == (None, document), body


def plain_decoding(value: Any, fields: dict[str, Field]) -> Any:
    """Return a parsed document with its arrays decoded by the simplest means, as the vectors write arrays."""
    if isinstance(value, list):
        return [plain_decoding(item, fields) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        field = fields.get(key)
        array, sidecar = decoded(item, field) if field else (None, {})
        if field and array is not None:
            found = {"$ndarray": {"dtype": array.dtype.name, "shape": list(array.shape), "hex": array.tobytes().hex()}}
            result[key] = {"$packed": {"array": found, "sidecar": sidecar}} if field.sidecar else found
        else:
            result[key] = plain_decoding(item, fields)
    return result


def decoded(item: Any, field: Field) -> tuple[NDArray[Any] | None, dict[str, Any]]:
    """Return what a value under a registered name is, and its sidecar."""
    if isinstance(item, dict) and "envelope" in field.wires and item.keys() >= {"data", "shape", "dtype"}:
        sidecar = {name: part for name, part in item.items() if name not in ("data", "shape", "dtype")}
        blob = base64.b64decode(item["data"], validate=True)
        return np.frombuffer(blob, item["dtype"]).reshape(item["shape"]), sidecar
    if isinstance(item, str):
        if "npy" in field.wires and item.startswith("k05VTVBZ"):
            array = np.load(io.BytesIO(base64.b64decode(item, validate=True)))
            return np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape), {}
        if field.raw_dtype is not None:
            blob = base64.b64decode(item, validate=True)
            return np.frombuffer(blob, field.raw_dtype).reshape(field.raw_shape), {}
    if isinstance(item, list) and "nested" in field.wires:
        return rectangle(item, field), {}
    return None, {}


def shape_of(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a rectangle of numbers, None for anything else."""
    if not isinstance(value, list):
        return () if type(value) in (int, float) else None
    shapes = {shape_of(item) for item in value}
    if not shapes:
        return (0,)
    shape = shapes.pop()
    return None if shapes or shape is None else (len(value), *shape)


def rectangle(value: list[Any], field: Field) -> NDArray[Any] | None:
    """Return a nested list as the array that it is read as, by NumPy and the rules alone."""
    shape = shape_of(value)
    if shape is None:
        return None
    numbers = np.array(value, object).reshape(-1).tolist()
    if not numbers:
        shape += (0,) * ((field.ndim or 0) - len(shape))
        return np.zeros(shape, (field.dtypes or ("float64",))[0])
    for name in field.dtypes or ("int64", "uint64", "float64"):
        dtype = np.dtype(name)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if all(type(number) is int and info.min <= number <= info.max for number in numbers):
                return np.array(numbers, dtype).reshape(shape)
        elif dtype.kind == "f":
            with np.errstate(over="ignore"):
                floats = np.array([float(number) for number in numbers]).astype(dtype)
            if np.isfinite(floats).all():
                return floats.reshape(shape)
    raise AssertionError("no dtype fits, and nothing was raised")
