"""A running stack's own sockets, spoken to by who may not: nothing is written, nobody is let in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from delta_actors.runtime.actor import Ref
from delta_actors.runtime.birth import Birth
from delta_actors.runtime.current import Inherited
from delta_actors.runtime.host import open_ref
from delta_actors.runtime.schema import schema_of
from delta_protocol.config import StackConfig
from delta_protocol.errors import Refused, WriteNotPlanned
from delta_protocol.wire.control import Grant
from delta_protocol.wire.message import Principal, Role
from delta_protocol.wire.registry import Services, WriteTool
from delta_protocol.wire.table import INBOXES
from delta_supervisor.cli.operator import OPERATOR, unwrapped
from delta_supervisor.control.client import ControlClient
from delta_supervisor.places import runtime_dir
from tests.stack.harness import Stack, prepared, running
from tests.stack.probing import Probe
from tests.stack.taken import PLANS

DELTA = "d_aaaaaaaaaaaa"
WRITE = WriteTool("probe", "update_item", b'{"id":"a","value":"forged"}', DELTA, f"{DELTA}:1.1", "k", "x")
ROLES = [Role.SANDBOX, Role.TRANSPORT, Role.JOURNAL, Role.REGISTRY]


def operators_grant(stack: Stack) -> Grant:
    with ControlClient(runtime_dir(stack.state)) as client:
        return next(grant for grant in client.admit().grants if grant.role == Role.REGISTRY)


def ask_as(stack: Stack, role: Role, grant: Grant, work: Callable[[Ref], Awaitable[Any]]) -> Any:
    """Open a link to the running registry as `role` says it is, with the token of `grant`."""

    async def main() -> Any:
        birth = Birth(role, 0, StackConfig(), stack.state, runtime_dir(stack.state), {}, (grant,))
        async with trio.open_nursery() as nursery:
            principal = OPERATOR if role is Role.OPERATOR else Principal("loopback", "loopback")
            ref = open_ref(birth, Role.REGISTRY, schema_of(INBOXES[Role.REGISTRY]), nursery, Inherited(principal))
            with trio.fail_after(20):
                result = await work(ref)
            nursery.cancel_scope.cancel()
        return result

    return unwrapped(main)


def test_a_write_that_the_journal_did_not_plan_is_refused_and_a_forged_role_is_not_let_in(home: Path) -> None:
    probe = Probe(home / "probe")
    with running(home, "version = 1\n" + probe.config()) as stack:
        assert stack.run("return (await probe.item.get('a')).value")["exit"] == 0
        grant = operators_grant(stack)
        assert ask_as(stack, Role.OPERATOR, grant, lambda ref: ref.ask(Services()))
        with pytest.raises(WriteNotPlanned):
            ask_as(stack, Role.OPERATOR, grant, lambda ref: ref.ask(WRITE))
        forged = msgspec.structs.replace(grant, token=os.urandom(len(grant.token)))
        for role in ROLES:
            for token in (grant, forged):
                with pytest.raises(Refused, match="may not open a link"):
                    ask_as(stack, role, token, lambda ref: ref.ask(WRITE))
        assert probe.events("call", "update_item") == []
        assert stack.run("return (await probe.item.get('a')).value")["exit"] == 0
        assert [each["restarts"] for each in stack.status()["actors"]].count(0) == len(stack.status()["actors"])


@contextmanager
def taken(home: Path, config: str) -> Iterator[Stack]:
    """Start a stack whose sandbox is an attacker's."""
    with prepared(home, config) as stack:
        with stack.log.open("ab") as log:
            command = [sys.executable, "-m", "tests.stack.taken", str(home)]
            stack.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=stack.env)
        stack.wait_ready()
        yield stack
        assert stack.stop() == 0


def test_a_sandbox_that_was_taken_over_can_neither_write_nor_pass_for_another_actor(home: Path) -> None:
    probe = Probe(home / "probe")
    with taken(home, "version = 1\n" + probe.config()) as stack:
        told = stack.run("attack")["returned"]
        assert told.pop("own link") == "let in"
        assert {name for name, words in told.items() if words.startswith("WriteNotPlanned")} == {
            "write",
            "write as a read",
        }
        assert all(words.startswith(("WriteNotPlanned", "Refused")) for words in told.values()), told
        for refusal in PLANS:
            assert refusal in stack.run(refusal)["error"]["message"]
        assert probe.events("call", "update_item") == []
        assert all(each["restarts"] == 0 for each in stack.status()["actors"])
