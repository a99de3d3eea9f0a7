"""Real connectors behind a running stack: what is changed through them is read back and undone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.interop import peers
from tests.stack.harness import Stack, running


@contextmanager
def connected(home: Path, name: str, command: list[str], settings: str = "", env: str = "") -> Iterator[Stack]:
    """Start a stack with one reviewed connector."""
    config = (
        f"version = 1\n[connectors.{name}]\ncommand = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"
        f"reviewed = true\n{settings}\n"
    )
    with running(home, config + env) as stack:
        stack.wait(lambda _: name in json.dumps(stack.status()))
        yield stack


def npm(package: str, *arguments: str) -> list[str]:
    peers.require()
    return [str(peers.NODE), str(peers.script(f"@modelcontextprotocol/{package}")), *arguments]


def pypi(module: str, *arguments: str) -> list[str]:
    peers.require()
    return [str(peers.PYTHON), "-m", module, *arguments]


def applied(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the delta of a `run` that was applied."""
    assert answer["exit"] == 0, answer
    delta: dict[str, Any] = answer["delta"]
    assert delta["state"] == "applied", answer
    return delta


def test_server_memory_creates_entities_and_relations_and_undoes_them(home: Path) -> None:
    store = home / "memory.jsonl"
    command = npm("server-memory")
    env = f"[connectors.memory.env]\nMEMORY_FILE_PATH = {json.dumps(str(store))}\n"
    code = """
        await memory.create_entities({entities: [
            {name: "Ada", entityType: "person", observations: ["writes programs"]},
            {name: "Engine", entityType: "machine", observations: []}]});
        await memory.create_relations({relations: [{from: "Ada", to: "Engine", relationType: "programs"}]});
        return "kept";
    """
    with connected(home, "memory", command, env=env) as stack:
        delta = applied(stack.run(code))
        assert delta["calls"] == 2
        graph = stack.run("return await memory.read_graph({})")["returned"]
        assert sorted(entity["name"] for entity in graph["entities"]) == ["Ada", "Engine"]
        assert [relation["relationType"] for relation in graph["relations"]] == ["programs"]
        assert delta["undo"] == {"possible": 2, "of": 2}
        assert stack.undo(delta["id"])["exit"] == 0
        assert stack.run("return await memory.read_graph({})")["returned"] == {"entities": [], "relations": []}


def test_what_server_memory_held_already_outlives_the_undo_of_creating_it_again(home: Path) -> None:
    """The server keeps quiet about an entity or relation that it has, and answers as if all were well."""
    env = f"[connectors.memory.env]\nMEMORY_FILE_PATH = {json.dumps(str(home / 'memory.jsonl'))}\n"
    ada = '{name: "Ada", entityType: "person", observations: ["writes programs"]}'
    edge = '{from: "Ada", to: "Engine", relationType: "programs"}'
    other = '{from: "Ada", to: "Babbage", relationType: "knows"}'
    graph = "return await memory.read_graph({})"
    with connected(home, "memory", npm("server-memory"), env=env, settings='mode = "full"') as stack:
        applied(stack.run(f"await memory.create_entities({{entities: [{ada}]}});"))
        applied(stack.run(f"await memory.create_relations({{relations: [{edge}]}});"))
        before = stack.run(graph)["returned"]
        twice = stack.run(f"await memory.create_entities({{entities: [{ada}]}}); // again")["delta"]
        assert twice["undo"]["possible"] == 0
        both = stack.run(
            f"await memory.create_relations({{relations: [{edge}]}}); //again\n"
            f"await memory.create_relations({{relations: [{other}]}});"
        )["delta"]
        stack.undo(twice["id"])
        stack.undo(both["id"])
        after = stack.run(f"{graph} // after")["returned"]
        assert after["entities"] == before["entities"]
        assert before["relations"][0] in after["relations"]


def test_server_memory_adds_and_deletes_observations_by_their_own_tools_and_undoes_them(home: Path) -> None:
    store = home / "memory.jsonl"
    env = f"[connectors.memory.env]\nMEMORY_FILE_PATH = {json.dumps(str(store))}\n"
    ada = '{name: "Ada", entityType: "person", observations: ["writes programs", "is a countess"]}'
    held = 'return (await memory.entity.get("Ada")).observations'
    change = """
        const ada = await memory.entity.get("Ada");
        ada.observations.push("likes horses", "plays the harp");
        ada.observations.splice(ada.observations.indexOf("is a countess"), 1);
    """
    with connected(home, "memory", npm("server-memory"), env=env) as stack:
        applied(stack.run(f"await memory.create_entities({{entities: [{ada}]}});"))
        delta = applied(stack.run(change))
        assert delta["calls"] == 2
        assert delta["read_back"] == {"verified": 2, "differs": 0, "unverifiable": 0}
        assert delta["undo"] == {"possible": 2, "of": 2}
        shown = stack.cli("journal", delta["id"]).stdout
        assert "memory.add_observations" in shown
        assert "memory.delete_observations" in shown
        assert stack.run(held)["returned"] == ["writes programs", "likes horses", "plays the harp"]
        assert stack.undo(delta["id"])["exit"] == 0
        assert sorted(stack.run(f"{held} // after")["returned"]) == ["is a countess", "writes programs"]


