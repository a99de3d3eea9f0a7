"""A connector's questions travel up the call that caused them, or are refused at once (acceptance 51)."""

from __future__ import annotations

from pathlib import Path

from delta_protocol.codecs import exact_json
from delta_protocol.wire.message import Answer, Item, Origin, Question, Role
from delta_protocol.wire.registry import ReadTool
from tests.registry.systems import calls, catalogue_when, fake, from_, listed, registry, started

ABLE = Origin("conversation-1", "1", capabilities=("elicitation.form",))
OTHER = Origin("conversation-2", "1", capabilities=("elicitation.form",))
UNABLE = Origin("conversation-3", "1")
ASK = ReadTool("fake", "get_ask", b"{}")


async def answering(item: Item) -> Item | None:
    assert isinstance(item, Question)
    assert (item.connector, item.method) == ("fake", "elicitation/create")
    assert b"Which one?" in item.params
    return Answer(b'{"action":"accept","content":{"which":"this"}}')


async def declining(_: Item) -> Item | None:
    return Answer(error=exact_json.encode({"code": -1, "message": "the user is away"}))


async def test_a_question_is_answered_by_the_client_behind_the_call(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", session="conversation")}) as system:
        reply = await from_(system, Role.SANDBOX, ABLE).ask(ASK, listener=answering)
        assert b"this" in reply.result


async def test_the_clients_refusal_reaches_the_connector(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", session="conversation")}) as system:
        reply = await from_(system, Role.SANDBOX, ABLE).ask(ASK, listener=declining)
        assert b"the user is away" in reply.result


async def test_a_client_that_cannot_answer_gives_the_connector_an_error_at_once(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", session="conversation")}) as system:
        reply = await from_(system, Role.SANDBOX, UNABLE).ask(ASK, listener=answering)
        assert b"the client cannot answer this" in reply.result


async def test_a_session_shared_by_all_may_ask_nobody(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        reply = await from_(system, Role.SANDBOX, ABLE).ask(ASK, listener=answering)
        assert b"code" in reply.result
        assert b"this" not in reply.result


async def test_each_conversation_has_a_process_of_its_own(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", session="conversation")}) as system:
        for origin in (ABLE, OTHER, ABLE):
            await from_(system, Role.SANDBOX, origin).ask(ReadTool("fake", "get_pid", b"{}"))
        pids = [note for note in calls(tmp_path / "fake") if note.startswith("pid")]
        assert len(pids) == 3
        assert len(set(pids)) == 2


async def test_tools_for_clients_that_can_be_asked_are_listed_where_some_may_be(tmp_path: Path) -> None:
    connectors = {"each": fake(tmp_path / "each", session="conversation"), "all": fake(tmp_path / "all")}
    async with registry(tmp_path / "state", connectors) as system:
        catalogue = await catalogue_when(await started(system), listed("each", "all"))
        names = {one.name: [tool.name for tool in one.tools] for one in catalogue.connectors}
        assert "get_confirmed" in names["each"]
        assert "get_confirmed" not in names["all"]
