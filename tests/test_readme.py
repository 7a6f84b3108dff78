"""The README's blocks run, and say what they do."""

from __future__ import annotations

import json
import pathlib
import re
import types
from typing import Any

import httpx
import pytest
import requests
import urllib3

import ndwire
from support.asgi import serving

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]


def run(code: str, name: str = "readme") -> dict[str, Any]:
    module = types.ModuleType(name)
    exec(compile(code, f"<{name}>", "exec"), module.__dict__)
    return module.__dict__


def promised(code: str) -> str:
    """Return what the comments behind print calls say that is printed."""
    return "".join(line + "\n" for line in re.findall(r"print\(.*\)  # (.*)", code))


def test_server_and_client(capsys: pytest.CaptureFixture[str]) -> None:
    server = next(code for code in PYTHON if code.startswith("# server.py"))
    client = next(code for code in PYTHON if code.startswith("# client.py"))
    assert len([line for line in server.splitlines()[1:] if line.strip()]) <= 10
    assert len([line for line in client.splitlines()[1:] if line.strip()]) <= 10
    with serving(run(server)["app"]) as url:
        run(client.replace("http://127.0.0.1:8000", url))
    assert capsys.readouterr().out == promised(client)


def test_middleware_and_client(capsys: pytest.CaptureFixture[str]) -> None:
    middleware = next(code for code in PYTHON if code.startswith("# middleware.py"))
    client = next(code for code in PYTHON if code.startswith("# client.py"))
    app = run(middleware)["app"]
    with serving(app) as url:
        run(client.replace("http://127.0.0.1:8000", url))
        asked = httpx.get(url + "/generate", headers=dict([ndwire.PREFER]))
        plain = httpx.get(url + "/generate")
    assert capsys.readouterr().out == promised(client)
    assert b'{"data":"' in asked.content
    assert plain.json() == {"choices": [{"index": 0, "routed_experts": [[[0] * 8] * 40] * 12}]}


def test_where_the_header_goes() -> None:
    def answer(request: Any) -> httpx.Response:
        return httpx.Response(200, text=request.headers["prefer"])

    with httpx.Client(headers=dict([ndwire.PREFER]), transport=httpx.MockTransport(answer)) as client:
        assert client.get("http://x").text == "ndarray=envelope"
    assert ndwire.PREFER == ("Prefer", "ndarray=envelope")
    session = requests.Session()
    session.headers.update(dict([ndwire.PREFER]))
    assert session.headers["prefer"] == "ndarray=envelope"
    with urllib3.PoolManager(headers=dict([ndwire.PREFER])) as pool:
        assert pool.headers["Prefer"] == "ndarray=envelope"


@pytest.mark.parametrize("code", [code for code in PYTHON if not re.match(r"# (server|client|middleware)\.py", code)])
def test_other_blocks(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(code)
    assert capsys.readouterr().out == promised(code)


def test_the_envelope_is_one() -> None:
    text = next(code for language, code in BLOCKS if language == "json")
    array, sidecar = ndwire.unpack_ndarray(json.loads(text), ndwire.Field("x"))
    assert (array.tolist(), sidecar) == ([[0, 1, 2], [3, 4, 5]], {"start": 128})


def test_the_commands_exist() -> None:
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text()
    for target in re.findall(r"(?:`|^)make ([\w-]+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_tree_of_errors() -> None:
    tree = next(code for language, code in BLOCKS if not language and "WireError" in code)
    for name in re.findall(r"[├└]── (\w+)", tree):
        assert issubclass(getattr(ndwire, name), ndwire.WireError)
        line = next(line for line in tree.splitlines() if f"── {name}" in line)
        if "retryable" in line:
            assert getattr(ndwire, name).retryable is ("not retryable" not in line)
