"""Bodies for the fuzzers: the vectors' own, mutated, and documents built at random."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from ndwire import Field, Limits, Packed, dumps
from support.vectors import ROOT

TOKENS = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"=", b" ", b"\n", b"\r", b"0", b"-1", b"1.5", b"null", b"\xc3"),
    *(b'"data"', b'"data":"', b'{"data":"', b'"shape":[1]', b'"dtype":"uint8"', b'"routed_experts"', b'"a"', b"AAAA"),
    *(b"\\u", b'\\"', b"\\/", b"\\u0041", b"\\u0061", b"\\u003d", b"routed_experts", b"k05VTVBZ", b"[[1,2],[3,4]]"),
    b'"a":{"data":"AAAA","shape":[3],"dtype":"uint8"}',
    b'"routed_experts":{"data":"AAECAwQF","shape":[6],"dtype":"uint8"}',
]

REGISTRIES: list[list[Field]] = [
    [Field("routed_experts")],
    [Field("routed_experts"), Field("data"), Field("a")],
    [Field("a", sidecar=True), Field("shape", ndim=1), Field("x", dtypes=("uint8",))],
    [Field("routed_experts", wires=("envelope",)), Field("a", wires=("npy",))],
    [Field("routed_experts", raw_dtype="int16"), Field("a", raw_dtype="uint8", dtypes=("uint8",)), Field("data")],
    [Field("a", dtypes=("uint8", "int16", "float32")), Field("routed_experts", ndim=2), Field("b", ndim=3), Field("x")],
    [
        Field("a", raw_dtype="int8", raw_shape=(2, -1), wires=()),
        Field("b", wires=("nested",)),
        Field("x", sidecar=True),
    ],
]

# For the grammar's names.
GRAMMATICAL: list[list[Field]] = [
    [Field("x")],
    [Field("x"), Field("data"), Field("a"), Field("ä/b")],
    [Field("a", sidecar=True), Field("shape", ndim=1), Field("x", dtypes=("uint8", "int16"))],
    [Field("x", wires=("envelope",)), Field("a", wires=("npy",)), Field("ä/b", wires=("nested",))],
    [Field("x", raw_dtype="int16"), Field("a", raw_dtype="uint8", dtypes=("uint8",)), Field("data")],
    [Field("a", dtypes=("uint8", "int16", "float32")), Field("x", ndim=2, dtypes=("int32", "uint64", "float16"))],
    [Field("a", raw_dtype="int8", raw_shape=(2, -1), wires=()), Field("x", wires=("nested",))],
    [Field("x", raw_dtype="float64"), Field("xx"), Field("a", wires=("nested", "npy"), ndim=1)],
    [Field("x", dtypes=("float32", "int32")), Field("a", dtypes=("float16", "float32", "float64"))],
    [Field("x", dtypes=("bool", "float16", "uint64")), Field("a", dtypes=("float32", "float64"))],
    [Field("x", dtypes=("int32", "float32", "float64"), nulls="nan"), Field("a", nulls="nan", wires=("nested",))],
    [Field("x", required=True), Field("a"), Field("ä/b", dtypes=("bool", "int8"), required=True, sidecar=True)],
]

# What a server rewrites: fields that read nested lists name their dtypes.
REWRITING: list[list[Field]] = [
    [Field("routed_experts", dtypes=("uint8", "int16", "int32", "float64"))],
    [Field("a", dtypes=("int16", "float32")), Field("data", dtypes=("uint8", "float64")), Field("x", wires=("npy",))],
    [Field("a", wires=("npy",), raw_dtype="uint8"), Field("routed_experts", dtypes=("float32",), sidecar=True)],
    [Field("a", wires=("npy",), raw_dtype="int16", dtypes=("int8", "int16", "int64", "float64"))],
    [Field("data", dtypes=("int64", "float64"), ndim=2), Field("shape", dtypes=("int8",)), Field("b", wires=())],
    [Field("x", dtypes=("uint8",), wires=("nested",)), Field("ä", dtypes=("int32", "float16"))],
    [Field("x", dtypes=("float32", "int32")), Field("a", dtypes=("float16", "float32", "float64"), ndim=1)],
    [Field("x", dtypes=("int32", "float32"), nulls="nan"), Field("a", dtypes=("bool", "float16", "uint64"))],
]

LIMITS = [
    Limits(),
    Limits(array_bytes=6, total_array_bytes=10, arrays=2, remainder_bytes=60, list_bytes=12, ndim=1),
    Limits(remainder_bytes=200, list_bytes=40),
]


def seeds(longest: int = 1500) -> list[bytes]:
    """Return the bodies of all vectors that are not long."""
    bodies: list[bytes] = []
    for path in sorted((ROOT / "vectors").glob("*.json")):
        for case in json.loads(path.read_text()):
            body: str = case.get("body", "")
            if body and len(body) <= longest:
                bodies.append(body.encode())
    return bodies


def mutated(chance: random.Random, bodies: list[bytes]) -> bytes:
    """Return one of ``bodies`` with some bytes inserted, removed, replaced, spliced in or cut off."""
    body = bytearray(chance.choice(bodies))
    for _ in range(chance.randrange(6)):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(6):
            case 0:
                body[at:at] = chance.choice(TOKENS)
            case 1:
                del body[at : at + chance.randrange(1, 9)]
            case 2:
                body[at : at + 1] = chance.choice(
                    [b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"=", b"A", b"/", b"u"]
                )
            case 3:
                other = chance.choice(bodies)
                start = chance.randrange(len(other))
                body[at:at] = other[start : start + chance.randrange(60)]
            case 4:
                body[at:at] = bytes(body[at : at + chance.randrange(40)])
            case _:
                del body[at:]
    return bytes(body)


def document(chance: random.Random, depth: int = 0) -> Any:
    """Return a document with arrays under some of its keys."""
    match chance.randrange(8 if depth < 4 else 5):
        case 0:
            return chance.choice([None, True, 7, -1.5, "routed_experts", 'a":"', "é\\", "", "AAAA", npy(chance)])
        case 1:
            numbers: list[Callable[[], float]] = [lambda: chance.randrange(300), chance.random, lambda: -(1 << 40)]
            number = chance.choice(numbers)
            rows = [[number() for _ in range(chance.randrange(4))] for _ in range(chance.randrange(4))]
            return chance.choice(
                [rows, [n for row in rows for n in row], [rows, rows], [*rows, 1], [number()], 1 << 63]
            )
        case 2 | 3:
            shape = [chance.randrange(4) for _ in range(chance.randrange(3))]
            values = np.arange(int(np.prod(shape)) * 1.0).reshape(shape).astype(chance.choice(["uint8", "<i4", ">f8"]))
            return Packed(values, {"start": chance.randrange(3)} if chance.random() < 0.3 else {})
        case 4:
            return {}
        case 5:
            return [document(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            keys = chance.sample(["routed_experts", "a", "data", "b", "x", "ä"], chance.randrange(5))
            return {key: document(chance, depth + 1) for key in keys}


def npy(chance: random.Random) -> str:
    """Return a random array as the base64 of an npy file."""
    shape = [chance.randrange(4) for _ in range(chance.randrange(3))]
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(chance.choice(["uint8", "<i4", ">f8"]))
    file = io.BytesIO()
    version = chance.choice([(1, 0), (2, 0), (3, 0)])
    npy_format.write_array(file, np.asfortranarray(array) if chance.random() < 0.5 else array, version)
    return base64.b64encode(file.getvalue()).decode()


def written(chance: random.Random) -> bytes:
    """Return a random document as JSON, compact or spaced, with some names and base64 escaped."""
    body = dumps(document(chance))
    if chance.random() < 0.3:
        body = body.replace(b'":', b'" : ').replace(b",", b" ,\n")
    if chance.random() < 0.2:
        body = body.replace(b"/", b"\\/").replace(b"+", b"\\u002b")
    return body
