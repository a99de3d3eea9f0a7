"""Names and values as odd as the field's go through programs, plans and undo as they are."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from delta_actors.mcp import HttpParameters, open_http
from delta_protocol.config import ConnectorConfig, StackConfig
from delta_protocol.tokens import estimate
from tests.gateway.counting import tokens
from tests.gateway.house import House, open_house

ODD = Path(__file__).parent / "connectors" / "odd.py"
BIG, OWNER = 1917043659912705296, 9007199254740993


class Odd:
    """A house with the connector `odd`, and what reached it."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self._folder = folder

    def records(self) -> list[dict[str, Any]]:
        return list(json.loads((self._folder / "records.json").read_text()))

    def requests(self, tool: str) -> list[str]:
        """The lines of the calls of one tool, as they came."""
        lines = (self._folder / "requests").read_text().splitlines()
        return [line for line in lines if json.loads(line).get("params", {}).get("name") == tool]


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Odd]:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "records.json").write_text(json.dumps([{"id": BIG, "owner": OWNER, "body": PAGE}]))
    config = ConnectorConfig(
        command=sys.executable, args=("-I", "-S", str(ODD), str(folder)), reviewed=True, expose="tools"
    )
    async with open_house(tmp_path, StackConfig(connectors={"odd": config})) as house:
        yield Odd(house, folder)


PAGE = "".join(f"<tr><td>größe {number}</td><td>\t“{number * 7}”</td></tr>\r\n" for number in range(6_500))


# acceptance 22
async def test_a_tool_can_be_called_by_the_name_that_its_connector_gave_it(odd: Odd) -> None:
    names = ["a-b", "a_b", "a.b", "3d", "export"]
    async with odd.house.client() as client:
        code = f"return Promise.all({json.dumps(names)}.map(async (name) => (await odd[name]({{}})).called));"
        assert (await client.call("delta", code=code)).structured["returned"] == names
        code = "return [(await odd.a_b({})).called, (await odd.a_b_2({})).called, (await odd.export_({})).called];"
        assert (await client.call("delta", code=code)).structured["returned"] == ["a_b", "a-b", "export"]
    async with open_http(HttpParameters(odd.house.url)) as other:
        api = json.loads((await other.list_tools())[0])["inputSchema"]["properties"]["code"]["description"]
        assert 'renamed: a_b_2 = "a-b", a_b_3 = "a.b", _3d = "3d", export_ = "export"' in api


# acceptance 25
async def test_a_64_bit_number_is_exact_from_the_connector_to_the_undo(odd: Odd) -> None:
    async with odd.house.client() as client:
        code = f"const r = await odd.record.get({BIG}n); r.owner += 2n; return [r.id, JSON.stringify({{o: r.owner}})];"
        done = await client.call("delta", code=code)
        assert not done.is_error, done.text
        assert done.structured["returned"] == [str(BIG), f'{{"o":"{OWNER + 2}"}}']
        assert [(each["id"], each["owner"]) for each in odd.records()] == [(BIG, OWNER + 2)]
        undone = await client.call("delta_apply", undo=done.structured["delta"]["id"])
        assert not undone.is_error, undone.text
    assert [(each["id"], each["owner"]) for each in odd.records()] == [(BIG, OWNER)]
    first, second = odd.requests("update_record")
    assert f'"owner":{OWNER + 2}' in first.replace(" ", "")
    assert f'"owner":{OWNER}' in second.replace(" ", "")


# acceptance 26
async def test_a_result_outside_its_own_schema_is_the_result_all_the_same(odd: Odd) -> None:
    async with odd.house.client() as client:
        answer = await client.call("delta", code="return (await odd.get_state({})).state;")
        assert answer.structured["returned"] == "lost"
        assert (await client.call("get_state")).structured == {"state": "lost"}
    assert len(odd.requests("get_state")) == 2


# acceptance 27
async def test_an_error_of_a_tool_keeps_its_mark_and_whatever_it_says_of_itself(odd: Odd) -> None:
    async with odd.house.client() as client:
        await client.call("delta_read", refs=["odd"])
        refused = await client.call("get_refused")
        assert refused.is_error
        assert refused.raw["_meta"] == {"odd.example/quota": BIG}
        assert refused.raw["content"][0]["_meta"] == {"odd.example/block": 1}
        code = "try { await odd.get_refused({}); } catch (e) { return [e.name, e.message]; }"
        assert "the quota is used up" in str((await client.call("delta", code=code)).structured["returned"])


# acceptance 7
async def test_a_long_page_is_changed_without_passing_through_the_model(odd: Odd) -> None:
    assert len(PAGE.encode()) > 300_000
    async with odd.house.client() as client:
        code = f'const r = await odd.record.get({BIG}n); r.body = r.body.replace("“42”", "“43”");'
        done = await client.call("delta", code=code)
        assert not done.is_error, done.text
        assert tokens(done.text) + tokens(json.dumps(done.structured)) + tokens(code) < 600
    assert odd.records()[0]["body"] == PAGE.replace("“42”", "“43”")


# acceptance 6
@pytest.mark.parametrize(
    ("code", "whole"),
    [
        ("return (await odd.get_text({length: 2_000_000})).length;", 2_000_000),
        ("return (await odd.get_rows({count: 50_000})).rows.length;", 50_000),
    ],
    ids=["text", "rows"],
)
async def test_a_program_reads_what_no_answer_could_hold(odd: Odd, code: str, whole: int) -> None:
    async with odd.house.client() as client:
        answer = await client.call("delta", code=code)
        assert answer.structured["returned"] == whole, answer.text


# acceptance 6
async def test_an_answer_far_over_the_budget_is_kept_and_every_character_can_be_read(odd: Odd) -> None:
    async with odd.house.client() as client:
        answer = await client.call("delta", code="return await odd.get_text({length: 800_000});")
        assert estimate(answer.text) <= 8_000
        kept, step = answer.structured["result"], 200_000
        parts = [f"result:{kept}[{at}:{at + step}]" for at in range(0, 800_000, step)]
        for part in parts:
            assert estimate((await client.call("delta_read", refs=[part])).text) <= 8_000
        text = ("é" + "x" * 99) * 8_000
        for at in (0, 399_950, 799_900):
            shown = await client.call("delta_read", refs=[f"result:{kept}[{at}:{at + 100}]"])
            assert shown.structured["answers"][0]["value"] == text[at : at + 100]
