"""Connectors with `expose = "tools"`."""

from pathlib import Path

from delta_actors.gateway.passing import passed_tools
from delta_protocol.catalogue.model import Catalogue, Connector, ConnectorState, Effect, Mode, Tool
from delta_protocol.codecs import exact_json
from delta_protocol.config import StackConfig
from tests.gateway.house import open_house, tickets


def connector(name: str, *tools: str, expose: str = "tools") -> Connector:
    return Connector(
        name,
        ConnectorState.READY,
        Mode.SAFE,
        tuple(
            Tool(tool, tool, "", b"{}", Effect.WRITE, "", "", exact_json.encode({"name": tool, "x": 1}))
            for tool in tools
        ),
        expose=expose,
    )


# acceptance 3
def test_names_are_kept_where_they_are_free_and_fit_every_client() -> None:
    long = "t" * 120
    catalogue = Catalogue(
        1,
        (
            connector("a", "get", "both", "delta", long),
            connector("b", "both", "own", long),
            connector("c", "hidden", expose="program"),
        ),
    )
    passed = passed_tools(catalogue)
    assert list(passed)[:4] == ["get", "a_both", "a_delta", list(passed)[3]]
    assert list(passed)[4:6] == ["b_both", "own"]
    assert all(len(name) <= 64 for name in passed)
    assert {(one.connector, one.tool) for one in passed.values()} == {
        ("a", "get"),
        ("a", "both"),
        ("a", "delta"),
        ("a", long),
        ("b", "both"),
        ("b", "own"),
        ("b", long),
    }
    assert exact_json.decode(passed["a_both"].definition) == {"name": "a_both", "x": 1}
    assert passed_tools(catalogue) == passed


async def test_tools_are_listed_after_the_three_and_answer_as_the_connector_does(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path, expose="tools")})
    async with open_house(tmp_path, config) as house, house.client() as client:
        await client.tools()
        await client.heard("notifications/tools/list_changed")
        names = [tool["name"] for tool in await client.tools()]
        assert names[:4] == ["delta", "delta_read", "delta_apply", "get_ticket"]
        direct = await client.call("get_ticket", id="T-1")
        assert direct.structured["title"] == "Login broken"
        assert exact_json.decode(direct.text) == direct.structured
        await client.call("update_ticket", id="T-1", status="closed")
        assert (await client.call("get_ticket", id="T-1")).structured["status"] == "closed"
        missing = await client.call("get_ticket", id="T-99")
        assert missing.is_error
        assert missing.text == "there is no ticket T-99"
        unknown = await client.ask("tools/call", {"name": "nothing", "arguments": {}})
        assert unknown["error"]["code"] == -32602
