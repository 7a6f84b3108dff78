"""Modules as they are where something is not installed."""

from __future__ import annotations

import importlib.util
import sys
import types

import pytest


def without(missing: str, module: types.ModuleType, patch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return ``module`` loaded once more, as it is where the package ``missing`` cannot be imported."""
    patch.setitem(sys.modules, missing, None)
    spec = importlib.util.spec_from_file_location(f"{module.__name__}_without_{missing}", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return again
