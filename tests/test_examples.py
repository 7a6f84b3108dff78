"""The examples run, small."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
def test_quickstart(client: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = example("quickstart.py", "--size", "2000", "--client", client, "--port", str(port))
    assert result.returncode == 0, result.stderr
    assert "Every way gave the arrays that the server sent" in result.stdout
    assert f"127.0.0.1:{port}, {client}, 2,000 tokens" in result.stdout
    for way in ("nested lists*", "read whole, parse", "read whole, cut out", "ndwire, streaming"):
        assert f"│ {way}" in result.stdout


def test_quickstart_explains_itself() -> None:
    result = example("quickstart.py", "--help")
    assert all(option in result.stdout for option in ("--size", "--port", "--client"))
    assert example("quickstart.py", "--size", "0").returncode == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = example("quickstart.py", "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 1
    assert "cannot listen on port" in refused.stderr


def test_middleware() -> None:
    result = example("middleware.py", "--tokens", "40")
    assert result.returncode == 0, result.stderr
    assert "uint8 of shape (40, 48, 8)" in result.stdout
    assert result.stdout.count("event ") == 4
    assert "example: /generate: " in result.stderr
    assert "example: /stream: " in result.stderr
