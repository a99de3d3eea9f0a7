"""`delta_read` with references, against real actors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delta_protocol.config import LimitsConfig, StackConfig
from delta_protocol.tokens import estimate
from tests.gateway.house import House, open_house, tickets


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    config = StackConfig(connectors={"tickets": tickets(tmp_path)}, limits=LimitsConfig(answer_tokens=600))
    async with open_house(tmp_path, config) as house:
        yield house


async def test_connectors_tools_and_collections_are_looked_up_by_name(house: House) -> None:
    async with house.client() as client:
        assert "get_ticket" in (await client.call("delta_read", refs=["tickets"])).text
        assert "add_comment!" in (await client.call("delta_read", refs=[""])).text
        assert "key: id" in (await client.call("delta_read", refs=["tickets.ticket"])).text
        assert "ticket_id: string" in (await client.call("delta_read", refs=["tickets.add_comment"])).text
        assert "tickets.add_comment" in (await client.call("delta_read", refs=["search:comment"])).text
        assert "tickets: ready" in (await client.call("delta_read", refs=["services"])).text
        assert "Promise.all" in (await client.call("delta_read", refs=["guide"])).text


async def test_one_bad_reference_fails_alone_and_names_the_nearest(house: House) -> None:
    async with house.client() as client:
        await client.call("delta_read", refs=["tickets"])
        answer = await client.call("delta_read", refs=["tickets.get_tickt", "services", "ticket", "result:../x"])
        assert not answer.is_error
        assert [set(entry) - {"ref"} for entry in answer.structured["answers"]] == [
            {"error"},
            {"value"},
            {"error"},
            {"error"},
        ]
        assert "tickets.get_ticket" in answer.structured["answers"][0]["error"]
        assert "nearest: tickets" in answer.structured["answers"][2]["error"]
        assert (await client.call("delta_read", refs=["nobody"])).is_error


# acceptance 24
async def test_arguments_given_as_json_text_are_taken(house: House) -> None:
    async with house.client() as client:
        assert "add_comment" in (await client.call("delta_read", refs='["tickets.add_comment"]')).text
        assert "tickets: ready" in (await client.call("delta_read", refs="services")).text


# acceptance 6
async def test_a_long_value_is_cut_and_read_on_to_its_end(house: House) -> None:
    async with house.client() as client:
        code = "return Array.from({length: 400}, (_, i) => ({number: i, text: 'row ' + i}));"
        answer = await client.call("delta", code=code)
        assert estimate(answer.text) <= 600
        rows, more = answer.structured["returned"][:-1], answer.structured["returned"][-1]
        while len(rows) < 400:
            ref = more[more.index("result:") :]
            page = await client.call("delta_read", refs=[ref])
            assert estimate(page.text) <= 600
            part = page.structured["answers"][0]["value"]
            more = part.pop() if isinstance(part[-1], str) else ""
            rows += part
        assert rows == [{"number": number, "text": f"row {number}"} for number in range(400)]


# acceptance 25
async def test_large_integers_reach_the_model_as_text(house: House) -> None:
    async with house.client() as client:
        answer = await client.call("delta", code="return {id: 1917043659912705296n};")
        assert answer.structured["returned"] == {"id": "1917043659912705296"}
        assert '"1917043659912705296"' in answer.text


async def test_another_session_sees_its_own_results_only_as_the_same_principal(house: House) -> None:
    async with house.client() as client:
        cut = (await client.call("delta", code="return 'x '.repeat(5000);")).structured["result"]
    async with house.client() as other:
        assert not (await other.call("delta_read", refs=[f"result:{cut}[0:10]"])).is_error
        missing = await other.call("delta_read", refs=["result:r_aaaaaaaaaaaa"])
        assert missing.is_error


async def test_wrong_arguments_are_named_with_the_signature(house: House) -> None:
    async with house.client() as client:
        for arguments, words in (
            ({}, "code"),
            ({"cod": "1"}, "did you mean code?"),
            ({"code": 5}, "code"),
            ({"code": "  "}, "empty"),
        ):
            answer = await client.call("delta", **arguments)
            assert answer.is_error
            assert words in answer.text
            assert "delta { code: string" in answer.text


async def test_what_there_is_is_said_once_and_said_even_when_no_name_is_near(house: House) -> None:
    async with house.client() as client:
        await client.call("delta", code="const t = await tickets.ticket.get('T-1');\nt.status = 'closed';")
        unknown = (await client.call("delta_read", refs=["delta:d_aaaaaaaaaaaa"])).text
        for shown in unknown.split("; ")[1].removeprefix("there is ").split(", "):
            assert unknown.count(shown) == 1
        assert "there is: tickets" in (await client.call("delta_read", refs=["nonsense"])).text


async def test_a_failed_program_is_called_that_and_not_refused(house: House) -> None:
    async with house.client() as client:
        await client.call("delta", code="const a = 1;\nthrow new Error('no such luck');")
        listed = (await client.call("delta_read", refs=["journal"])).text
        assert "program failed" in listed
        assert "refused" not in listed
        shown = (await client.call("delta_read", refs=[f"delta:{listed.split(' ')[0]}"])).text
        assert shown.startswith("Program failed d_")
        assert "nothing was changed · Error: no such luck (line 2)" in shown


@pytest.mark.parametrize("change", ["t.nope = 1;", "await tickets.update_ticket({id: 'T-1', nope: 1});"])
async def test_a_change_that_no_tool_makes_fails_as_any_program_does(house: House, change: str) -> None:
    async with house.client() as client:
        answer = await client.call("delta", code=f"const t = await tickets.ticket.get('T-1');\n{change}")
        assert answer.is_error
        assert "at line 2" in answer.text
        assert f"2 | {change}" in answer.text
        assert answer.text.count("line 2") == 1
        assert "Nothing was changed." in answer.text
