"""Measure everything: `python -m tests.benchmarks.run [NAME...]` prints the tables of `docs/benchmarks.md`.

A benchmark is a module of this folder with `measure() -> Sequence[Table]`; without names all of them run.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the benchmarks' names: modules that say `def measure`."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if "\ndef measure(" in path.read_text())


def main(chosen: list[str]) -> None:
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}\n")
    for name in chosen or names():
        for table in importlib.import_module(f"tests.benchmarks.{name}").measure():
            print(table.markdown(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