def test_server_filesystem_edits_two_files_and_restores_them_from_what_was_read_before(home: Path) -> None:
    shelf = home / "shelf"
    shelf.mkdir()
    (shelf / "a.txt").write_text("one\ntwo\nthree\n")
    (shelf / "b.txt").write_text("red\ngreen\n")
    a, b = json.dumps(str(shelf / "a.txt")), json.dumps(str(shelf / "b.txt"))
    code = f"""
        await shelf.edit_file({{path: {a}, edits: [{{oldText: "two", newText: "2"}}]}});
        await shelf.edit_file({{path: {b}, edits: [{{oldText: "red", newText: "RED"}}]}});
    """
    with connected(home, "shelf", npm("server-filesystem", str(shelf))) as stack:
        delta = applied(stack.run(code))
        assert (shelf / "a.txt").read_text() == "one\n2\nthree\n"
        assert (shelf / "b.txt").read_text() == "RED\ngreen\n"
        assert delta["undo"] == {"possible": 2, "of": 2}
        assert delta["read_back"]["differs"] == 0
        assert stack.undo(delta["id"])["exit"] == 0
        assert (shelf / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert (shelf / "b.txt").read_text() == "red\ngreen\n"


def test_server_filesystem_says_before_that_a_created_file_cannot_be_undone(home: Path) -> None:
    shelf = home / "shelf"
    shelf.mkdir()
    new = shelf / "new.txt"
    code = f'await shelf.write_file({{path: {json.dumps(str(new))}, content: "hello\\n"}});'
    with connected(home, "shelf", npm("server-filesystem", str(shelf))) as stack:
        planned = stack.run(code, "--dry-run")
        assert planned["delta"]["undo"] == {"possible": 0, "of": 1}
        assert not new.exists()
        waiting = stack.run(code)
        assert (waiting["exit"], waiting["delta"]["state"]) == (4, "waiting"), (
            "what cannot be undone waits for a person"
        )
        assert not new.exists()


def test_server_everything_answers_with_structured_content_progress_and_pictures(home: Path) -> None:
    with connected(home, "everything", npm("server-everything", "stdio"), 'trust = "annotations"') as stack:
        answer = stack.run('return await everything.echo({message: "heard"})')
        assert answer["exit"] == 0, answer
        assert "heard" in json.dumps(answer["returned"])
        picture = stack.run("return await everything.get_tiny_image({})")
        assert picture["exit"] == 0, picture
        assert len(json.dumps(picture["returned"])) < 2_000, "a picture comes as a handle, not as text"


def test_mcp_server_git_stages_a_file_and_reads_the_log(home: Path) -> None:
    repository = home / "repository"
    repository.mkdir()
    identity = ["-c", "user.name=proof", "-c", "user.email=proof@example.invalid"]
    (repository / "a.txt").write_text("one\n")
    for line in (["init", "-q"], ["add", "a.txt"], [*identity, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *line], cwd=repository, check=True)
    (repository / "b.txt").write_text("two\n")
    path = json.dumps(str(repository))
    with connected(home, "git", pypi("mcp_server_git", "--repository", str(repository))) as stack:
        log = stack.run(f"return await git.git_log({{repo_path: {path}, max_count: 1}})")
        assert "Begin" in json.dumps(log["returned"]), log
        planned = stack.run(f'await git.git_add({{repo_path: {path}, files: ["b.txt"]}})')
        assert (planned["exit"], planned["delta"]["state"]) == (4, "waiting"), planned
        staged = subprocess.run(
            ["git", "diff", "--cached", "--name-only"], cwd=repository, capture_output=True, check=True
        )
        assert staged.stdout == b"", "nothing is staged before a person approves"


def test_mcp_server_time_reads_at_once_and_plans_nothing(home: Path) -> None:
    with connected(home, "time", pypi("mcp_server_time", "--local-timezone", "Europe/Oslo")) as stack:
        code = 'return await time.convert_time({source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo"})'
        answer = stack.run(code)
        assert answer["exit"] == 0, answer
        assert "21:00" in json.dumps(answer["returned"])
        assert "delta" not in answer
