"""What the documents tell people to type works as it stands there, and what they point to exists."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.stack.harness import Stack, running

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def blocks(language: str) -> list[str]:
    """Return the README's code blocks in a language."""
    return [text for found, text in BLOCK.findall((ROOT / "README.md").read_text()) if found == language]


def shell(script: str, stack: Stack) -> subprocess.CompletedProcess[str]:
    """Run a block as typed, `.venv/bin` being the environment of this test run."""
    (stack.home / ".venv").mkdir(exist_ok=True)
    if not (stack.home / ".venv" / "bin").exists():
        (stack.home / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    env = {**stack.env, "DELTA_STATE_DIR": str(stack.state), "DELTA_HTTP_PORT": "0"}
    return subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=stack.home,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_first_commands_of_the_readme_work_as_typed(home: Path) -> None:
    install_and_start, second_terminal, _ = blocks("sh")
    assert install_and_start.endswith("&& .venv/bin/delta-supervisor up\n")
    with running(home) as stack:
        done = shell(second_terminal, stack)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "Login broken" in done.stdout
        assert "undone" in stack.cli("journal").stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


def test_the_example_configuration_passes_the_check(home: Path) -> None:
    stack = Stack(home, blocks("toml")[0], {"WIKI_TOKEN": "secret-of-the-wiki", "PATH": fake_npx(home)})
    done = stack.cli("check", "--json")
    assert done.returncode == 0, done.stderr
    assert "memory" in done.stdout
    assert "secret-of-the-wiki" not in done.stdout + done.stderr
    assert set(tomllib.loads(blocks("toml")[0])["connectors"]) == {"memory", "wiki"}


def fake_npx(home: Path) -> str:
    """Return a PATH on which there is a program `npx`."""
    folder = home / "bin"
    folder.mkdir()
    (folder / "npx").write_text("#!/bin/sh\n")
    (folder / "npx").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_the_client_configuration_starts_the_relay() -> None:
    server = json.loads(blocks("json")[0])["mcpServers"]["delta"]
    assert server["command"].endswith("/delta-supervisor")
    assert server["args"] == ["stdio"]


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_can_be_compiled(example: Path) -> None:
    compile(example.read_text(), str(example), "exec")
