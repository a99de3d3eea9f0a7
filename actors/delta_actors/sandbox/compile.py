"""Compiles the guest into a directory, in a process of its own: `python -m delta_actors.sandbox.compile DIRECTORY`.

The compiler's memory and threads must not be in the zygote, whose pages every worker inherits (spec/sandbox 4).
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import wasmtime

from delta_actors.sandbox.guest import cache_prefix, configuration, guest_path, read_guest


def compile_guest(directory: Path) -> Path:
    """Return the guest compiled into `directory`, which must be private: the file is executable code.

    Those of other versions are removed.
    """
    module = wasmtime.Module(wasmtime.Engine(configuration()), read_guest(guest_path()))
    code = bytes(module.serialize())
    target = directory / f"{cache_prefix()}{hashlib.sha256(code).hexdigest()}.cwasm"
    scratch = target.with_suffix(f".{os.getpid()}")
    scratch.touch(mode=0o600)
    scratch.write_bytes(code)
    scratch.replace(target)
    for other in directory.glob("guest-*.cwasm"):
        if other != target:
            other.unlink(missing_ok=True)
    return target


if __name__ == "__main__":
    compile_guest(Path(sys.argv[1]))
