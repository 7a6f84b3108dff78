from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest

import ndwire
from ndwire import IncompleteBody, MalformedArray, WireError


def test_all_is_exactly_the_public_names() -> None:
    public = {name for name in vars(ndwire) if not name.startswith("_") and name not in ("presets", "rl")}
    assert public == set(ndwire.__all__)
    assert list(ndwire.__all__) == sorted(ndwire.__all__, key=lambda name: (not name.isupper(), name))


@pytest.mark.parametrize("name", ndwire.__all__)
def test_public_names_are_documented(name: str) -> None:
    item = getattr(ndwire, name)
    if inspect.isclass(item) or inspect.isfunction(item):
        assert item.__doc__
        assert item.__doc__.split("\n")[0].endswith(".")


@pytest.mark.parametrize("name", [n for n in ndwire.__all__ if inspect.isclass(getattr(ndwire, n))])
def test_errors_say_whether_to_try_again(name: str) -> None:
    item = getattr(ndwire, name)
    if issubclass(item, WireError):
        assert item.retryable is (name in ("MalformedJSON", "IncompleteBody"))


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(MalformedArray("broken", offset=7)))
    assert (type(error), str(error), error.offset) == (MalformedArray, "broken (byte 7 of the body)", 7)
    assert str(IncompleteBody("cut")) == "cut"


def test_importing_it_imports_no_framework() -> None:
    frameworks = {"starlette", "anyio", "torch", "httpx", "aiohttp"}
    code = f"import ndwire, sys; print(sorted({frameworks} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
