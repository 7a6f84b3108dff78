"""Rewriters, fed in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from ndwire import Held, Rewriter


def items(rewriter: Rewriter, chunks: Iterable[bytes]) -> list[bytes | Held]:
    """Return all that goes out."""
    return [item for chunk in chunks for item in rewriter.feed(chunk)] + [*rewriter.close()]


def texts(out: Iterable[bytes | Held]) -> bytes:
    """Return what goes out where nothing is held."""
    pieces: list[bytes] = []
    for item in out:
        assert isinstance(item, bytes)
        pieces.append(item)
    return b"".join(pieces)


def joined(rewriter: Rewriter, chunks: Iterable[bytes]) -> bytes:
    """Return the rewritten text."""
    out: list[bytes] = []
    for item in items(rewriter, chunks):
        if isinstance(item, Held):
            rendered = item.render()
            assert rendered.fault is None
            assert b"".join(rendered.pieces) == b"".join(item.render().pieces)
            out += rendered.pieces
        else:
            out.append(item)
    return b"".join(out)


def originals(rewriter: Rewriter, chunks: Iterable[bytes]) -> bytes:
    """Return the text with every value that may be rewritten as it came."""
    out: list[bytes] = []
    for item in items(rewriter, chunks):
        out += item.original() if isinstance(item, Held) else [item]
    return b"".join(out)
