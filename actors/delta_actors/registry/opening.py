"""How a connector's session is opened: its program started, or its address reached."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from delta_actors.mcp import DeltaClient, StdioParameters, open_stdio
from delta_protocol.config import ConnectorConfig, OAuthConfig
from delta_protocol.wire.message import Json

Era = Literal["auto", "legacy", "modern"]

PASSED_ON = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TEMP", "TERM"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
)
"""What a connector gets of our environment beside `env`; ``LC_*`` and ``XDG_*`` too. Anything else may be a secret."""


_WEBSOCKET = ("ws://", "wss://")


@asynccontextmanager
async def open_client(
    name: str,
    config: ConnectorConfig,
    era: Era,
    capabilities: Json,
    state_dir: Path,
    on_token: Callable[[str], None],
) -> AsyncGenerator[DeltaClient]:
    """Open a session. Raises `NotSent` where there is none within the configured `start_timeout`.

    An address is authorised by OAuth with the tokens kept in `state_dir`, unless a header of its own does that;
    `on_token` hears each token that is sent.
    """
    if config.url is None:
        async with open_stdio(stdio_parameters(config, era, capabilities)) as client:
            yield client
        return
    if config.url.startswith(_WEBSOCKET):
        # Loads the WebSocket library, which other stacks do without.
        from delta_actors.mcp import WebSocketParameters, open_websocket

        socket = WebSocketParameters(
            config.url,
            config.headers,
            era,
            start_timeout=config.start_timeout,
            max_message=config.max_line,
            capabilities=capabilities,
        )
        async with open_websocket(socket) as client:
            yield client
        return
    # Loads httpx, which a stack without HTTP connectors does without.
    from delta_actors.mcp import HttpParameters, OAuth, open_http
    from delta_actors.mcp.oauth_settings import settings_of

    auth = None
    if uses_oauth(config):
        auth = OAuth(config.url, settings_of(name, config.oauth or OAuthConfig(), state_dir), on_token=on_token)
    parameters = HttpParameters(
        config.url,
        config.headers,
        era,
        start_timeout=config.start_timeout,
        max_body=config.max_line,
        capabilities=capabilities,
        auth=auth,
    )
    async with open_http(parameters) as client:
        yield client


def uses_oauth(config: ConnectorConfig) -> bool:
    """Tell whether the connector's tokens are got by OAuth: it is an http address without credentials of its own."""
    if config.url is None or config.url.startswith(_WEBSOCKET):
        return False
    return not any(name.lower() == "authorization" for name in config.headers)


def stdio_parameters(config: ConnectorConfig, era: Era, capabilities: Json) -> StdioParameters:
    """Return how to start the connector's program."""
    assert config.command is not None, "the configuration gives a command or a url"
    return StdioParameters(
        command=config.command,
        args=config.args,
        env={**environment(os.environ), **config.env},
        cwd=config.cwd,
        era=era,
        start_timeout=config.start_timeout,
        max_line=config.max_line,
        capabilities=capabilities,
    )


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the part of our environment that connectors get."""
    return {name: value for name, value in ours.items() if name in PASSED_ON or name.startswith(("LC_", "XDG_"))}
