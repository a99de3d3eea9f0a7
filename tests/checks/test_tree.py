"""The tree speaks of the project alone: no machine's paths, no registry's hosts, no keys, no notes to oneself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOSTS = [
    ("registry", "npmjs", "org"),
    ("pypi", "org"),
    ("files", "pythonhosted", "org"),
    ("deb", "debian", "org"),
    ("proxy", "golang", "org"),
]
WORDS = [
    *(re.escape(".".join(host)) for host in HOSTS),
    *(rf"(?<![\w.]){prefix}/" for prefix in ("/" + "work", "/" + "opt/delta")),
]
NOTES = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
SECRETS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(sk-|ghp_|xox[bap]-)[A-Za-z0-9]{16,}")


def files() -> list[Path]:
    """Return the files under version control; in an unpacked source distribution, all files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    names = listed.stdout.decode().split("\0") if listed.returncode == 0 else []
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except UnicodeDecodeError:
        return []


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in files()
        for number, line in enumerate(lines(path), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize("word", WORDS)
def test_no_file_names_a_registry_host_or_a_folder_of_one_machine(word: str) -> None:
    assert found(re.compile(word)) == []


def test_no_file_holds_a_note_to_oneself() -> None:
    assert found(NOTES) == []


def test_no_file_holds_a_secret() -> None:
    assert found(SECRETS) == []


def test_no_binary_is_in_the_tree() -> None:
    assert [str(path.relative_to(ROOT)) for path in files() if b"\0" in path.read_bytes()] == []
