"""Every wait ends: at the request's deadline, or when the caller takes its request back."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from tests.stack.harness import running
from tests.stack.probing import Probe
from tests.stack.wire import open_http, open_relay, text_of

QUICK = "version = 1\n[limits]\nrequest_deadline = 3.0\nsettle = 2.0\n"


def running_calls(probe: Probe) -> int:
    """Return how many calls the connector has begun and neither ended nor been told to drop."""
    return len(probe.events("call")) - len(probe.events("done")) - len(probe.events("cancelled"))


async def test_a_read_that_is_never_answered_ends_at_the_deadline(home: Path) -> None:
    probe = Probe(home / "probe")
    with running(home, QUICK + probe.config()) as stack:
        async with open_relay(stack) as client:
            began = time.monotonic()
            with trio.fail_after(30):
                answer = await client.call("delta_read", code="return await probe.never({})")
            assert time.monotonic() - began > 1
            assert "error" in answer or answer["result"]["isError"], answer
            assert "deadline" in text_of(answer).lower() or "time" in text_of(answer).lower()
            probe.wait(lambda p: running_calls(p) == 0)
            with trio.fail_after(30):
                assert "2" in text_of(await client.call("delta_read", code="return 2")), "the stack goes on serving"


async def test_a_write_that_is_never_answered_is_told_with_its_state_and_id(home: Path) -> None:
    probe = Probe(home / "probe")
    effects = '[connectors.probe.effects]\nnever_written = "write"\n'
    config = QUICK + probe.config(more='mode = "full"\n') + effects
    with running(home, config) as stack:
        async with open_relay(stack) as client:
            with trio.fail_after(30):
                answer = await client.call("delta", code="await probe.never_written({}); return 1")
        assert "d_" in text_of(answer), answer
        assert any(state in text_of(answer).lower() for state in ("unknown", "applying")), answer
        assert len(probe.events("call", "never_written")) == 1, "it was sent once and never again"


async def test_a_cancelled_read_reaches_the_connector(home: Path) -> None:
    probe = Probe(home / "probe")
    with running(home, "version = 1\n" + probe.config()) as stack:
        async with open_relay(stack) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: client.call("delta_read", code="return await probe.wait({seconds: 40})"))
                await trio.to_thread.run_sync(lambda: probe.wait(lambda p: bool(p.events("call", "wait"))))
                cut = time.monotonic()
                nursery.cancel_scope.cancel()
            await trio.to_thread.run_sync(lambda: probe.wait(lambda p: bool(p.events("cancelled", "wait"))))
    assert probe.events("cancelled", "wait")[0]["at"] - cut < 2


async def test_a_closed_stream_is_a_cancel_over_http(home: Path) -> None:
    probe = Probe(home / "probe")
    with running(home, "version = 1\n" + probe.config()) as stack:
        async with open_http(stack.url) as client, trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.call("delta_read", code="return await probe.wait({seconds: 40})"))
            await trio.to_thread.run_sync(lambda: probe.wait(lambda p: bool(p.events("call", "wait"))))
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(lambda: probe.wait(lambda p: bool(p.events("cancelled", "wait"))))


async def test_a_cancelled_program_without_calls_ends(home: Path) -> None:
    with running(home) as stack:
        async with open_relay(stack) as client:
            with trio.move_on_after(2):
                await client.call("delta", code="await sleep(50000); return 1")
            with trio.fail_after(20):
                assert "3" in text_of(await client.call("delta_read", code="return 3"))


async def test_a_write_in_flight_is_never_cut_and_a_cancelled_apply_is_taken_back(home: Path) -> None:
    probe = Probe(home / "probe")
    probe.put(a="before", b="before")
    code = 'for (const id of ["a", "b"]) { const i = await probe.item.get(id); i.value = "after"; }'
    with running(home, "version = 1\n" + probe.config("--write-seconds", "2")) as stack:
        async with open_relay(stack) as client:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: client.call("delta", code=code))
                await trio.to_thread.run_sync(lambda: probe.wait(lambda p: bool(p.events("call", "update_item"))))
                nursery.cancel_scope.cancel()
            await trio.to_thread.run_sync(lambda: probe.wait(lambda p: len(p.events("done", "update_item")) == 2))
    assert probe.events("cancelled", "update_item") == []
    written = [event["arguments"] for event in probe.events("done", "update_item")]
    assert [each["value"] for each in written] == ["after", "before"]
    assert written[0]["id"] == written[1]["id"], "the second was never begun, the first was taken back"
    assert probe.items() == {"a": "before", "b": "before"}
