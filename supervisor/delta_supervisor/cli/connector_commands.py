"""Commands about connectors: `accept`."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

import click

from delta_protocol.errors import Refused
from delta_protocol.wire.message import Json, Role
from delta_protocol.wire.registry import AcceptTools, HeldTool, HeldTools
from delta_supervisor.cli.app import json_option, stack_options
from delta_supervisor.cli.asking import agreed, check_unasked
from delta_supervisor.cli.options import DONE
from delta_supervisor.cli.output import print_json, print_text
from delta_supervisor.load import Flags, load


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask; only where the configuration allows it.")
@click.argument("connector")
@stack_options
@json_option
def accept(connector: str, yes: bool, as_json: bool, flags: Flags) -> int:
    """Show what changed in a CONNECTOR's tools since they were looked at, and use them as they are now."""
    from delta_supervisor.cli.operator import ask

    loaded = load(flags, os.environ, Path.cwd())
    if yes:
        check_unasked(loaded.config)
    held: tuple[HeldTool, ...] = ask(
        loaded.state_dir, Role.REGISTRY, lambda registry: registry.ask(HeldTools(connector))
    )
    if held and not yes and not agreed("\n\n".join(map(_difference, held)), f"Use {connector} as it is now?"):
        raise Refused(f"nothing of {connector} was accepted; it stays held")
    if held:
        accepted = AcceptTools(connector, tuple(each.digest for each in held))
        ask(loaded.state_dir, Role.REGISTRY, lambda registry: registry.ask(accepted))
    if as_json:
        print_json({"accepted": [each.tool for each in held]})
    else:
        names = ", ".join(each.alias for each in held)
        print_text(f"accepted: {names}" if held else f"nothing of {connector} is held")
    return DONE


def _difference(held: HeldTool) -> str:
    lines = difflib.unified_diff(_lines(held.before), _lines(held.now), "as looked at", "now", lineterm="")
    return f"{held.tool} changed its {', '.join(held.parts)}\n" + "\n".join(lines)


def _lines(definition: Json) -> list[str]:
    return json.dumps(json.loads(definition), indent=2, ensure_ascii=False, sort_keys=True).splitlines()


COMMANDS = (accept,)
