"""Finds the era of a server over a connection that carries messages both ways (spec 2.3)."""

from __future__ import annotations

import trio

from delta_actors.mcp.message_client import MessageClient
from delta_protocol.codecs.negotiate import Format
from delta_protocol.mcp import delta_mcp, handshake, versions
from delta_protocol.mcp.errors import McpError
from delta_protocol.mcp.handshake import Agreement, ClientIdentity, NotUnderstood


async def probe(
    client: MessageClient, identity: ClientIdentity, nursery: trio.Nursery, limit: float
) -> Agreement | None:
    """Return the agreement, or None where only a fresh connection can still do the legacy handshake.

    `server/discover` stays open while `initialize` is tried: a slow starter may answer it late (spec 2.3).
    """
    late = _LateAnswer()
    nursery.start_soon(late.discover, client, identity)
    with trio.move_on_after(limit):
        await late.done.wait()
    if late.agreement is not None:
        return late.agreement
    if client.closed.is_set():
        return None
    try:
        return await initialize(client, identity)
    except (McpError, NotUnderstood):
        return late.agreement


class _LateAnswer:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.agreement: Agreement | None = None

    async def discover(self, client: MessageClient, identity: ClientIdentity) -> None:
        try:
            self.agreement = await _discover(client, identity)
        except (McpError, NotUnderstood):
            self.agreement = None
        finally:
            self.done.set()


async def _discover(client: MessageClient, identity: ClientIdentity) -> Agreement | None:
    params = handshake.with_meta(b"{}", identity.modern_meta(versions.LATEST_MODERN))
    return handshake.read_discover(await client.request("server/discover", params, announce_cancel=False))


async def initialize(client: MessageClient, identity: ClientIdentity) -> Agreement:
    """Do the legacy handshake; the first line after a delta-mcp server's answer is compact already."""
    formats = delta_mcp.ON_LINES
    params = delta_mcp.initialize_params(identity, formats) if client.may_be_compact else identity.initialize_params()
    result = await client.request("initialize", params, announce_cancel=False)
    peer = delta_mcp.read_initialize_result(result, formats) if client.may_be_compact else None
    if peer is None:
        agreement = handshake.read_initialize_result(result)
    else:
        agreement = peer[0]
        client.compact = peer[1] is Format.COMPACT
    client.notify("notifications/initialized")
    return agreement
