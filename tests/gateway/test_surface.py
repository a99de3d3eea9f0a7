"""What a client sees before it calls anything."""

from pathlib import Path

import trio

from delta_protocol.answers.definitions import GUIDE, INSTRUCTIONS, definitions
from delta_protocol.codecs import exact_json
from delta_protocol.config import ConnectorConfig, StackConfig
from tests.gateway.counting import tokens
from tests.gateway.house import open_house, tickets


def test_descriptions_instructions_and_guide_stay_short() -> None:  # acceptance 2, 4, 5
    tools = definitions("API")
    assert [tool.name for tool in tools] == ["delta", "delta_read", "delta_apply"]
    assert [tool.title for tool in tools] == ["Do it", "Read", "Apply or undo"]
    for tool in tools:
        assert tokens(tool.description or "") <= 90, tool.name
    assert len(INSTRUCTIONS) < 1000
    assert tokens(GUIDE) < 700


# acceptance 15
def test_schemas_are_plain_objects_and_annotations_honest() -> None:
    for tool in definitions("API"):
        schema = exact_json.decode(tool.input_schema)
        assert schema["type"] == "object"
        assert not {"oneOf", "anyOf", "allOf", "$ref"} & set(schema)
        hints = exact_json.decode(tool.annotations or b"{}")
        assert hints["readOnlyHint"] is (tool.name == "delta_read")
        assert hints.get("destructiveHint", False) is (tool.name != "delta_read")


async def test_a_conversation_keeps_what_it_was_shown_and_hears_once_what_changed(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house:
        async with house.client() as first:
            assert "starting" in str(await first.tools())
            await first.heard("notifications/tools/list_changed")
            known = await first.tools()
            assert "get_ticket" in str(known)
            await first.call("delta_read", refs=["guide"])
            assert await first.tools() == known
            assert "Since this conversation began" not in (await first.call("delta_read", refs=["guide"])).text
        async with house.client() as second:
            assert await second.tools() == known


async def test_who_was_shown_nothing_is_told_of_no_change(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        answer = await client.call("delta", code='return (await tickets.ticket.get("T-1")).title;')
        assert answer.structured["returned"] == "Login broken"
        assert "Since this conversation began" not in answer.text


# acceptance 10
async def test_the_list_is_equal_byte_for_byte_after_a_restart(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        await client.tools()
        await client.heard("notifications/tools/list_changed")
        known = await client.tools()
    async with open_house(tmp_path, config) as house, house.client() as client:
        assert await client.tools() == known


async def test_a_hanging_connector_keeps_nobody_waiting(tmp_path: Path) -> None:
    connectors = {"stuck": ConnectorConfig(command="sleep", args=("600",)), "tickets": tickets(tmp_path)}
    async with open_house(tmp_path, StackConfig(connectors=connectors)) as house, house.client() as client:
        with trio.fail_after(10):
            assert len(await client.tools()) == 3
            answer = await client.call("delta", code='return (await tickets.get_ticket({id: "T-1"})).title;')
        assert answer.structured["returned"] == "Login broken"
        assert "stuck" in (await client.call("delta_read", refs=["services"])).text
