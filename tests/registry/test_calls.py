"""Calls through the registry to real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from delta_protocol.catalogue.model import Effect
from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import Conflict, Invalid, NotFound, Refused, WriteNotPlanned
from delta_protocol.wire.message import Role
from delta_protocol.wire.registry import Outcome, PassTool, ReadTool, StartConnectors, WriteTool
from tests.registry.systems import calls, catalogue_when, fake, from_, listed, planned, registry, service_when, started


async def test_a_read_starts_its_connector_and_returns_the_tools_result(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        reply = await ref.ask(ReadTool("fake", "get_echo", b'{"text":"hello"}'))
        assert reply.outcome is Outcome.OK
        assert b"hello" in reply.result


async def test_fifty_first_calls_at_once_start_one_process(tmp_path: Path) -> None:  # acceptance 32, 42
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ref.ask, ReadTool("fake", "get_echo", b'{"text":"%d"}' % number))
        assert calls(tmp_path / "fake").count("list") == 1


async def test_the_tools_own_error_and_the_protocols_are_told_apart(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        failing = await ref.ask(ReadTool("fake", "get_failing", b"{}"))
        refused = await ref.ask(ReadTool("fake", "get_refused", b"{}"))
        assert (failing.outcome, failing.message) == (Outcome.TOOL_ERROR, "no such thing")
        assert refused.outcome is Outcome.REFUSED
        assert "not here" in refused.message


async def test_wrong_arguments_never_reach_the_connector(tmp_path: Path) -> None:  # acceptance 12
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        with pytest.raises(Invalid) as caught:
            await ref.ask(ReadTool("fake", "get_echo", b'{"txet":"x"}'))
        assert "did you mean text?" in caught.value.message
        assert "call get_echo" not in calls(tmp_path / "fake")


@pytest.mark.parametrize("role", [Role.SANDBOX, Role.TRANSPORT, Role.OPERATOR])
async def test_a_write_from_anybody_but_the_journal_is_refused(tmp_path: Path, role: Role) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = await started(system)
        catalogue = await catalogue_when(ref, listed("fake"))
        with pytest.raises(WriteNotPlanned):
            await from_(system, role).ask(planned(catalogue, "fake", "set_echo"))
        with pytest.raises(WriteNotPlanned):
            await from_(system, role).ask(ReadTool("fake", "set_echo", b"{}"))
        assert not [note for note in calls(tmp_path / "fake") if note.startswith("call")]


async def test_the_journals_planned_call_is_made_once(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        reply = await from_(system, Role.JOURNAL).ask(planned(catalogue, "fake", "set_echo", b'{"text":"new"}'))
        assert reply.outcome is Outcome.OK
        assert calls(tmp_path / "fake").count("call set_echo") == 1


async def test_a_call_without_intent_or_with_another_pin_is_refused(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        journal = from_(system, Role.JOURNAL)
        with pytest.raises(WriteNotPlanned):
            await journal.ask(WriteTool("fake", "set_echo", b"{}", "d_aaaaaaaaaaaa", "", "", "x"))
        message = planned(catalogue, "fake", "set_echo")
        with pytest.raises(Conflict):
            await journal.ask(WriteTool("fake", "set_echo", b"{}", message.delta, message.call, message.key, "0" * 64))


async def test_a_read_that_lost_its_process_is_made_once_more_on_a_new_one(tmp_path: Path) -> None:  # acceptance 38
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", "crash-once")}) as system:
        ref = from_(system, Role.SANDBOX)
        reply = await ref.ask(ReadTool("fake", "get_crash", b'{"text":"back"}'))
        assert reply.outcome is Outcome.OK
        assert calls(tmp_path / "fake").count("call get_crash") == 2
        await service_when(from_(system, Role.TRANSPORT), "fake", lambda found: found.restarts == 1)


async def test_a_read_that_always_kills_its_process_fails_with_the_reason(tmp_path: Path) -> None:  # acceptance 38
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", "crash-always")}) as system:
        reply = await from_(system, Role.SANDBOX).ask(ReadTool("fake", "get_crash", b"{}"))
        assert reply.outcome is Outcome.NO_REPLY
        assert calls(tmp_path / "fake").count("call get_crash") == 2


async def test_a_write_that_lost_its_process_is_unknown_and_not_repeated(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", "crash-once")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        reply = await from_(system, Role.JOURNAL).ask(planned(catalogue, "fake", "set_crash"))
        assert reply.outcome is Outcome.NO_REPLY
        assert calls(tmp_path / "fake").count("call set_crash") == 1


async def test_an_internal_error_of_a_planned_call_does_not_say_that_nothing_was_made(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        reply = await from_(system, Role.JOURNAL).ask(planned(catalogue, "fake", "set_broken"))
        assert reply.outcome is Outcome.TOOL_ERROR
        assert "broke half way" in reply.message


async def test_a_connectors_own_secrets_are_neither_in_its_errors_nor_its_status(
    tmp_path: Path,
) -> None:  # acceptance 76
    connector = fake(tmp_path / "fake", env={"API_KEY": "sk-planted-31337"})
    async with registry(tmp_path / "state", {"fake": connector}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        read = await from_(system, Role.SANDBOX).ask(ReadTool("fake", "get_telling", b"{}"))
        written = await from_(system, Role.JOURNAL).ask(planned(catalogue, "fake", "set_telling"))
        told = await service_when(from_(system, Role.TRANSPORT), "fake", lambda found: "API_KEY" in found.stderr_tail)
    assert read.message == written.message == "the key ‹redacted› is wrong"
    assert "planted" not in told.stderr_tail


async def test_cancelling_a_read_reaches_the_connector(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, ReadTool("fake", "get_slow", b"{}"))
                while "call get_slow" not in calls(tmp_path / "fake"):
                    await trio.sleep(0.01)
                scope.cancel()
        with trio.fail_after(5):
            while "cancelled True" not in calls(tmp_path / "fake"):
                await trio.sleep(0.01)


async def test_cancelling_a_write_does_not_cut_it(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        journal = from_(system, Role.JOURNAL)
        with trio.move_on_after(60) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(journal.ask, planned(catalogue, "fake", "set_slow"))
                while "call set_slow" not in calls(tmp_path / "fake"):
                    await trio.sleep(0.01)
                scope.cancel()
        reply = await from_(system, Role.SANDBOX).ask(ReadTool("fake", "get_echo", b"{}"))
        assert reply.outcome is Outcome.OK
        assert not [note for note in calls(tmp_path / "fake") if note.startswith("cancelled")]


async def test_a_write_without_an_answer_is_unknown_before_the_deadline(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        catalogue = await catalogue_when(await started(system), listed("fake"))
        with trio.fail_after(1):
            reply = await from_(system, Role.JOURNAL).ask(planned(catalogue, "fake", "set_slow"))
        assert reply.outcome is Outcome.NO_REPLY


async def test_a_full_queue_refuses_more_and_other_connectors_go_on(tmp_path: Path) -> None:
    connectors = {"stuck": fake(tmp_path / "stuck", queue=2), "fake": fake(tmp_path / "fake")}
    async with registry(tmp_path / "state", connectors) as system:
        ref = from_(system, Role.SANDBOX)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ref.ask, ReadTool("stuck", "get_slow", b"{}"))
            while calls(tmp_path / "stuck").count("call get_slow") < 2:
                await trio.sleep(0.01)
            with pytest.raises(Exception, match="has 2 calls open"):
                await ref.ask(ReadTool("stuck", "get_echo", b"{}"))
            assert (await ref.ask(ReadTool("fake", "get_echo", b"{}"))).outcome is Outcome.OK
            nursery.cancel_scope.cancel()


async def test_a_connector_that_cannot_be_started_says_why_at_once(tmp_path: Path) -> None:
    missing = ConnectorConfig(command=str(tmp_path / "no-such-program"))
    async with registry(tmp_path / "state", {"missing": missing}) as system:
        with trio.fail_after(20), pytest.raises(Exception, match="no-such-program"):
            await from_(system, Role.SANDBOX).ask(ReadTool("missing", "get_x", b"{}"))


async def test_a_connector_that_breaks_on_another_sdk_is_told_how_to_get_its_own(
    tmp_path: Path,
) -> None:  # acceptance 41
    program = "raise ImportError(\"cannot import name 'FastMCP' from 'mcp.server.fastmcp'\")"
    broken = ConnectorConfig(command=sys.executable, args=("-c", program))
    async with registry(tmp_path / "state", {"broken": broken}) as system:
        ref = await started(system)
        status = await service_when(ref, "broken", lambda found: "stderr" in found.detail)
    assert "cannot import name 'FastMCP'" in status.detail
    assert status.detail.endswith("uvx --with 'mcp<2' PACKAGE`.")


async def test_unknown_names_come_with_the_nearest(tmp_path: Path) -> None:
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake")}) as system:
        ref = from_(system, Role.SANDBOX)
        with pytest.raises(NotFound, match="get_echo"):
            await ref.ask(ReadTool("fake", "get_ehco", b"{}"))
        with pytest.raises(NotFound, match="fake"):
            await ref.ask(ReadTool("fkae", "get_echo", b"{}"))


async def test_passing_through_needs_its_configuration_and_transports_link(tmp_path: Path) -> None:
    connectors = {"plain": fake(tmp_path / "a"), "passed": fake(tmp_path / "b", expose="tools")}
    async with registry(tmp_path / "state", connectors) as system:
        transport = from_(system, Role.TRANSPORT)
        assert (await transport.ask(PassTool("passed", "set_echo", b'{"text":"x"}'))).outcome is Outcome.OK
        with pytest.raises(WriteNotPlanned):
            await transport.ask(PassTool("plain", "get_echo", b"{}"))
        with pytest.raises(Refused):
            await from_(system, Role.SANDBOX).ask(PassTool("passed", "get_echo", b"{}"))


async def test_a_tool_configured_off_is_refused(tmp_path: Path) -> None:
    config = fake(tmp_path / "fake", effects={"get_echo": Effect.OFF})
    async with registry(tmp_path / "state", {"fake": config}) as system:
        with pytest.raises(Refused, match="off"):
            await from_(system, Role.SANDBOX).ask(ReadTool("fake", "get_echo", b"{}"))


async def test_junk_on_stdout_and_a_flood_on_stderr_do_no_harm(tmp_path: Path) -> None:  # acceptance 29, 30
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", "junk", "flood")}) as system:
        ref = from_(system, Role.SANDBOX)
        for _ in range(3):
            reply = await ref.ask(ReadTool("fake", "get_echo", b'{"text":"still here"}'))
            assert b"still here" in reply.result
        status = await service_when(from_(system, Role.TRANSPORT), "fake", lambda found: found.junk_lines > 0)
        assert status.restarts == 0
        assert len(status.stderr_tail) <= 4096


async def test_a_slow_start_is_waited_for(tmp_path: Path) -> None:  # acceptance 36
    async with registry(tmp_path / "state", {"fake": fake(tmp_path / "fake", "slow-start", "2")}) as system:
        await from_(system, Role.TRANSPORT).tell(StartConnectors())
        reply = await from_(system, Role.SANDBOX).ask(ReadTool("fake", "get_echo", b"{}"))
        assert reply.outcome is Outcome.OK


async def test_equal_tools_of_two_connectors_are_told_apart_by_the_connectors_names(tmp_path: Path) -> None:
    """acceptance 58."""
    one, two = tmp_path / "one", tmp_path / "two"
    async with registry(tmp_path, {"one": fake(one), "two": fake(two)}) as system:
        ref = await started(system)
        await catalogue_when(ref, listed("one", "two"))
        sandbox = from_(system, Role.SANDBOX)
        for name in ("one", "two"):
            reply = await sandbox.ask(ReadTool(name, "get_echo", b'{"text":"to %s"}' % name.encode()))
            assert f"to {name}".encode() in reply.result
    assert [call for call in calls(one) if call.startswith("call")] == ["call get_echo"]
    assert [call for call in calls(two) if call.startswith("call")] == ["call get_echo"]


async def test_a_hundred_calls_list_once_and_start_one_process(tmp_path: Path) -> None:
    """acceptance 26, 55."""
    async with registry(tmp_path, {"fake": fake(tmp_path / "fake")}) as system:
        ref = await started(system)
        await catalogue_when(ref, listed("fake"))
        sandbox = from_(system, Role.SANDBOX)
        for _ in range(100):
            await sandbox.ask(ReadTool("fake", "get_pid", b"{}"))
    noted = calls(tmp_path / "fake")
    assert noted.count("list") == 1
    assert len({note for note in noted if note.startswith("pid ")}) == 1
