"""DeltaClient over stdio against real processes, well behaved and not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from delta_actors.mcp import ClientCannot, NoReply, NotSent, RpcError, StdioParameters, open_stdio

AWKWARD = Path(__file__).with_name("awkward.py")
ROOT = Path(__file__).resolve().parents[2]
SLOW = 60.0


def awkward(behaviour: str, argument: str = "", **changed: Any) -> StdioParameters:
    return StdioParameters(sys.executable, ("-I", "-S", str(AWKWARD), behaviour, argument), **changed)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(SLOW):
        while not condition():
            await trio.sleep(0.02)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_our_client_and_our_server_agree_and_work_in_both_eras(era: Any) -> None:
    example = str(ROOT / "docs" / "examples" / "stdio_server.py")
    heard: list[tuple[float, float | None, str]] = []

    async def on_progress(progress: float, total: float | None, message: str) -> None:
        heard.append((progress, total, message))

    async with open_stdio(StdioParameters(sys.executable, (example,), era=era)) as client:
        assert client.era == ("modern" if era == "auto" else "legacy")
        assert (client.server_info.name, client.instructions) == ("example", "Adds numbers and counts slowly.")
        assert [json.loads(tool)["name"] for tool in await client.list_tools()] == ["add", "count"]
        reply = await client.call_tool("add", b'{"a":1917043659912705296,"b":1}')
        assert b"1917043659912705297" in reply.result
        arguments = b'{"to":3,"pause":0}'
        assert not (await client.call_tool("count", arguments, on_progress=on_progress)).is_error
        assert heard == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]
        assert (await client.call_tool("add", b'{"a":"x"}')).is_error
        with pytest.raises(RpcError) as caught:
            await client.call_tool("nothing", b"{}")
        assert caught.value.code == -32602


async def test_lines_that_are_no_messages_are_skipped_and_counted() -> None:
    """acceptance 29."""
    async with open_stdio(awkward("junk")) as client:
        assert len(await client.list_tools()) == 3
        assert client.junk_lines >= 5


async def test_a_flood_on_stderr_hinders_nothing_and_its_end_is_kept() -> None:
    """acceptance 30."""
    async with open_stdio(awkward("stderr")) as client:
        for _ in range(3):
            await client.call_tool("t0", b"{}")
        await until(lambda: len(client.stderr_tail) == 64 << 10)


@pytest.mark.parametrize("behaviour", ["plain", "silent", "locks", "dies", "late", "old"])
async def test_a_legacy_server_is_recognised_whatever_it_does_with_the_probe(behaviour: str) -> None:
    """acceptance 56."""
    argument = "1" if behaviour == "late" else ""
    async with open_stdio(awkward(behaviour, argument, probe_timeout=0.5)) as client:
        assert client.era == "legacy"
        assert (
            await client.call_tool("t0", b'{"x":1}')
        ).result == b'{"content": [{"type": "text", "text": "{\\"x\\": 1}"}]}'


async def test_a_modern_server_that_starts_slowly_is_not_lost_to_the_probe_limit(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    example = ROOT / "docs" / "examples" / "stdio_server.py"
    slow.write_text(
        f"import time; time.sleep(0.5)\nimport runpy\nrunpy.run_path({str(example)!r}, run_name='__main__')"
    )
    async with open_stdio(StdioParameters(sys.executable, (str(slow),), probe_timeout=0.1)) as client:
        assert len(await client.list_tools()) == 2


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (StdioParameters("/nonexistent/program"), "No such file"),
        (StdioParameters("no-such-program-anywhere"), "No such file"),
        (StdioParameters(sys.executable, cwd="/nonexistent"), "No such file"),
        (awkward("exits"), "ImportError: no module named mcp"),
        (awkward("unknown"), "1999-01-01"),
        (awkward("late", "600", start_timeout=0.5, probe_timeout=0.1), "within 0.5 s"),
    ],
)
async def test_what_cannot_be_started_says_why(parameters: StdioParameters, said: str) -> None:
    with pytest.raises(NotSent, match=said):
        async with open_stdio(parameters):
            pass


async def test_all_pages_are_read_and_endless_ones_refused() -> None:
    async with open_stdio(awkward("plain")) as client:
        assert [json.loads(tool)["name"] for tool in await client.list_tools()] == ["t0", "t1", "t2"]
    async with open_stdio(awkward("endless")) as client:
        with pytest.raises(NoReply, match="do not end"):
            await client.list_tools()


async def test_the_first_answer_to_a_call_counts_and_a_second_one_is_dropped() -> None:
    async with open_stdio(awkward("twice")) as client:
        for number in range(20):
            arguments = json.dumps({"number": number}).encode()
            assert str(number).encode() in (await client.call_tool("t0", arguments)).result


async def test_a_crash_in_a_call_fails_it_once_as_unknown_and_later_calls_as_not_sent() -> None:
    """acceptance 38."""
    async with open_stdio(awkward("crash")) as client:
        with pytest.raises(NoReply, match="exited with status 3"):
            await client.call_tool("t0", b"{}")
        assert "the connector broke" in client.stderr_tail
        with trio.fail_after(SLOW):
            assert "status 3" in await client.wait_closed()
        with pytest.raises(NotSent, match="exited with status 3"):
            await client.call_tool("t0", b"{}")


async def test_a_call_whose_line_did_not_fit_into_the_pipe_was_certainly_not_sent() -> None:
    async with open_stdio(awkward("plain")) as client:
        os.kill(client.pid or 0, 19)
        async with trio.open_nursery() as nursery:

            async def expect(kind: type[Exception], arguments: bytes) -> None:
                with pytest.raises(kind, match="signal 9"):
                    await client.call_tool("t0", arguments)

            nursery.start_soon(expect, NoReply, b"{}")
            await trio.sleep(0.2)
            nursery.start_soon(expect, NotSent, json.dumps({"x": "y" * (4 << 20)}).encode())
            await trio.sleep(0.2)
            nursery.start_soon(expect, NotSent, b"{}")
            await trio.sleep(0.2)
            os.kill(client.pid or 0, 9)


async def test_twenty_megabytes_go_both_ways_at_once() -> None:
    """acceptance 34."""
    arguments = json.dumps({"text": "x" * (20 << 20)}).encode()
    async with open_stdio(awkward("big")) as client:
        replies: list[int] = []

        async def call() -> None:
            replies.append(len((await client.call_tool("t0", arguments)).result))

        with trio.fail_after(SLOW):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                nursery.start_soon(call)
        assert min(replies) > 20 << 20


async def test_a_line_over_the_limit_is_dropped_and_the_session_goes_on() -> None:
    async with open_stdio(awkward("big", max_line=1 << 20)) as client:
        with trio.move_on_after(1) as scope:
            await client.call_tool("t0", json.dumps({"text": "x" * (2 << 20)}).encode())
        assert scope.cancelled_caught
        assert client.junk_lines == 1
        assert not (await client.call_tool("t0", b'{"text":"x"}')).is_error


async def test_a_cancelled_call_is_told_to_the_server_at_once(tmp_path: Path) -> None:
    """acceptance 48; the bound is generous, the figure is a benchmark's."""
    notes = tmp_path / "cancelled"
    async with open_stdio(awkward("mute", str(notes))) as client:
        with trio.move_on_after(0.3):
            await client.call_tool("t0", b"{}")
        cancelled = time.monotonic()
        await until(notes.exists)
        await until(lambda: bool(notes.read_text().strip()))
        assert float(notes.read_text().split()[0]) - cancelled < 2


