"""The probe connector as the tests use it: its configuration, its items, what it logged."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "connectors" / "probe.py"


class Probe:
    """One probe's folder. `options` go to its command line."""

    def __init__(self, folder: Path, name: str = "probe") -> None:
        self.folder = folder
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)

    def config(self, *options: str, more: str = "") -> str:
        """Return its part of a `delta.toml`."""
        arguments = json.dumps([str(SCRIPT), str(self.folder), *options])
        command = json.dumps(sys.executable)
        return f"[connectors.{self.name}]\ncommand = {command}\nargs = {arguments}\nreviewed = true\n{more}\n"

    def events(self, event: str = "", tool: str = "") -> list[dict[str, Any]]:
        """Return what was logged, in order; of one kind or one tool where given."""
        path = self.folder / "log.jsonl"
        logged = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [e for e in logged if event in ("", e["event"]) and tool in ("", e.get("tool", ""))]

    def items(self) -> dict[str, str]:
        """Return the items as they are now."""
        path = self.folder / "items.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def put(self, **items: str) -> None:
        """Set items behind everybody's back."""
        (self.folder / "items.json").write_text(json.dumps({**self.items(), **items}))

    def wait(self, holds: Callable[[Probe], bool], timeout: float = 20) -> None:
        """Wait until `holds`; raises `AssertionError` with the log after `timeout` seconds."""
        until = time.monotonic() + timeout
        while not holds(self):
            assert time.monotonic() < until, self.events()[-10:]
            time.sleep(0.02)
