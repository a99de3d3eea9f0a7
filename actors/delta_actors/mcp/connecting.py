"""Opens a client for whatever a person names: a URL, or a command with its arguments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from delta_actors.mcp.client import DeltaClient, open_stdio
from delta_actors.mcp.client_features import ClientFeatures
from delta_actors.mcp.stdio_client import StdioParameters


@asynccontextmanager
async def connect(
    target: str | Sequence[str],
    *,
    features: ClientFeatures | None = None,
    headers: Mapping[str, str] | None = None,
    era: Literal["auto", "legacy", "modern", "delta-mcp"] = "auto",
    start_timeout: float = 60.0,
) -> AsyncGenerator[DeltaClient, None]:
    """Open a session; on leaving, nothing of it is left.

    `target` is an http, https, ws or wss URL, or a command's words. `headers` go out with every request to a URL, or
    with the opening of a WebSocket. Raises `NotSent` where it cannot be reached or started, or does not speak the
    protocol within `start_timeout` seconds; `ValueError` for a target that is neither, and for an era that it has not.
    """
    capabilities = b"{}" if features is None else features.capabilities
    if isinstance(target, str):
        if target.startswith(("ws://", "wss://")):
            if era == "delta-mcp":
                raise ValueError("delta-mcp 0.x is spoken on stdio and over HTTP, not over a WebSocket")
            from delta_actors.mcp.websocket_client import WebSocketParameters, open_websocket

            socket = WebSocketParameters(
                target, dict(headers or {}), era=era, start_timeout=start_timeout, capabilities=capabilities
            )
            async with open_websocket(socket) as client:
                client.features = features
                yield client
            return
        if not target.startswith(("http://", "https://")):
            raise ValueError(f"{target!r} is no http or ws URL; give a command as a sequence of words")
        from delta_actors.mcp.http_client import HttpParameters, open_http

        parameters = HttpParameters(
            target, dict(headers or {}), era=era, start_timeout=start_timeout, capabilities=capabilities
        )
        async with open_http(parameters) as client:
            client.features = features
            yield client
        return
    if not target:
        raise ValueError("a command needs at least its program")
    command, *arguments = target
    started = StdioParameters(
        command, tuple(arguments), era=era, start_timeout=start_timeout, capabilities=capabilities
    )
    async with open_stdio(started) as client:
        client.features = features
        yield client
