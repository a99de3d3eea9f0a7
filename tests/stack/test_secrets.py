"""Secrets that a stack is given, or that programs write, are in nothing that it writes (acceptance 76)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.registry.systems import FAKE
from tests.registry.test_catalogue import offer
from tests.stack.harness import running

KEY = "sk-planted-in-the-environment"
HEADER = "planted-in-a-header"
PASSWORD = "planted-in-an-argument"
OBJECT = "planted-in-an-object"

CONFIG = """\
version = 1
[connectors.fake]
command = {command}
args = [{script}, {folder}]
mode = "full"
env = {{API_KEY = "{key}"}}
[connectors.away]
url = "http://127.0.0.1:9/mcp"
headers = {{Authorization = "Bearer {header}"}}
"""


def found_in(folder: Path, secret: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_no_secret_is_in_anything_that_was_written(home: Path) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}, "login": {"type": "object"}}}
    texts = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [
        {"name": "set_login", "description": "Set it.", "inputSchema": schema},
        {"name": "get_telling", "description": "Tell.", "inputSchema": texts},
        {"name": "set_telling", "description": "Tell.", "inputSchema": texts},
    ]
    offer(home / "fake", tools)
    given = {"command": sys.executable, "script": str(FAKE), "folder": str(home / "fake")}
    config = CONFIG.format(**{name: json.dumps(value) for name, value in given.items()}, key=KEY, header=HEADER)
    with running(home, config) as stack:
        token = json.loads(stack.cli("token add", "--json", "laptop").stdout)["token"]
        written = f'await fake.set_login({{password: "{PASSWORD}", login: {{api_key: "{OBJECT}"}}}});'
        assert stack.run(written)["delta"]["state"] == "applied"
        failed = stack.run(f"{written} throw new Error('after')")
        assert failed["error"]["message"] == "after"
        stack.run(f"{written} return (", "--dry-run")
        assert "‹redacted›" in stack.run("return await fake.get_telling({text: 'x'})")["error"]["message"]
        assert stack.run("await fake.set_telling({text: 'x'})")["delta"]["state"] == "rolled_back"
        stack.run("return await away.anything({})")
        shown = stack.cli("status").stdout + stack.cli("journal", "--json").stdout + stack.output()
    (home / "delta.toml").unlink()
    for secret in (KEY, HEADER, PASSWORD, OBJECT, token):
        assert secret not in shown
        assert found_in(home, secret) == []
