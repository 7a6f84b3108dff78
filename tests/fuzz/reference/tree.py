"""JSON as a tree that keeps where each value stands and how it is spelled. Slow, plain, and none of the parser's code.

Whether text is JSON at all is orjson's to say (RFC 8259); the tree is made of text that is.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

import orjson

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
NONFINITE: Final = {b"NaN": float("nan"), b"Infinity": float("inf"), b"-Infinity": float("-inf")}

_TOKEN: Final = re.compile(rb'[ \t\n\r]*+("(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^{}\[\]:," \t\n\r]++|\Z)', re.DOTALL)
_NONFINITE_OR_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?Infinity|NaN', re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A value.

    Attributes:
        start: Its first byte in the body.
        end: The byte behind its last.
        spelling: Its text; of a string, without the quotes.
    """

    start: int
    end: int
    spelling: bytes


class Scalar(Node):
    """A number, true, false, null, or a number that is not finite, where those are allowed."""

    @property
    def value(self) -> Any:
        """What it says."""
        return NONFINITE[self.spelling] if self.spelling in NONFINITE else orjson.loads(self.spelling)

    @property
    def is_number(self) -> bool:
        """Whether it is a finite number."""
        return self.spelling[:1] in b"-0123456789" and self.spelling not in NONFINITE


class String(Node):
    """A string, or a name."""

    @property
    def value(self) -> str:
        """What it says."""
        return str(orjson.loads(b'"' + self.spelling + b'"'))


@dataclasses.dataclass(frozen=True, slots=True)
class Items(Node):
    """A list."""

    items: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Members(Node):
    """An object, with every member, duplicates as well."""

    members: tuple[tuple[String, Node], ...]


def is_json(body: bytes) -> bool:
    """Return whether ``body`` is JSON, for a reader that skips a byte order mark."""
    try:
        orjson.loads(body.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return False
    return True


def without_nonfinite(body: bytes) -> bytes:
    """Return ``body`` with null for every NaN and infinity: JSON if those are all that keep it from being JSON."""
    return _NONFINITE_OR_STRING.sub(lambda match: match[0] if match[0][:1] == b'"' else b"null", body)


def tree(body: bytes) -> Node:
    """Return the tree of ``body``, which is JSON but for a byte order mark, NaN and infinities."""
    start = len(BYTE_ORDER_MARK) if body.startswith(BYTE_ORDER_MARK) else 0
    return _Reader(body, start).value()


def plain_value(node: Node) -> Any:
    """Return what a JSON parser makes of ``node``."""
    match node:
        case Members():
            return {name.value: plain_value(item) for name, item in node.members}
        case Items():
            return [plain_value(item) for item in node.items]
        case String() | Scalar():
            return node.value
        case _:
            raise AssertionError(node)


class _Reader:
    def __init__(self, body: bytes, position: int) -> None:
        self._body = body
        self._position = position

    def _peek(self) -> bytes:
        match = _TOKEN.match(self._body, self._position)
        assert match is not None
        return match[1]

    def _take(self) -> tuple[int, int, bytes]:
        match = _TOKEN.match(self._body, self._position)
        assert match is not None
        self._position = match.end()
        return match.start(1), match.end(1), match[1]

    def value(self) -> Node:
        start, end, token = self._take()
        if token == b"{":
            members: list[tuple[String, Node]] = []
            while self._peek() != b"}":
                name = self._name()
                self._take()
                members.append((name, self.value()))
                if self._peek() == b",":
                    self._take()
            _, end, _ = self._take()
            return Members(start, end, self._body[start:end], tuple(members))
        if token == b"[":
            items: list[Node] = []
            while self._peek() != b"]":
                items.append(self.value())
                if self._peek() == b",":
                    self._take()
            _, end, _ = self._take()
            return Items(start, end, self._body[start:end], tuple(items))
        if token[:1] == b'"':
            return String(start, end, token[1:-1])
        return Scalar(start, end, token)

    def _name(self) -> String:
        start, end, token = self._take()
        return String(start, end, token[1:-1])
