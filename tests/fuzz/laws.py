"""What must hold for any bytes whatever."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Final

import numpy as np
import pytest

from fuzz.generate import GRAMMATICAL, LIMITS, REGISTRIES, REWRITING
from fuzz.reference.documents import Refused, meaning
from fuzz.windows import small_windows
from ndwire import (
    Field,
    IncompleteBody,
    Limits,
    MalformedArray,
    Packed,
    Rewriter,
    TextFraming,
    WireError,
    loads,
    rewrite,
)
from ndwire._reading.assembler import Assembler
from ndwire._writing import rewriting_sink
from support.chunking import Outcome, outcome, partition, plain
from support.rewriting import joined, originals

EVERY: Final = (*REGISTRIES, *GRAMMATICAL)


def law(body: bytes, chance: random.Random) -> None:
    """The same arrays, then the same document or the same error at the same offset, for every way to cut."""
    fields, limits = chance.choice(EVERY), chance.choice(LIMITS)
    whole = outcome([body], fields, limits=limits)
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 7))]
    for chunks, length in (
        ([body[k : k + 1] for k in range(len(body))], None),
        (partition(body, cuts), len(body)),
        (partition(body, cuts[:1]), None),
    ):
        assert outcome(chunks, fields, limits=limits, content_length=length) == whole, (body, fields, limits, chunks)
    one_call_agrees(body, fields, limits, whole)


def paths_agree(body: bytes, chance: random.Random) -> None:
    """The fused path for short envelopes gives what the general path gives."""
    fields, limits = chance.choice(EVERY), chance.choice(LIMITS)
    fused = outcome([body], fields, limits=limits)
    whole = Assembler.whole
    try:
        Assembler.whole = lambda *_: False  # type: ignore[method-assign]  # switches the fused path off
        general = outcome([body], fields, limits=limits)
    finally:
        Assembler.whole = whole  # type: ignore[method-assign]  # and on again
    assert fused == general, (body, fields, limits)


def windows_agree(body: bytes, chance: random.Random) -> None:
    """It is all the same how much is looked at, decoded or collected at a time, and who reads numbers."""
    fields, limits = chance.choice(EVERY), chance.choice(LIMITS)
    cuts = [chance.randrange(len(body) + 1) for _ in range(chance.randrange(5))]
    whole = outcome([body], fields, limits=limits)
    with pytest.MonkeyPatch.context() as patch:
        small_windows(patch, chance)
        got = outcome(partition(body, cuts), fields, limits=limits)
    assert got == whole, (body, fields, limits, cuts)


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
        with pytest.MonkeyPatch.context() as patch:
            if chance.random() < 0.5:
                small_windows(patch, chance)
            rewriter = Rewriter(fields, framing=framing, max_hold_bytes=most)
            got = joined(rewriter, chunks)
        assert got == whole, (body, fields, framing, most, chunks)
    with pytest.MonkeyPatch.context() as patch:
        # Every value is given out unrendered.
        patch.setattr(rewriting_sink, "_AT_ONCE", -1)
        patch.setattr(rewriting_sink, "envelope_of_flat", lambda *_: None)
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


def one_call_agrees(body: bytes, fields: list[Field], limits: Limits, whole: Outcome) -> None:
    """``loads`` gives what a parser gives."""
    try:
        document = plain(loads(body, fields, limits=limits))
    except WireError as error:
        assert (type(error), error.offset, str(error)) == (whole.error, whole.offset, whole.message), body
    else:
        assert (whole.error, whole.document) == (None, document), body


def means_what_it_says(body: bytes, chance: random.Random) -> None:
    """A body is read as the reference reads it, or refused where the reference refuses it."""
    fields = chance.choice(EVERY)
    got = outcome(partition(body, [chance.randrange(len(body) + 1) for _ in range(chance.randrange(3))]), fields)
    wanted = meaning(body, fields)
    same = wanted.allows(got) if isinstance(wanted, Refused) else got == wanted
    assert same, f"{_difference(got, wanted)}: {body!r} read with {fields}: {got} is not {wanted}"


def _difference(got: Outcome, wanted: Outcome | Refused) -> str:
    """Return in few words how an outcome differs from what is wanted."""
    if isinstance(wanted, Refused):
        names = " or ".join(kind.__name__ for kind in wanted.kinds)
        if got.error is None:
            return f"accepted, not {names}"
        return f"{got.error.__name__} elsewhere" if got.error in wanted.kinds else f"{got.error.__name__}, not {names}"
    if got.error is not None:
        return f"{got.error.__name__}, not accepted"
    return "other arrays" if got.arrays != wanted.arrays else "another document"


def prefixes_are_incomplete(body: bytes, chance: random.Random) -> None:
    """What is cut off before its end is incomplete, at every byte, and at its own length."""
    fields = chance.choice(GRAMMATICAL)
    if body[-1:] not in (b"}", b"]") or outcome([body], fields).error is not None:
        # The beginning of a number is a number.
        return
    for end in range(len(body)):
        for length in (None, len(body)):
            got = outcome(partition(body[:end], [chance.randrange(end + 1)]), fields, content_length=length)
            what = "accepted" if got.error is None else got.error.__name__
            assert (got.error, got.offset) == (IncompleteBody, end), (
                f"{what}, not IncompleteBody: {body[:end]!r} of {body!r} with {fields}: {got}"
            )
