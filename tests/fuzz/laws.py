"""What must hold for any bytes whatever."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import numpy as np
import orjson

from fuzz.generate import LIMITS, REGISTRIES
from ndwire import Field, Limits, WireError, loads
from ndwire._assembler import Assembler
from support.chunking import Outcome, outcome, partition, plain


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


def agrees_with_orjson(body: bytes, fields: list[Field], limits: Limits, result: Outcome) -> None:
    """A body that is read holds what orjson and plain decoding find in it; one call gives the same."""
    if result.error is None:
        assert plain_decoding(orjson.loads(body), {field.name: field for field in fields}) == result.document, body
    try:
        document = plain(loads(body, fields, limits=limits))
    except WireError as error:
        assert (type(error), error.offset, str(error)) == (result.error, result.offset, result.message), body
    else:
        assert (result.error, result.document) == (None, document), body


def plain_decoding(value: Any, fields: dict[str, Field]) -> Any:
    """Return a parsed document with its envelopes decoded by the simplest means, as the vectors write arrays."""
    if isinstance(value, list):
        return [plain_decoding(item, fields) for item in value]
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, item in value.items():
        field = fields.get(key)
        if field and "envelope" in field.wires and isinstance(item, dict) and item.keys() >= {"data", "shape", "dtype"}:
            sidecar = {name: part for name, part in item.items() if name not in ("data", "shape", "dtype")}
            array = np.frombuffer(base64.b64decode(item["data"], validate=True), item["dtype"]).reshape(item["shape"])
            found = {"$ndarray": {"dtype": item["dtype"], "shape": item["shape"], "hex": array.tobytes().hex()}}
            result[key] = {"$packed": {"array": found, "sidecar": sidecar}} if field.sidecar else found
        else:
            result[key] = plain_decoding(item, fields)
    return json.loads(json.dumps(result))