async def test_a_call_cancelled_before_it_was_written_never_reaches_the_server(tmp_path: Path) -> None:
    notes = tmp_path / "cancelled"
    async with open_stdio(awkward("plain", str(notes))) as client:
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.call_tool("t0", b"{}")
        assert (await client.call_tool("t0", b"{}")).result
        assert not notes.exists()


async def test_a_question_goes_to_the_one_call_in_progress() -> None:
    """acceptance 51."""

    async def on_question(method: str, params: bytes) -> bytes:
        assert json.loads(params) == {"message": "Who?"}
        if method != "elicitation/create":
            raise ClientCannot(method, "not this")
        return b'{"action":"decline"}'

    async def cannot(method: str, params: bytes) -> bytes:
        raise ClientCannot(method, "nobody is there")

    async with open_stdio(awkward("asks", capabilities=b'{"elicitation":{}}')) as client:
        reply = await client.call_tool("t0", b"{}", on_question=on_question)
        assert "decline" in reply.result.decode()
        reply = await client.call_tool("t0", b"{}", on_question=cannot)
        assert "nobody is there" in reply.result.decode()
        reply = await client.call_tool("t0", b"{}")
        assert "no single call" in reply.result.decode()


async def test_questions_without_end_are_refused_beyond_a_few() -> None:
    async def never(method: str, params: bytes) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async with open_stdio(awkward("nags", capabilities=b'{"elicitation":{}}')) as client:
        with trio.fail_after(20):
            reply = await client.call_tool("t0", b"{}", on_question=never)
        refused = json.loads(json.loads(reply.result)["content"][0]["text"])
        assert len(refused) == 84
        assert all("wait for answers already" in reason for reason in refused)


