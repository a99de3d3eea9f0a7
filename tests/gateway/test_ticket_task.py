"""The main job, end to end: every actor, real links, a real connector process."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from delta_protocol.config import StackConfig
from tests.gateway.house import TICKET_PROGRAM, House, open_house, tickets


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, StackConfig(connectors={"tickets": tickets(tmp_path)})) as house:
        yield house


READ = 'return await tickets.get_ticket({id: "T-1"});'


async def ticket(client: Any) -> dict[str, Any]:
    answer = await client.call("delta", code=READ)
    assert not answer.is_error, answer.text
    found: dict[str, Any] = answer.structured["returned"]
    return found


async def test_the_ticket_task_is_done_with_two_calls_and_read_back(house: House) -> None:
    async with house.client() as client:
        before = await ticket(client)
        answer = await client.call("delta", code=TICKET_PROGRAM)
        assert not answer.is_error, answer.text
        lines = answer.text.splitlines()
        assert lines[0] == "Returned: Login broken"
        assert re.fullmatch(r"Applied d_[a-z2-7]{12} · 2 calls · [0-9.]+ m?s · read back ✓", lines[1]), answer.text
        assert answer.structured["returned"] == "Login broken"
        delta = answer.structured["delta"]
        assert delta["state"] == "applied"
        assert delta["calls"] == 2
        assert delta["read_back"] == {"verified": 2, "differs": 0, "unverifiable": 0}
        assert delta["undo"] == {"possible": 2, "of": 2}
        after = await ticket(client)
        assert after["status"] == "closed"
        assert after["labels"] == [*before["labels"], "late"]
        assert [comment["body"] for comment in after["comments"]][-1] == "Closed: fixed in 2.3"


async def test_undo_brings_the_ticket_back_as_it_was(house: House) -> None:
    async with house.client() as client:
        before = await ticket(client)
        delta = (await client.call("delta", code=TICKET_PROGRAM)).structured["delta"]["id"]
        answer = await client.call("delta_apply", undo=delta)
        assert not answer.is_error, answer.text
        assert f"Undone {delta} by d_" in answer.text
        assert await ticket(client) == before
        looked = await client.call("delta_read", refs=[f"delta:{delta}"])
        assert "Undone" in looked.text
        assert "Returned: Login broken" in looked.text


async def test_a_dry_run_changes_nothing_and_can_be_made_later(house: House) -> None:
    async with house.client() as client:
        before = await ticket(client)
        planned = await client.call("delta", code=TICKET_PROGRAM, dryRun=True)
        assert not planned.is_error
        assert planned.structured["delta"]["state"] == "waiting"
        assert "open → closed" in planned.text
        assert await ticket(client) == before
        made = await client.call("delta_apply", delta=planned.structured["delta"]["id"])
        assert made.structured["delta"]["state"] == "applied", made.text
        assert (await ticket(client))["status"] == "closed"


async def test_the_same_program_again_gives_the_first_answer(house: House) -> None:
    async with house.client() as client:
        first = await client.call("delta", code=TICKET_PROGRAM)
        again = await client.call("delta", code=TICKET_PROGRAM)
        assert again.structured["delta"]["id"] == first.structured["delta"]["id"]
        assert "Same program as" in again.text
        assert len((await ticket(client))["comments"]) == 3
        forced = await client.call("delta", code=TICKET_PROGRAM, again=True)
        assert forced.structured["delta"]["id"] != first.structured["delta"]["id"]


async def test_a_program_that_throws_changes_nothing_and_says_where(house: House) -> None:
    async with house.client() as client:
        before = await ticket(client)
        code = 'const t = await tickets.ticket.get("T-1");\nt.status = "closed";\nthrow new RangeError("no");'
        answer = await client.call("delta", code=code)
        assert answer.is_error
        assert "RangeError: no" in answer.text
        assert "line 3" in answer.text
        assert answer.structured["error"]["line"] == 3
        assert await ticket(client) == before


# acceptance 82
async def test_a_failing_read_can_be_caught_in_the_program(house: House) -> None:
    async with house.client() as client:
        code = 'try { await tickets.ticket.get("T-99"); return "there"; } catch (e) { return String(e.message); }'
        answer = await client.call("delta", code=code)
        assert not answer.is_error
        assert "T-99" in answer.structured["returned"]
        uncaught = await client.call("delta", code='\n  await tickets.ticket.get("T-99");')
        assert uncaught.is_error
        assert "T-99" in uncaught.text
        assert "line 2" in uncaught.text


async def test_a_created_ticket_is_named_in_the_answer_and_undone_by_deletion(house: House) -> None:
    async with house.client() as client:
        code = 'const n = await tickets.ticket.create({title: "Follow-up"}); return n.id;'
        answer = await client.call("delta", code=code)
        assert not answer.is_error, answer.text
        created = answer.structured["returned"]
        assert re.fullmatch(r"T-[0-9]+", created)
        await client.call("delta_apply", undo=answer.structured["delta"]["id"])
        gone = await client.call("delta", code=f'return await tickets.get_ticket({{id: "{created}"}});')
        assert gone.is_error


async def test_the_journal_lists_what_was_done_newest_first(house: House) -> None:
    async with house.client() as client:
        done = (await client.call("delta", code=TICKET_PROGRAM)).structured["delta"]["id"]
        undone = (await client.call("delta_apply", undo=done)).structured["delta"]["id"]
        text = (await client.call("delta_read", refs=["journal"])).text
        assert text.index(undone) < text.index(done)


async def test_a_mode_that_asks_waits_for_a_person(tmp_path: Path) -> None:
    config = StackConfig(connectors={"tickets": tickets(tmp_path, reviewed=False)})
    async with open_house(tmp_path, config) as house, house.client() as client:
        answer = await client.call("delta", code=TICKET_PROGRAM)
        assert not answer.is_error
        assert answer.structured["delta"]["state"] == "waiting"
        delta = answer.structured["delta"]["id"]
        refused = await client.call("delta_apply", delta=delta)
        assert refused.structured.get("delta", {}).get("state") != "applied"
        assert (await ticket(client))["status"] == "open"
