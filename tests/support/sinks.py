"""A sink that is no parser: it puts a body together again out of what the scanner gives it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ndwire._scanning.registry import Registry
from ndwire._scanning.scanner import Scanner
from ndwire._scanning.sink import BlobWire, Data


class Recorder:
    """Remembers every byte, and what it was told.

    Args:
        passes_envelopes: As of a sink.
        takes_lists: What ``numbers`` answers.
    """

    def __init__(self, *, passes_envelopes: bool = False, takes_lists: bool = True) -> None:
        self.passes_envelopes = passes_envelopes
        self.takes_lists = takes_lists
        self.body = bytearray()
        self.told: list[Any] = []

    def text(self, data: Data, i: int, j: int) -> None:
        self.body += data[i:j]

    def suspect(self) -> None:
        self.told.append("suspect")

    def ordinary(self, entry: Any, first: int, offset: int) -> None:
        self.told.append(("ordinary", entry.field.name, first, offset))

    def open(self, wire: BlobWire, entry: Any, head: bytes, offset: int) -> None:
        assert offset == len(self.body) or (self.passes_envelopes and wire == "envelope")
        self.told.append(("open", wire, entry.field.name, offset))
        self.body += head

    def part(self, data: Data, i: int, j: int, *, last: bool) -> None:
        self.body += data[i:j] + b'"' * last

    def bulk(self, data: Data, i: int, j: int) -> bool:
        return False

    def end(self, tail: bytes, tail_offset: int) -> None:
        assert tail_offset == len(self.body) or not tail
        self.body += tail
        self.told.append(("end", len(self.body)))

    def whole(self, entry: Any, data: Data, opening: int, first: int, quote: int, end: int) -> bool:
        return False

    def numbers(self, entry: Any, runs: list[Data], skeletons: list[Data] | None, offset: int) -> bool:
        assert offset == len(self.body)
        text = b"".join(runs)
        assert skeletons is not None or text.count(b"[") == 1
        if skeletons is not None:
            assert b"".join(skeletons) == text.translate(None, b"0123456789+-.eE \t\n\r")
        if self.takes_lists:
            self.told.append(("numbers", offset, text))
            self.body += text
        return self.takes_lists

    def flat(self, entry: Any, text: bytes, kind: str, offset: int) -> bool:
        assert (kind == "decimals") == any(mark in text for mark in b".eE+")
        return self.numbers(entry, [text], None, offset)

    def cut(self, tail: bytes | None, tail_offset: int) -> None:
        self.told.append("cut")
        self.body += tail or b""


def scan(chunks: Iterable[bytes], registry: Registry, sink: Recorder) -> Recorder:
    """Push ``chunks`` through a scanner into ``sink``."""
    scanner = Scanner(registry, sink, tail_bytes=1 << 30, list_bytes=1 << 30)
    for chunk in chunks:
        scanner.feed(chunk)
    scanner.finish()
    return sink
