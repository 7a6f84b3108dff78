from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
import pytest

from ndwire._contract.shown import shown


class Foreign:
    def __repr__(self) -> str:
        raise AssertionError("nobody asks foreign objects")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


DEEP: Any = nested(10_000)


# Values and what is shown of them.
CASES: list[tuple[Any, str]] = [
    ("text", "'text'"),
    ("x" * 10**6, "'" + "x" * 79 + "..."),
    (b"\x00", r"b'\x00'"),
    (bytearray(b"ab"), "bytearray(b'ab')"),
    (None, "None"),
    (True, "True"),
    (1.5, "1.5"),
    (-3, "-3"),
    (10**5000, "<integer of 16610 bits>"),
    (np.int64(-2), "np.int64(-2)"),
    ([], "[]"),
    ((1, "a"), "(1, 'a')"),
    ({"a": [1]}, "{'a': [1]}"),
    ([1] * 10**6, "[1, 1, 1, 1, ...]"),
    ([[[[[]]]]], "[[[[...]]]]"),
    ([[[[]]]], "[[[[]]]]"),
    ({"a": {"b": {"c": {"d": 1}}}}, "{'a': {'b': {'c': {...}}}}"),
    (DEEP, "[[[[...]]]]"),
    (np.int8, "<class numpy.int8>"),
    (str, "<class str>"),
    (object(), "<object>"),
    (np.zeros(10**6), "<numpy.ndarray>"),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_short_text_of_anything(number: int) -> None:
    value, text = CASES[number]
    assert shown(value) == text


def test_foreign_objects_are_not_asked() -> None:
    assert shown([Foreign()]) == f"[<{Foreign.__module__}.Foreign>]"


def test_a_text_is_short_whatever_it_is_of() -> None:
    wide = [[["é" * 200] * 9] * 9] * 9
    assert len(shown(wide)) == 83
    assert len(shown({"k" * 300: wide})) == 83


def test_few_frames_are_enough() -> None:
    def below(levels: int) -> str:
        return shown(DEEP) if not levels else below(levels - 1)

    used = len(inspect.stack(context=0))
    assert below(sys.getrecursionlimit() - used - 30) == "[[[[...]]]]"
