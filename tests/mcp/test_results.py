"""Long results are cut to a budget and read on page by page, with nothing lost (CS-04, W14 to W19)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_actors.mcp import DeltaServer, RequestContext, ResultPolicy
from delta_actors.mcp.result_policy import READ, StoredResults
from delta_protocol.errors import Invalid, NotFound
from delta_protocol.mcp.rate_limits import rate_limit
from delta_protocol.mcp.result_pages import MIN_TOKENS, Measure, needs_pages, page_of
from delta_protocol.tokens import estimate
from tests.mcp.samples import modern, served

BUDGET = 300
LINES = "\n".join(f'line {number} says "hello" to 世界' for number in range(400))


@dataclass
class Report:
    rows: list[str]


def reporter(ran: list[str], policy: ResultPolicy | None = None) -> DeltaServer:
    server = DeltaServer("r", "1", results=policy or ResultPolicy(max_tokens=BUDGET, page_size=20))

    @server.tool()
    def text() -> str:
        ran.append("text")
        return LINES

    @server.tool()
    def rows(page: int = 1) -> list[dict[str, Any]]:
        ran.append(f"rows {page}")
        return [{"id": 100 * (page - 1) + row, "name": f"row {row}"} for row in range(100)]

    @server.tool()
    def mixed() -> dict[str, Any]:
        return {"huge": LINES, "small": 1, "list": list(range(200)), "_note": "mine"}

    @server.tool()
    def wide() -> list[str]:
        return ["short", LINES]

    @server.tool()
    def report() -> Report:
        return Report(LINES.splitlines())

    @server.tool()
    def fail(kind: str) -> str:
        if kind == "limit":
            request = httpx.Request("GET", "https://a.test")
            response = httpx.Response(429, headers={"Retry-After": "60"}, request=request)
            raise httpx.HTTPStatusError("slow down", request=request, response=response)
        raise ValueError(LINES)

    @server.tool()
    async def short(context: RequestContext) -> list[int]:
        return [1, 2, 3]

    return server


class Caller:
    def __init__(self, peer: Any) -> None:
        self._peer = peer

    async def result(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self._peer.ask(modern(1, "tools/call", name=tool, arguments=arguments))
        result: dict[str, Any] = answer["result"]
        return result

    async def blocks(self, tool: str, /, **arguments: Any) -> list[str]:
        blocks = [block["text"] for block in (await self.result(tool, **arguments))["content"]]
        assert sum(estimate(block) for block in blocks) <= BUDGET
        return blocks


async def test_a_short_result_stays_as_it_is() -> None:
    async with served(reporter([])) as peer:
        result = await Caller(peer).result("short")
        assert (result["content"][0]["text"], result["structuredContent"]) == ("[1,2,3]", {"result": [1, 2, 3]})


async def test_a_long_text_is_shown_raw_and_read_to_its_end_from_one_run() -> None:
    ran: list[str] = []
    async with served(reporter(ran)) as peer:
        caller = Caller(peer)
        first, told = await caller.blocks("text")
        about = json.loads(told)
        assert about["totalChars"] == len(LINES)
        assert f"{READ} with result={about['result']}, page=2 reads on" in about["note"]
        parts = [first]
        for page in range(2, about["totalPages"] + 1):
            shown, told = await caller.blocks(READ, result=about["result"], page=page)
            parts.append(shown)
        assert "".join(parts) == LINES
        assert "reads on" not in json.loads(told)["note"]
        assert ran == ["text"]


async def test_a_tools_own_page_argument_is_its_own() -> None:
    """W15."""
    ran: list[str] = []
    async with served(reporter(ran)) as peer:
        caller = Caller(peer)
        (told,) = await caller.blocks("rows", page=2)
        about = json.loads(told)
        seen = about["items"]
        assert about["totalItems"] == 100
        for page in range(2, about["totalPages"] + 1):
            (told,) = await caller.blocks(READ, result=about["result"], page=page)
            seen += json.loads(told)["items"]
        assert [row["id"] for row in seen] == list(range(100, 200))
        assert ran == ["rows 2"]
        (told,) = await caller.blocks(READ, result=about["result"], page=999)
        last = json.loads(told)
        assert (last["page"], last["hasMore"]) == (last["totalPages"], False)


async def test_an_object_shows_every_key_and_each_part_can_be_read() -> None:
    async with served(reporter([])) as peer:
        caller = Caller(peer)
        (told,) = await caller.blocks("mixed")
        about = json.loads(told)
        assert (about["_summarized"], about["_totalKeys"]) == (True, 4)
        assert about["_keys"]["small"] == 1
        assert about["_keys"]["list"] == "[Array(200)]"
        assert about["_keys"]["_note"] == "mine"
        assert await caller.blocks(READ, result=about["result"], path=["small"]) == ["1"]
        (part,) = await caller.blocks(READ, result=about["result"], path=["list"], page=2)
        assert json.loads(part)["items"][0] == 20
        shown, _ = await caller.blocks(READ, result=about["result"], path=["huge"])
        assert LINES.startswith(shown)


async def test_an_item_over_the_budget_says_where_it_is() -> None:
    """W16."""
    async with served(reporter([])) as peer:
        caller = Caller(peer)
        (told,) = await caller.blocks("wide")
        about = json.loads(told)
        assert about["items"][0] == "short"
        shown, _ = await caller.blocks(READ, result=about["result"], path=about["items"][1]["path"])
        assert LINES.startswith(shown)


async def test_structured_content_stays_whole_where_a_schema_is_declared() -> None:
    async with served(reporter([])) as peer:
        result = await Caller(peer).result("report")
        assert result["structuredContent"] == {"rows": LINES.splitlines()}
        assert "structuredContent" not in await Caller(peer).result("rows")


async def test_a_rate_limit_is_a_result_and_a_long_error_is_cut() -> None:
    """CS-04-10."""
    async with served(reporter([])) as peer:
        caller = Caller(peer)
        result = await caller.result("fail", kind="limit")
        told = json.loads(result["content"][0]["text"])
        assert told == {
            "type": "rate_limited",
            "retryAfterSeconds": 60,
            "upstream": "fail",
            "message": "slow down",
        }
        result = await caller.result("fail", kind="long")
        assert result["isError"] is True
        assert len(result["content"]) == 2
        assert "expired" in (await caller.result(READ, result="r_0"))["content"][0]["text"]


async def test_the_reading_tools_name_is_taken_only_with_a_policy() -> None:
    with pytest.raises(ValueError, match="already"):
        reporter([]).tool(name=READ)(lambda: None)
    DeltaServer("s", "1").tool(name=READ)(lambda: None)


def test_what_is_kept_is_bounded_and_each_principals_own() -> None:
    stored = StoredResults(ResultPolicy(kept=2, kept_bytes=10, principals=2))
    first, second, third = stored.save("a", b"1234"), stored.save("a", b"5678"), stored.save("a", b"9")
    assert first is not None
    assert second is not None
    assert third is not None
    assert stored.load("a", second) == b"5678"
    for principal, handle in (("a", first), ("b", second)):
        with pytest.raises(NotFound):
            stored.load(principal, handle)
    assert stored.save("a", b"x" * 11) is None
    stored.save("b", b"1")
    stored.save("c", b"1")
    with pytest.raises(NotFound):
        stored.load("a", third)


def test_old_results_are_gone() -> None:
    stored = StoredResults(ResultPolicy(kept_seconds=-1))
    handle = stored.save("a", b"1")
    assert handle is not None
    with pytest.raises(NotFound):
        stored.load("a", handle)


def test_bounds_that_are_none_are_refused() -> None:
    for policy in (ResultPolicy(max_tokens=MIN_TOKENS - 1), ResultPolicy(page_size=0)):
        with pytest.raises(Invalid):
            DeltaServer("s", "1", results=policy)


MEASURE = Measure(MIN_TOKENS, 7)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=3000))
def test_the_pages_of_a_text_are_the_text(text: str) -> None:
    if not needs_pages(text, MEASURE):
        return
    first = page_of(text, (), 1, MEASURE)
    pages = [page_of(text, (), number, MEASURE) for number in range(1, first.told["totalPages"] + 1)]
    assert "".join(page.text or "" for page in pages) == text
    assert all(estimate(page.text or "") <= MEASURE.max_tokens for page in pages)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers() | st.text(max_size=20), max_size=60))
def test_the_pages_of_an_array_are_the_array(items: list[Any]) -> None:
    first = page_of(items, (), 1, MEASURE)
    pages = [page_of(items, (), number, MEASURE).told for number in range(1, first.told["totalPages"] + 1)]
    assert [item for page in pages for item in page["items"]] == items
    assert all(page["pageSize"] <= 7 for page in pages)


NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("raised", "seconds"),
    [
        ({"status": 429, "headers": {"retry-after": "60"}}, 60),
        ({"status": 429, "headers": {"Retry-After": "Fri, 15 Jan 2027 08:01:40 GMT"}}, 100),
        ({"status": 429, "headers": {"Retry-After": "Fri, 15 Jan 2021 08:01:40 GMT"}}, 0),
        ({"status": 429, "headers": {"Retry-After": "soon"}}, 30),
        ({"status": 429, "headers": {"Retry-After": "-5"}}, 30),
        ({"status": "429"}, 30),
        ({"statusCode": 429, "retryAfter": 7}, 7),
        ({"code": 429, "retry_after": 1.2}, 2),
        ({"response": SimpleNamespace(status_code=429, headers={"RETRY-AFTER": "0"})}, 0),
        ({"response": SimpleNamespace(status=429, headers=None)}, 30),
        ({"status": 503}, None),
        ({}, None),
    ],
)
def test_a_rate_limit_is_found_where_libraries_put_it(raised: dict[str, Any], seconds: int | None) -> None:
    """CS-04-09 to 12."""
    error = Exception("wait")
    for name, value in raised.items():
        setattr(error, name, value)
    found = rate_limit(error, "tool", NOW)
    assert (None if found is None else found.retry_after_seconds) == seconds
