"""Third-party test data that is never shipped: tool listings, hostile programs, change recordings.

It lies in the folder named by `DELTA_SHARED`, or in `shared` beside the repository. A test that needs it carries the
mark `shared_data` and is skipped, with the reason, where the folder is absent; `conftest.py` counts what ran.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def folder() -> Path | None:
    """Return the data's folder, None where it is absent."""
    path = Path(os.environ.get("DELTA_SHARED") or ROOT.parent / "shared")
    return path if (path / "data").is_dir() else None


def data(*parts: str) -> Path:
    """Return a path inside the data, for a test marked `shared_data`; raises `FileNotFoundError` where it is absent."""
    found = folder()
    if found is None or not found.joinpath(*parts).exists():
        raise FileNotFoundError(f"no {'/'.join(parts)} in the shared test data")
    return found.joinpath(*parts)


def listings() -> list[Path]:
    """Return the collected tool listings in name order, empty where they are absent."""
    found = folder()
    return sorted((found / "data" / "tools").glob("*.json")) if found is not None else []
