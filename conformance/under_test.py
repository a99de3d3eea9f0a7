"""Starts the server under test as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_STOP = 30.0


@contextmanager
def everything_server(*options: str) -> Generator[str, None, None]:
    """Run the server under test for the length of the block and give its URL. Raises `RuntimeError` if it ends."""
    command = [sys.executable, "-m", "conformance.everything_server", "http", "0", *options]
    with subprocess.Popen(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the server ended with {process.wait(_STOP)}")
            yield url
        finally:
            process.terminate()
