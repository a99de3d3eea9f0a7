"""The example servers do what their first lines say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaClient, DeltaServer, connect

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


async def call(client: DeltaClient, tool: str, **arguments: Any) -> tuple[str, bool]:
    reply = await client.call_tool(tool, json.dumps(arguments).encode())
    return json.loads(reply.result)["content"][0]["text"], reply.is_error


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory with what a jail must not let out: links to a secret beside it, and a pipe."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept.txt").write_text("kept")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("in the jail")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "way").symlink_to(tmp_path / "outside")
    (root / "sub" / "up").symlink_to("../..")
    os.mkfifo(root / "pipe")
    return root


async def test_the_files_server_reads_and_writes_below_its_directory(files: Path) -> None:
    async with connect([sys.executable, str(EXAMPLES / "filesystem_server.py"), str(files)]) as client:
        assert json.loads((await call(client, "list_dir"))[0]) == ["link", "pipe", "sub/", "way"]
        assert await call(client, "read_file", path="sub/a.txt") == ("in the jail", False)
        assert (await call(client, "write_file", path="sub/b.txt", text="new"))[1] is False
        assert (files / "sub" / "b.txt").read_text() == "new"
        assert await call(client, "read_file", path="none.txt") == ("there is no none.txt", True)


async def test_no_path_and_no_link_leads_out_of_the_files_servers_directory(files: Path) -> None:
    ways = [
        "link",
        "way/kept.txt",
        "sub/up/secret",
        "../secret",
        "/etc/passwd",
        "sub/../../secret",
        "a\0b",
        "pipe",
        ".",
    ]
    async with connect([sys.executable, str(EXAMPLES / "filesystem_server.py"), str(files)]) as client:
        for way in ways:
            text, failed = await call(client, "read_file", path=way)
            assert failed, (way, text)
            assert "secret" not in text.replace(way, ""), way
            _, failed = await call(client, "write_file", path=way, text="overwritten")
            assert failed, way
    assert (files.parent / "secret").read_text() == "secret"
    assert (files.parent / "outside" / "kept.txt").read_text() == "kept"


def test_a_thousand_records_are_read_back_page_by_page() -> None:
    example = [sys.executable, str(EXAMPLES / "long_results.py")]
    done = subprocess.run(example, capture_output=True, text=True, timeout=60, check=True)
    assert "1000 of 1000 records" in done.stdout
    assert "in order: True" in done.stdout
    assert "whose last word is delta" in done.stdout
    assert "a text begins: line 0" in done.stdout


GUIDE = EXAMPLES.parent / "framework.md"


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE))
def test_the_guides_servers_can_be_made_as_written(code: str) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    # Annotations are looked up in the code's own names, so it inherits no `annotations` future from here.
    exec(compile(code, str(GUIDE), "exec", dont_inherit=True), names)
    assert isinstance(names["server"], DeltaServer)


async def test_the_embedded_server_shows_the_application_that_it_runs_in() -> None:
    program = [sys.executable, str(EXAMPLES / "embedded_server.py"), "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = (await trio.to_thread.run_sync(process.stdout.readline)).split()[1]
            async with connect(url) as client:
                assert float((await call(client, "mean", last=1))[0]) >= 0
                assert (await call(client, "measure_every", seconds=0.01))[1]
                assert await call(client, "measure_every", seconds=0.1) == ("measures every 0.1 s", False)
                assert b"application/json" in await client.read_resource("station://latest")
        finally:
            process.terminate()
