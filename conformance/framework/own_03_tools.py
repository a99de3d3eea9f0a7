"""OWN-03: disclosure negotiated the standard way, and arguments that are checked."""

from __future__ import annotations

from typing import Any

from conformance.framework.checks import NotApplicable
from conformance.framework.target import Target
from conformance.framework.wire import Era, Peer, code_of, result_of, text_of

_PREFIX = "io.github.delta-supervisor"
_EXTENSION = f"{_PREFIX}/progressive-tools"


def own_03_01_the_extension_is_declared_among_the_capabilities(target: Target, era: Era) -> None:
    """The extension is declared under `extensions`, in the legacy era under `experimental` too, and the version that
    the handshake agrees on stays a date."""
    with target.fresh(era) as peer:
        declared = _declared(peer)
        if era == "legacy":
            assert peer.info["capabilities"]["experimental"][_EXTENSION] == declared
            assert peer.info["protocolVersion"] == "2025-11-25"


def own_03_02_the_index_has_no_schemas(target: Target, era: Era) -> None:
    """`tools/index` has each tool's name, short summary and digest, no schema; `tools/list` stays complete."""
    with target.fresh(era) as peer:
        _declared(peer)
        entries = result_of(peer.ask(f"{_PREFIX}.tools/index"))["tools"]
        listed = result_of(peer.ask("tools/list"))["tools"]
        assert [entry["name"] for entry in entries] == [tool["name"] for tool in listed]
        assert all("inputSchema" not in entry and len(entry["summary"]) <= 60 for entry in entries)
        assert all("inputSchema" in tool for tool in listed)
        assert all(entry["digest"] for entry in entries)


def own_03_03_many_are_described_at_once(target: Target, era: Era) -> None:
    """`tools/describe` gives several definitions as the list has them, names those that nobody has, and sends none
    whose digest still holds."""
    with target.fresh(era) as peer:
        _declared(peer)
        listed = {tool["name"]: tool for tool in result_of(peer.ask("tools/list"))["tools"]}
        names = list(listed)[:3]
        found = result_of(peer.ask(f"{_PREFIX}.tools/describe", names=[*names, "no_such_tool"]))
        assert {tool["name"]: tool["inputSchema"] for tool in found["tools"]} == {
            name: listed[name]["inputSchema"] for name in names
        }
        assert found["unknown"] == ["no_such_tool"]
        entries = result_of(peer.ask(f"{_PREFIX}.tools/index"))["tools"]
        digests = {entry["name"]: entry["digest"] for entry in entries}
        again = result_of(peer.ask(f"{_PREFIX}.tools/describe", names=names, digests=digests))
        assert (again["tools"], sorted(again["unchanged"])) == ([], sorted(names))
        assert code_of(peer.ask(f"{_PREFIX}.tools/describe", names=["no_such_tool"])) == -32602


def own_03_04_tools_are_found_by_words(target: Target, era: Era) -> None:
    """`tools/search` finds tools by the words of their names, descriptions and parameters."""
    target.need_tools("search", "list_dir")
    with target.fresh(era) as peer:
        _declared(peer)
        for query, name in (
            ("list folder", "list_dir"),
            ("read file", "read_file"),
            ("boolean phrases query", "search"),
        ):
            found = result_of(peer.ask(f"{_PREFIX}.tools/search", query=query, limit=3))["tools"]
            assert name in [entry["name"] for entry in found], query


def own_03_05_wrong_arguments_are_a_result(target: Target, era: Era) -> None:
    """Arguments that do not fit the schema are a result with `isError` that says what is wrong."""
    target.need_tools("read_file", "write_file")
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("read_file", {}, "path"),
        ("read_file", {"path": 5}, "path"),
        ("read_file", {"path": "a", "encoding": "latin"}, "encoding"),
        ("write_file", {"path": "a", "content": "x", "mod": 1}, "mod"),
    ]
    with target.fresh(era) as peer:
        if era == "legacy":
            peer.begin()
        for name, arguments, word in wrong:
            answer = peer.ask("tools/call", name=name, arguments=arguments)
            assert result_of(answer)["isError"] is True, arguments
            assert word in text_of(answer), arguments


def own_03_06_arguments_that_are_no_object_are_an_error(target: Target, era: Era) -> None:
    """Arguments that are no object at all, and a name that is no text, are -32602."""
    with target.fresh(era) as peer:
        if era == "legacy":
            peer.begin()
        assert code_of(peer.ask("tools/call", name="list_dir", arguments=[1])) == -32602
        if era == "legacy":
            assert code_of(peer.ask("tools/call", name=5, arguments={})) == -32602


def _declared(peer: Peer) -> dict[str, Any]:
    """Return what the server declares of the extension; not applicable where that is nothing."""
    info = peer.begin() if peer.era == "legacy" else peer.ask("server/discover")
    declared = result_of(info)["capabilities"].get("extensions", {}).get(_EXTENSION)
    if declared is None:
        raise NotApplicable("the server does not declare the extension")
    found: dict[str, Any] = declared
    return found
