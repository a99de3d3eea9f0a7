"""The guest: the QuickJS that the quickjs-rs package carries, its pinned hash, its compiled form, and our prelude."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import wasmtime

GUEST_SHA256: Final = "647ab11ae29cc6d39a6d17d3aa1e7a6a0b5fb9c44b4864475a18bc644f926050"
WASM_STACK: Final = 2 << 20


def guest_path() -> Path:
    """Return where the guest lies. Raises `FileNotFoundError` when its package is not installed."""
    spec = importlib.util.find_spec("quickjs_rs")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package quickjs-rs is not installed")
    return Path(spec.origin).with_name("_guest.wasm")


def read_guest(path: Path) -> bytes:
    """Return the guest's bytes. Raises `ValueError` when they are not the pinned ones."""
    data = path.read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != GUEST_SHA256:
        raise ValueError(f"{path} has sha256 {found}, expected {GUEST_SHA256}: install quickjs-rs 0.2.6")
    return data


def configuration() -> wasmtime.Config:
    """Return the one engine configuration; the compiled file's name names its parts."""
    # Here and not above: the sandbox actor, which only needs names, does without the engine in its process.
    import wasmtime

    config = wasmtime.Config()
    config.consume_fuel = True
    config.max_wasm_stack = WASM_STACK
    return config


def load_prelude(parts: Sequence[str], folder: Path) -> str:
    """Return the prelude: its parts share one module scope."""
    return "\n".join((folder / part).read_text(encoding="utf-8") for part in parts)


def cache_prefix() -> str:
    """Return how the file name of a compiled guest of this version, configuration and machine begins.

    The rest is the sha256 of the file's content, and `.cwasm`.
    """
    # Here and not above: the zygote, which is given the file, would load the whole of email for it.
    from importlib.metadata import version

    release = version("wasmtime")
    return f"guest-{GUEST_SHA256[:16]}-wasmtime{release}-fuel-stack{WASM_STACK}-{platform.machine()}-"
