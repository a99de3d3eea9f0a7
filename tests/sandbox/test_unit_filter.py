"""A whole sandbox under the restrictions of the shipped service unit: it works, and its workers are no less jailed."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.test_processes import FORBIDDEN, JAILED
from tests.sandbox.unit_filter import LIBRARY

ROOT = Path(__file__).parents[2]
UNITS = ["delta-supervisor.service", "delta-actor@.service"]
WHOLE = """
import json, os, sys
from pathlib import Path
import trio
from tests.sandbox.world import open_world

def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}

async def main():
    told = {}
    async with open_world(Path(sys.argv[1])) as world:
        outcome = await world.run('''const t = await tickets.ticket.get("T-1"); t.status = "closed";
            await tickets.ticket.create({title: "new"}); return [t.title, (await tickets.ticket.list()).length]''')
        told["error"] = outcome.error and outcome.error.message
        told["returned"] = outcome.error or json.loads(outcome.returned.json)
        told["calls"] = outcome.plan and [call.tool for call in outcome.plan.calls]
        told["limit"] = (await world.run("for (;;) {}")).error.limit
        told["sandbox"] = world.sandbox.statistics()
        zygote = told["sandbox"]["zygote"]
        told["self"], told["zygote"] = status("self"), status(zygote)
        with trio.fail_after(20):
            while not (workers := Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()):
                await trio.sleep(0.02)
            # A worker that still warms up is not jailed yet.
            while status(workers[0])["Seccomp_filters"] == told["zygote"]["Seccomp_filters"]:
                await trio.sleep(0.02)
        told["worker"] = status(workers[0])
    print(json.dumps(told))

trio.run(main)
"""


def unavailable() -> str:
    if sys.platform != "linux":
        return "the filters are Linux's"
    if shutil.which("systemd-analyze") is None:
        return "systemd-analyze, which lists the groups of calls, is not installed"
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return f"{LIBRARY} is not installed"
    if os.getuid() == 0 and subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode:
        return "root may not make a user namespace here, in which the stack is not root"
    return ""


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "-")


def restricted(unit: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tests.sandbox.unit_filter",
        str(ROOT / "deploy" / unit),
        sys.executable,
        "-c",
        code,
    ]
    return subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("unit", UNITS)
def test_a_whole_sandbox_works_under_the_units_filter_and_is_jailed(unit: str, tmp_path: Path) -> None:
    # The state directory is new, so that compiling the guest is tried under the filter as well.
    done = restricted(unit, WHOLE, str(tmp_path / "state"))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["error"] is None
    assert told["returned"] == ["x", 2]
    assert told["calls"] == ["create_ticket", "update_ticket"]
    assert told["limit"] in ("fuel", "cpu")
    assert told["sandbox"]["landlock"] > 0
    for who in ("self", "zygote", "worker"):
        status = told[who]
        assert status["NoNewPrivs"] == "1", who
        assert status["Seccomp"] == "2", who
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}, who
        assert "0" not in status["Uid"].split(), who
    assert int(told["worker"]["Seccomp_filters"]) == int(told["self"]["Seccomp_filters"]) + 1
    assert told["worker"]["Threads"] == "1"


@pytest.mark.parametrize("forbidden", FORBIDDEN)
def test_a_worker_dies_of_what_it_may_not_do_under_the_units_filter_too(forbidden: str) -> None:
    done = restricted(UNITS[0], JAILED.format(forbidden=forbidden))
    assert done.returncode == -signal.SIGSYS, (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("attempt", "refused"),
    [
        ("ctypes.CDLL(None, use_errno=True).unshare(0x10000000)", "EPERM"),
        ("ctypes.CDLL(None, use_errno=True).mount(b'/', b'/', None, 0, None)", "EPERM"),
        ("ctypes.CDLL(None, use_errno=True).setuid(0)", "EPERM"),
        ("ctypes.CDLL(None, use_errno=True).socket(17, 3, 0)", "EAFNOSUPPORT"),
        ("ctypes.CDLL(None, use_errno=True).personality(0)", "EPERM"),
    ],
)
def test_the_filter_under_test_refuses_what_the_unit_refuses(attempt: str, refused: str) -> None:
    code = f"import ctypes, errno, os\nassert {attempt} == -1\nassert ctypes.get_errno() == errno.{refused}"
    done = restricted(UNITS[0], code)
    assert done.returncode == 0, done.stderr
