"""Fixtures for the tests of the parser."""

from __future__ import annotations

import pytest

from support.lists import SIMDJSON, read_with


@pytest.fixture(params=["simdjson", "orjson"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read lists of any length with simdjson in pieces of a few rows, or without it."""
    if request.param == "simdjson":
        pytest.importorskip("simdjson")
    read_with(monkeypatch, SIMDJSON if request.param == "simdjson" else None, worth=0, short=0, piece=1)
    name: str = request.param
    return name
