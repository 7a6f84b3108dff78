"""Starts the proxies, each with the configuration that the documentation shows."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "caching.md"
PACKAGES = {"nginx": "nginx", "varnish": "varnishd", "haproxy": "haproxy"}
_BLOCKS = {"nginx": "nginx", "varnish": "vcl", "haproxy": "haproxy"}


def missing() -> list[str]:
    """Return the packages whose program is not here."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return [package for package, program in PACKAGES.items() if shutil.which(program, path=path) is None]


def install(packages: list[str]) -> None:
    """Install Debian's packages, where one may."""
    if not packages:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"{', '.join(packages)} are needed (Debian, Ubuntu: apt-get install {' '.join(packages)})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "-qq", "update"], check=True, env=environment)
    command = ["apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _snippet(name: str, origin: int, port: int) -> str:
    """Return a configuration of the documentation, with the ports of this run."""
    blocks = re.findall(rf"```{_BLOCKS[name]}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == 1, name
    return str(blocks[0]).replace("8000", str(origin)).replace("8080", str(port))


def command_of(name: str, directory: pathlib.Path, origin: int, port: int) -> list[str]:
    """Write the configuration, and return what starts the proxy in the foreground."""
    text = _snippet(name, origin, port)
    file = directory / "proxy.conf"
    if name == "nginx":
        text = (
            f"daemon off; master_process off; pid {directory}/pid; error_log stderr error;\n"
            f"events {{ }}\nhttp {{ access_log off; proxy_cache_path {directory}/cache keys_zone=responses:10m;\n"
            f"{text}}}\n"
        )
        command = ["nginx", "-p", str(directory), "-c", str(file)]
    elif name == "varnish":
        # Without grace a copy that is no longer fresh is asked about at once, and not behind the client's back.
        command = ["varnishd", "-F", "-j", "none", "-n", str(directory / "work"), "-f", str(file)]
        command += ["-a", f"127.0.0.1:{port}", "-s", "malloc,64m", "-p", "default_grace=0"]
    else:
        command = ["haproxy", "-db", "-f", str(file)]
    file.write_text(text)
    return command


@contextlib.contextmanager
def running(name: str, origin: int) -> Generator[str, None, None]:
    """Run a proxy in front of the port ``origin``; give its URL."""
    port = _free_port()
    environment = {
        **os.environ,
        "PATH": f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin",
    }
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as log:
        command = command_of(name, pathlib.Path(directory), origin, port)
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise SystemExit(f"{name} did not start:\n{log.read().decode(errors='replace')}")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
