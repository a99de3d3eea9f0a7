"""A person signs in to a connector: the flow runs on this terminal, the stack finds the tokens where they are kept."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import msgspec
import trio

from delta_actors.mcp import HttpParameters, McpError, OAuth, loopback, open_http
from delta_actors.mcp.oauth_settings import settings_of
from delta_protocol.config import ConnectorConfig, OAuthConfig
from delta_protocol.errors import ConnectorFailed, DeadlineExceeded, Refused
from delta_protocol.mcp.oauth.errors import MetadataRefused, OAuthError
from delta_supervisor.cli.output import print_progress

PATIENCE = 600.0
"""Seconds that a person has for it."""


class SignedIn(msgspec.Struct, frozen=True):
    """What came of it. `issuer` is empty where the connector asks for no sign-in."""

    connector: str
    tools: int
    issuer: str = ""
    scopes: tuple[str, ...] = ()


def sign_in(name: str, connector: ConnectorConfig, state_dir: Path, *, browser: bool) -> SignedIn:
    """Connect to the connector and sign in where it asks for that, or where tokens are there to be replaced.

    Raises `Refused` with the reason where no token was got, `ConnectorFailed`, `DeadlineExceeded`.
    """

    async def whole() -> SignedIn:
        with trio.fail_after(PATIENCE):
            return await _sign_in(name, connector, state_dir, browser=browser)

    try:
        return trio.run(whole)
    except trio.TooSlowError:
        raise DeadlineExceeded(f"nobody signed in within {PATIENCE:g} s") from None
    except OAuthError as error:
        raise Refused(error.message) from None
    except McpError as error:
        raise ConnectorFailed(error.message, connector=name) from None


async def _sign_in(name: str, connector: ConnectorConfig, state_dir: Path, *, browser: bool) -> SignedIn:
    assert connector.url is not None, "checked by the command"
    config = connector.oauth or OAuthConfig()

    async def show(url: str) -> None:
        print_progress(f"to sign in, open this address in a browser of this machine:\n{url}")
        if browser:
            await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)

    visitor = loopback(show, config.redirect_port, print_progress)
    auth = OAuth(connector.url, settings_of(name, config, state_dir), visitor)
    parameters = HttpParameters(
        connector.url, connector.headers, start_timeout=PATIENCE, probe_timeout=PATIENCE, auth=auth
    )
    async with open_http(parameters) as client:
        tools = len(await client.list_tools())
        if auth.sign_ins == 0:
            try:
                await auth.sign_in()
            except MetadataRefused:
                if auth.grant is not None:
                    raise
                return SignedIn(name, tools)
    assert auth.grant is not None, "somebody signed in"
    return SignedIn(name, tools, auth.grant.issuer, auth.grant.scopes)