async def test_nothing_of_a_connector_is_left_behind(tmp_path: Path) -> None:
    """acceptance 31: deaf children, one of them daemonised."""
    pids = tmp_path / "pids"
    async with open_stdio(awkward("family", str(pids))) as client:
        await client.list_tools()
        family = [int(pid) for pid in pids.read_text().split()]
        assert len(family) == 3
        assert all(map(alive, family))
    assert not any(map(alive, family))


async def test_a_connector_ends_with_us_when_we_are_killed(tmp_path: Path) -> None:
    """acceptance 31."""
    pids = tmp_path / "pids"
    program = f"""
import sys, trio
from delta_actors.mcp import StdioParameters, open_stdio
async def main():
    arguments = ("-I", "-S", {str(AWKWARD)!r}, "family", {str(pids)!r})
    async with open_stdio(StdioParameters(sys.executable, arguments)) as client:
        print("open", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert await trio.to_thread.run_sync(parent.stdout.readline) == b"open\n"
        family = [int(pid) for pid in pids.read_text().split()]
        assert all(map(alive, family))
        parent.kill()
    await until(lambda: not any(map(alive, family)))


async def test_a_cancelled_session_leaves_nothing_either(tmp_path: Path) -> None:
    with trio.move_on_after(0.5):
        async with open_stdio(awkward("deaf")) as client:
            pid = client.pid
            await trio.sleep_forever()
    assert pid is not None
    assert not alive(pid)


async def test_fifty_sessions_come_and_go() -> None:
    """acceptance 31."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(open_and_close)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


async def open_and_close() -> None:
    async with open_stdio(awkward("plain", era="legacy")) as client:
        pid = client.pid or 0
        await client.list_tools()
    assert not alive(pid)


async def test_the_caller_s_own_errors_come_out_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_stdio(awkward("plain")):
            raise ZeroDivisionError


@pytest.mark.parametrize(
    "rest",
    [
        b',"result":{"content":[],"n":NaN}',
        b',"result":{"content":[{"type":"text","text":"\xff\xfe"}]}',
        b',"result":{"content":[{"type":"text","text":"\\ud800"}]}',
        b"",
        b',"result":{"content":[]},"error":{"code":1,"message":"both"}',
        b',"result":' + b"[" * 300 + b"]" * 300,
    ],
    ids=["NaN", "no UTF-8", "half a character", "neither", "both", "too deep"],
)
async def test_an_answer_that_cannot_be_read_ends_its_call_at_once(rest: bytes) -> None:
    async with open_stdio(awkward("garbled", rest.hex())) as client:
        with trio.fail_after(SLOW), pytest.raises(NoReply, match="cannot be read"):
            await client.call_tool("echo", b"{}")
        assert client.junk_lines == 1


async def test_a_huge_error_message_is_cut_with_its_length_said() -> None:
    rest = b',"error":{"code":1,"message":"' + b"x" * 30_000 + b'"}'
    async with open_stdio(awkward("garbled", rest.hex())) as client:
        with trio.fail_after(SLOW), pytest.raises(RpcError, match="30000 characters in all") as caught:
            await client.call_tool("echo", b"{}")
        assert len(str(caught.value)) < 5000
