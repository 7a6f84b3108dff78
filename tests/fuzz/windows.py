"""Every bound on how much is done at a time, made small: what crosses none of them in a short body crosses all."""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from types import ModuleType
from typing import Final

import pytest

import ndwire

# The names of such bounds. Others are of the format, such as how long a header may be.
_BOUND: Final = re.compile(r"_?(?:.*WINDOW.*|SHORT|_?SMALL|.*COALESCE|WORTH.*|_?PIECE|RUN|FEW|FIRST_CAPACITY|AT_ONCE)")
# A character of UTF-8 is whole in the least of them.
_SIZES: Final = (4, 5, 7, 8, 13, 40, 100)
_KEPT: Final = 0.4


def _modules() -> tuple[ModuleType, ...]:
    return tuple(
        importlib.import_module(f"ndwire.{module.name}")
        for module in pkgutil.iter_modules(ndwire.__path__)
        if not module.ispkg
    )


_MODULES: Final = _modules()


def small_windows(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Make most bounds small, and leave numbers to orjson now and then."""
    for module in _MODULES:
        for name, value in vars(module).copy().items():
            if type(value) is int and _BOUND.fullmatch(name) and chance.random() > _KEPT:
                patch.setattr(module, name, chance.choice(_SIZES))
    if chance.random() < _KEPT:
        for module in _MODULES:
            if hasattr(module, "_simdjson"):
                patch.setattr(module, "_simdjson", None)
