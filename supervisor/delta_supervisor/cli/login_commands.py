"""`login`: a person's sign-in to a connector that asks for one."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from delta_protocol.config import ConnectorConfig
from delta_protocol.errors import Invalid, NotFound
from delta_protocol.nearest import did_you_mean
from delta_supervisor.cli.app import json_option, stack_options
from delta_supervisor.cli.options import DONE
from delta_supervisor.cli.output import print_json, print_text
from delta_supervisor.load import ConfigurationError, Flags, load


@click.command()
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Only print the address to open.")
@stack_options
@json_option
def login(name: str, no_browser: bool, as_json: bool, flags: Flags) -> int:
    """Sign in to the connector NAME, or sign in anew; the stack uses the tokens from then on."""
    # Loads httpx, which no other command of the stack needs.
    from delta_supervisor.cli.login import sign_in

    loaded = load(flags, os.environ, Path.cwd())
    found = sign_in(name, _connector(name, loaded.config.connectors), loaded.state_dir, browser=not no_browser)
    if as_json:
        print_json(msgspec.to_builtins(found))
    elif not found.issuer:
        print_text(f"{name} asks for no sign-in; it has {found.tools} tools")
    else:
        scopes = f" for {' '.join(found.scopes)}" if found.scopes else ""
        print_text(f"signed in to {name} at {found.issuer}{scopes}; it has {found.tools} tools")
    return DONE


def _connector(name: str, connectors: dict[str, ConnectorConfig]) -> ConnectorConfig:
    """Return a connector that can be signed in to. Raises `NotFound`, `Invalid`, `ConfigurationError`."""
    connector = connectors.get(name)
    if connector is None:
        near = did_you_mean(name, connectors)
        raise NotFound(f"there is no connector {name!r}{f' ({near})' if near else ''}", what=name)
    if connector.fault:
        raise ConfigurationError(connector.fault, path=f"connectors.{name}")
    if connector.url is None:
        raise Invalid(f"{name} is a program, which gets its credentials from `env`; only an address is signed in to")
    if any(header.lower() == "authorization" for header in connector.headers):
        raise Invalid(f"{name} has an Authorization header of its own in `headers`, and needs no sign-in")
    return connector


COMMANDS = (login,)
