"""Real servers, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator

import httpx

ROOT = pathlib.Path(__file__).parents[1]
SERVERS: dict[str, tuple[list[str], bool]] = {
    # Arguments, and whether it speaks HTTP/2 without TLS.
    "uvicorn": (["uvicorn", "--log-level", "warning", "--port", "{port}", "{app}"], False),
    "hypercorn": (["hypercorn", "--log-level", "warning", "--bind", "127.0.0.1:{port}", "{app}"], True),
    "granian": (
        ["granian", "--interface", "asgi", "--log-level", "warning", "--loop", "asyncio", "--port", "{port}", "{app}"],
        True,
    ),
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def served(server: str, app: str, *, ready: str = "/ready/a/b") -> Generator[str, None, None]:
    """Run ``app`` (module:name, from the directory of the tests) under a server; give its URL."""
    port = _free_port()
    arguments = [part.format(port=port, app=app) for part in SERVERS[server][0]]
    path = os.pathsep.join(filter(None, [str(ROOT), str(ROOT.parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "NDWIRE_SERVED": "1"}
    process = subprocess.Popen([sys.executable, "-m", *arguments], env=environment, cwd=ROOT, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(url + ready, timeout=5).status_code == 200:
                    break
            assert process.poll() is None, f"{server} did not start"
            assert time.monotonic() < deadline, f"{server} did not start in time"
            time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
