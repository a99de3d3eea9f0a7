"""Commands about the stack itself: `up`, `stdio`, `status`, `down`, `check`, `actor`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import click
import msgspec

from delta_protocol.errors import DeltaError
from delta_protocol.wire.message import ACTOR_ROLES, Role
from delta_protocol.wire.registry import Services, ServiceStatus, state_word
from delta_supervisor.cli.app import json_option, stack_options
from delta_supervisor.cli.options import CONFIGURATION, DONE, arguments_of, command_line
from delta_supervisor.cli.output import print_json, print_progress, print_table, print_text
from delta_supervisor.control.client import ControlClient, NoStack
from delta_supervisor.control.messages import ActorStatus, StackStatus
from delta_supervisor.load import Flags, load
from delta_supervisor.load.load import DEFAULT, leaves, printable
from delta_supervisor.load.shape import dotted
from delta_supervisor.places import runtime_dir

_SERVICES_TIMEOUT = 3.0


@click.command()
@stack_options
@json_option
def up(as_json: bool, flags: Flags) -> int:
    """Run the stack in the foreground until Ctrl-C.

    Progress goes to stderr. With --json the status is printed once when all actors are ready.
    """
    from delta_supervisor.cli.up import run_foreground

    def ready(status: StackStatus) -> None:
        if as_json:
            print_json(status)
        else:
            _welcome(status, flags)

    return run_foreground(flags, report=print_progress, on_ready=ready)


@click.command()
@stack_options
def stdio(flags: Flags) -> int:
    """Serve one MCP client over stdin and stdout, starting the stack if none runs.

    This is the command that goes into a client's configuration.
    """
    from delta_supervisor.relay.main import relay

    return relay(flags)


@click.command()
@stack_options
@json_option
def status(as_json: bool, flags: Flags) -> int:
    """Show the running stack: actors, connectors, addresses."""
    state_dir = load(flags, os.environ, Path.cwd()).state_dir
    with ControlClient(runtime_dir(state_dir)) as client:
        found = client.status()
    connectors = _connectors(state_dir, found)
    if as_json:
        services = [msgspec.structs.asdict(each) for each in connectors]
        print_json({**msgspec.to_builtins(found), "connectors": services})
        return DONE
    _print_status(found, connectors)
    return DONE


@click.command()
@stack_options
@json_option
def down(as_json: bool, flags: Flags) -> int:
    """Stop the running stack in order, and wait until it has stopped."""
    state_dir = load(flags, os.environ, Path.cwd()).state_dir
    try:
        with ControlClient(runtime_dir(state_dir)) as client:
            client.down()
        stopped = True
    except NoStack:
        stopped = False
    if as_json:
        print_json({"stopped": stopped})
    else:
        print_text("stopped" if stopped else "no stack was running")
    return DONE


@click.command()
@click.option("--all", "everything", is_flag=True, help="Defaults too.")
@stack_options
@json_option
def check(everything: bool, as_json: bool, flags: Flags) -> int:
    """Read the configuration, say what is wrong, and print what was set with its origin. Starts nothing."""
    loaded = load(flags, os.environ, Path.cwd())
    values = [("state_dir", str(loaded.state_dir), loaded.state_dir_origin)]
    values += [(dotted(keys), value, loaded.origin(keys)) for keys, value in leaves(printable(loaded.config))]
    if as_json:
        print_json(
            {
                "values": [{"name": name, "value": value, "origin": origin} for name, value, origin in values],
                "faults": loaded.faults,
                "notes": loaded.notes,
                "files": [str(file) for file in loaded.files],
            }
        )
    else:
        for name, fault in loaded.faults.items():
            print_progress(f"connector {name} cannot start: {fault}")
        for note in loaded.notes:
            print_progress(f"note: {note}")
        chosen = [each for each in values if everything or each[2] != DEFAULT]
        shown = [(name, msgspec.json.encode(value).decode(), origin) for name, value, origin in chosen]
        print_table(("setting", "value", "origin"), shown)
        if len(chosen) < len(values):
            print_text(f"{len(values) - len(chosen)} more have their defaults: --all shows them")
    return CONFIGURATION if loaded.faults else DONE


@click.command()
@click.argument("name", type=click.Choice([str(role) for role in ACTOR_ROLES]))
@stack_options
def actor(name: str, flags: Flags) -> int:
    """Run one actor alone, for a service manager that passes its sockets (LISTEN_FDS: link, http, mcp)."""
    from delta_supervisor.cli.single import run_single

    return run_single(Role(name), flags)


def _connectors(state_dir: Path, found: StackStatus) -> tuple[ServiceStatus, ...]:
    if not any(each.name == Role.REGISTRY and each.state == "ready" for each in found.actors):
        return ()
    from delta_supervisor.cli.operator import ask

    try:
        return ask(state_dir, Role.REGISTRY, lambda registry: registry.ask(Services()), timeout=_SERVICES_TIMEOUT)
    except DeltaError as error:
        print_progress(f"connectors unknown: {error.message}")
        return ()


def _print_status(found: StackStatus, connectors: tuple[ServiceStatus, ...]) -> None:
    minutes = (time.time() - found.since) / 60
    print_text(f"{found.state}: process {found.pid}, up {minutes:.0f} min, state in {found.state_dir}")
    for address in found.addresses:
        print_text(f"listening at {address}")
    print_text(f"clients over stdio: {found.attached}\n")
    print_table(
        ("actor", "state", "pid", "restarts", "in flight", "to send", "memory", "last error"),
        [
            (
                each.name,
                _actor_state(each),
                str(each.pid or ""),
                str(each.restarts),
                str(each.in_flight),
                f"{each.queued} B" if each.queued else "",
                f"{each.memory / (1 << 20):.0f} MiB" if each.memory else "",
                each.error,
            )
            for each in found.actors
        ],
    )
    if connectors:
        print_text("")
        print_table(
            ("connector", "state", "tools", "restarts", "server", "detail"),
            [
                (each.name, state_word(each), str(each.tools), str(each.restarts), each.server, each.detail)
                for each in connectors
            ],
        )


def _welcome(status: StackStatus, flags: Flags) -> None:
    client = {"command": _program(), "args": ["stdio", *arguments_of(flags)]}
    lines = ["ready"]
    lines += [f"  HTTP clients:  {address}" for address in status.addresses if address.startswith("http")]
    lines += [
        f"  stdio clients: {msgspec.json.encode(client).decode()}",
        f"  try:           {command_line(flags, 'status')}",
        "  stop:          Ctrl-C",
    ]
    for line in lines:
        print_progress(line)


def _program() -> str:
    """Return how a client, which has its own working directory and PATH, starts this program."""
    found = shutil.which(sys.argv[0])
    return "delta-supervisor" if found is None else str(Path(found).absolute())


def _actor_state(actor: ActorStatus) -> str:
    never = actor.state == "exited" and not actor.error
    return "idle" if never else actor.state


COMMANDS = (up, stdio, status, down, check, actor)
