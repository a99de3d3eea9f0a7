"""Stands between a client and a server's process and counts the requests that go to the server.

usage: python -m conformance.framework.tap LOG COMMAND...
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def command(log: Path, server: Sequence[str]) -> list[str]:
    """Return the command that stands for `server` and logs."""
    return [sys.executable, str(Path(__file__).resolve()), str(log), *server]


def requests(log: Path) -> int:
    """Return how many requests there were until now."""
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    return sum(("id" in each and "method" in each) or ("i" in each and "m" in each) for each in messages)


def main(log: str, server: Sequence[str]) -> int:
    """Pass on every line after it was written down."""
    with Path(log).open("ab", buffering=0) as file, subprocess.Popen(server, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for line in sys.stdin.buffer:
            file.write(line)
            process.stdin.write(line)
            process.stdin.flush()
        process.stdin.close()
        return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
