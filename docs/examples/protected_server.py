"""A server for tokens of an authorisation server, over Streamable HTTP.

`python docs/examples/protected_server.py https://login.example.com https://login.example.com/keys` serves it on port
8000 of this machine; a reverse proxy with TLS makes it `PUBLIC_URL`. Clients without a good token are told where to get
one.
"""

from __future__ import annotations

import secrets
import socket
import sys

import trio

from delta_actors.mcp import (
    DeltaServer,
    HttpSettings,
    RequestContext,
    ResourceSettings,
    TrustedIssuer,
    oauth_access,
    serve_http,
)

PUBLIC_URL = "https://notes.example.com/mcp"
server = DeltaServer("notes", "1.0")
notes: dict[str, list[str]] = {}


@server.tool(read_only=True)
async def read_notes(context: RequestContext) -> list[str]:
    """Read your own notes."""
    return notes.get(context.principal.id, [])


@server.tool(scopes=("notes:write",))
async def add_note(text: str, context: RequestContext) -> str:
    """Add a note. A token without the scope gets 403, and the client asks for a larger one."""
    notes.setdefault(context.principal.id, []).append(text)
    return f"noted for {context.principal.subject}"


async def main(issuer: str, jwks_url: str) -> None:
    """Serve until the process is ended."""
    access = oauth_access(ResourceSettings(PUBLIC_URL, [TrustedIssuer(issuer, jwks_url)], scopes=("notes:read",)))
    settings = HttpSettings(key=secrets.token_bytes(32))
    with socket.create_server(("127.0.0.1", 8000)) as listener:
        listener.setblocking(False)
        await serve_http(server, [listener], settings, trio.Event(), access)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:3])
