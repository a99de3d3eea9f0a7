"""Legacy streams over HTTP that break, or are let go, and are taken up again by `Last-Event-ID` (spec 3.7)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from delta_actors.mcp import DeltaServer, RequestContext
from delta_actors.mcp import http_streams as streams
from delta_protocol.mcp.sse import Event, SseParser
from tests.mcp.samples import modern, request
from tests.mcp.web import Site, site


def patient_server(go_on: trio.Event) -> DeltaServer:
    server = DeltaServer("patient", "1")

    @server.tool()
    async def count(context: RequestContext) -> str:
        await context.progress(1)
        await go_on.wait()
        for number in range(2, 5):
            await context.progress(number)
        return "counted"

    @server.tool()
    async def leave(context: RequestContext) -> str:
        await context.progress(1)
        await context.close_stream()
        await go_on.wait()
        await context.progress(2)
        return "back"

    return server


async def begin(web: Site, version: str = "2025-11-25") -> dict[str, str]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t"}}
    answer = await web.post(request(0, "initialize", **params))
    return {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": version}


def call(tool: str) -> dict[str, Any]:
    return request(1, "tools/call", name=tool, _meta={"progressToken": "p"})


async def read(web: Site, message: dict[str, Any] | None, headers: dict[str, str], until: int | None = None) -> Any:
    """Return the events of a stream; with `until`, leave after so many."""
    parser, found = SseParser(), list[Event]()
    options: dict[str, Any] = {"json": message} if message else {}
    with trio.fail_after(30), trio.CancelScope() as scope:
        async with web.http.stream("POST" if message else "GET", web.url, headers=headers, **options) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for chunk in answer.aiter_bytes():
                found += parser.feed(chunk)
                if until is not None and len(found) >= until:
                    scope.cancel()
    return found


def told(events: list[Event]) -> list[Any]:
    """Return progress values, and the answer's text."""
    bodies = [json.loads(event.data) for event in events if event.data]
    return [body["params"]["progress"] if "params" in body else body["result"]["content"][0]["text"] for body in bodies]


async def test_a_stream_begins_with_an_event_to_come_back_to() -> None:
    go_on = trio.Event()
    go_on.set()
    async with site(patient_server(go_on)) as web:
        first, *rest = await read(web, call("count"), await begin(web))
        assert (first.data, first.retry) == (b"", streams.RETRY)
        assert told(rest) == [1, 2, 3, 4, "counted"]
        ids = [event.id for event in (first, *rest)]
        assert None not in ids
        assert len(set(ids)) == len(ids)


async def test_an_older_client_is_sent_no_empty_event() -> None:
    go_on = trio.Event()
    go_on.set()
    async with site(patient_server(go_on)) as web:
        events = await read(web, call("count"), await begin(web, "2025-06-18"))
        assert [event.id for event in events if not event.data] == [None]
        answer = await web.http.post(web.url, json=call("count"), headers=await begin(web, "2025-06-18"))
        assert "\ndata:\n" not in answer.text


async def test_a_broken_stream_goes_on_where_it_broke() -> None:
    go_on = trio.Event()
    async with site(patient_server(go_on)) as web:
        headers = await begin(web)
        seen = await read(web, call("count"), headers, until=2)
        assert told(seen) == [1]
        go_on.set()
        rest = await read(web, None, headers | {"last-event-id": seen[-1].id})
        assert told(rest) == [2, 3, 4, "counted"]
        again = await read(web, None, headers | {"last-event-id": rest[0].id})
        assert told(again) == [3, 4, "counted"]


async def test_a_client_that_was_let_go_gets_the_answer_when_it_comes_back() -> None:
    go_on = trio.Event()
    async with site(patient_server(go_on)) as web:
        headers = await begin(web)
        seen = await read(web, call("leave"), headers)
        assert told(seen) == [1]
        async with trio.open_nursery() as nursery:

            async def come_back() -> None:
                rest = await read(web, None, headers | {"last-event-id": seen[-1].id})
                assert told(rest) == [2, "back"]

            nursery.start_soon(come_back)
            await trio.sleep(0.05)
            go_on.set()


async def test_a_message_goes_over_one_connection_alone() -> None:
    go_on = trio.Event()
    async with site(patient_server(go_on)) as web:
        headers = await begin(web)
        first: list[Event] = []
        async with trio.open_nursery() as nursery:

            async def stay() -> None:
                first.extend(await read(web, call("count"), headers))

            nursery.start_soon(stay)
            seen = await read(web, call("leave") | {"id": 2}, headers, until=2)
            second: list[Event] = []

            async def take_over(last: str) -> None:
                second.extend(await read(web, None, headers | {"last-event-id": last}))

            nursery.start_soon(take_over, seen[-1].id)
            await trio.sleep(0.05)
            nursery.start_soon(take_over, seen[-1].id)
            await trio.sleep(0.05)
            go_on.set()
        assert told(first) == [1, 2, 3, 4, "counted"]
        assert told(second) == [2, "back"]


async def test_a_stream_belongs_to_its_session() -> None:
    go_on = trio.Event()
    go_on.set()
    async with site(patient_server(go_on)) as web:
        headers = await begin(web)
        events = await read(web, call("count"), headers)
        stranger, known = await begin(web), events[0].id or ""
        for own, last in ((stranger, known), (headers, "made-up.1"), (headers, f"{known}x"), (headers, "")):
            answer = await web.http.get(web.url, headers=own | {"last-event-id": last})
            assert answer.status_code == 400


async def test_letting_go_changes_nothing_in_the_modern_era() -> None:
    go_on = trio.Event()
    go_on.set()
    async with site(patient_server(go_on)) as web:
        answer = await web.modern(modern(1, "tools/call", {"progressToken": "p"}, name="leave"))
        assert answer.text.count("data: ") == 3
        assert "id: " not in answer.text


async def test_an_answer_is_kept_whole_and_older_events_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_STREAM", 1000)
    kept = streams.Streams()
    stream = kept.open("s")
    for number in range(100):
        stream.append(b'{"n":%d}' % number)
    stream.append(b'"' + b"x" * 5000 + b'"')
    stream.end()
    number, event = await stream.next_after(0, stream.attach()) or (0, b"")
    assert number == 101
    assert len(event) > 5000
    assert await stream.next_after(101, stream.attach()) is None


async def test_ended_streams_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_KEPT", 1000)
    kept = streams.Streams()
    names = []
    for _ in range(50):
        stream = kept.open("s")
        stream.append(b"x" * 100)
        stream.end()
        names.append(stream.name)
    found = [name for name in names if kept.find("s", f"{name}.0") is not None]
    assert found == names[-len(found) :]
    assert 3 <= len(found) <= 10
