import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class Client:
    """A client in plain lines, over a real process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._number = 0
        info = {"name": "test", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def close(self) -> None:
        self.process.communicate(timeout=10)
        assert self.process.returncode == 0


@pytest.fixture
def tickets(tmp_path: Path) -> Iterator[Client]:
    client = Client("delta_actors.demo.tickets", "--db", str(tmp_path / "new" / "tickets.db"))
    yield client
    client.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Client]:
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "notes.txt").write_text("hello")
    (tmp_path / "hidden.txt").write_text("hidden")
    client = Client("delta_actors.demo.files", "--root", str(tmp_path / "shown"))
    yield client
    client.close()


def test_the_tickets_tools_are_these_and_say_honestly_what_they_do(tickets: Client) -> None:
    tools = {tool["name"]: tool for tool in tickets.ask("tools/list", {})["tools"]}
    hints = {name: tool["annotations"] for name, tool in tools.items()}
    assert {name: sorted(tool["inputSchema"]["properties"]) for name, tool in tools.items()} == {
        "get_ticket": ["id"],
        "list_tickets": ["assignee", "cursor", "status"],
        "create_ticket": ["assignee", "body", "labels", "status", "title"],
        "update_ticket": ["assignee", "body", "id", "labels", "status", "title"],
        "delete_ticket": ["id"],
        "add_comment": ["body", "ticket_id"],
        "delete_comment": ["comment_id", "ticket_id"],
    }
    assert {name for name, hint in hints.items() if hint["readOnlyHint"]} == {"get_ticket", "list_tickets"}
    assert {name for name, hint in hints.items() if hint.get("destructiveHint")} == {
        "update_ticket",
        "delete_ticket",
        "delete_comment",
    }
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools.values())


def test_a_ticket_is_changed_field_by_field(tickets: Client) -> None:
    before = tickets.call("get_ticket", id="T-1")["structuredContent"]
    tickets.call("update_ticket", id="T-1", status="closed", assignee=None)
    comment = tickets.call("add_comment", ticket_id="T-1", body="Closed")["structuredContent"]
    after = tickets.call("get_ticket", id="T-1")["structuredContent"]
    assert after == {**before, "status": "closed", "assignee": None, "comments": [*before["comments"], comment]}
    assert tickets.call("delete_comment", ticket_id="T-1", comment_id=comment["id"])["structuredContent"] == {
        "deleted": comment["id"]
    }


def test_what_goes_wrong_is_an_error_of_the_tool(tickets: Client) -> None:
    for name, arguments in (
        ("get_ticket", {"id": "T-99"}),
        ("get_ticket", {}),
        ("update_ticket", {"id": "T-1", "status": "sleeping"}),
        ("update_ticket", {"id": "T-1", "colour": "red"}),
        ("delete_comment", {"ticket_id": "T-2", "comment_id": "C-1"}),
    ):
        result = tickets.call(name, **arguments)
        assert result["isError"] is True
        assert result["content"][0]["text"]


def test_lists_are_filtered(tickets: Client) -> None:
    listed = tickets.call("list_tickets", status="closed")["structuredContent"]
    assert [ticket["id"] for ticket in listed["tickets"]] == ["T-4"]


def test_files_are_listed_read_and_found_and_no_more(files: Client) -> None:
    tools = files.ask("tools/list", {})["tools"]
    assert [tool["name"] for tool in tools] == ["list_directory", "read_file", "search_files"]
    assert all(tool["annotations"] == {"readOnlyHint": True, "openWorldHint": False} for tool in tools)
    assert files.call("list_directory")["structuredContent"]["entries"][0]["name"] == "notes.txt"
    assert files.call("read_file", path="notes.txt")["structuredContent"]["text"] == "hello"
    assert files.call("search_files", pattern="*.txt", text="ell")["structuredContent"]["paths"] == ["notes.txt"]
    assert files.call("read_file", path="../hidden.txt")["isError"] is True
