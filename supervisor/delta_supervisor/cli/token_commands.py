"""`token add|revoke|list`: bearer tokens for clients over HTTP."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import click

from delta_protocol.wire.auth import AddedToken, AddToken, ListTokens, RevokeToken, TokenInfo
from delta_protocol.wire.message import Role
from delta_supervisor.cli.app import json_option, stack_options
from delta_supervisor.cli.options import DONE
from delta_supervisor.cli.output import print_json, print_progress, print_table, print_text
from delta_supervisor.load import Flags, load


@click.command("add")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="What it may be used for; may be repeated.")
@stack_options
@json_option
def add(name: str, scopes: tuple[str, ...], as_json: bool, flags: Flags) -> int:
    """Make a token for NAME and print it; it is shown this once."""
    added: AddedToken = _ask(flags, AddToken(name, scopes))
    if as_json:
        print_json({"name": name, "token": added.token})
    else:
        print_text(added.token)
        print_progress("send it as `Authorization: Bearer TOKEN`; only its hash is kept")
    return DONE


@click.command("revoke")
@click.argument("name")
@stack_options
@json_option
def revoke(name: str, as_json: bool, flags: Flags) -> int:
    """Forget every token of NAME."""
    _ask(flags, RevokeToken(name))
    print_json({"revoked": name}) if as_json else print_text(f"{name} has no token any more")
    return DONE


@click.command("list")
@stack_options
@json_option
def list_tokens(as_json: bool, flags: Flags) -> int:
    """List who has a token."""
    tokens: tuple[TokenInfo, ...] = _ask(flags, ListTokens())
    if as_json:
        print_json({"tokens": [{"name": each.name, "created": each.created, "scopes": each.scopes} for each in tokens]})
        return DONE
    rows = [
        (each.name, time.strftime("%Y-%m-%d %H:%M", time.localtime(each.created)), " ".join(each.scopes))
        for each in tokens
    ]
    print_table(("name", "created", "scopes"), rows)
    return DONE


def _ask(flags: Flags, request: Any) -> Any:  # noqa: ANN401 - the request's own reply
    from delta_supervisor.cli.operator import ask

    return ask(load(flags, os.environ, Path.cwd()).state_dir, Role.AUTH, lambda ref: ref.ask(request))


COMMANDS = (click.Group("token", help="Bearer tokens for HTTP clients.", commands=[add, revoke, list_tokens]),)
