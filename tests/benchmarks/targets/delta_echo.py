"""`DeltaServer` with the tools that the load tools call. Usage: delta_echo.py stdio | http PORT."""

from __future__ import annotations

import secrets
import socket
import sys

import trio

from delta_actors.mcp import DeltaServer

server = DeltaServer("echo", "1.0.0")


@server.tool()
async def echo(text: str) -> str:
    """Echo the text back"""
    return text


@server.tool()
async def sleep(ms: int) -> str:
    """Wait"""
    await trio.sleep(ms / 1000)
    return "slept"


async def serve(port: int) -> None:
    from delta_actors.mcp import HttpSettings, serve_http

    with socket.create_server(("127.0.0.1", port)) as listener:
        await serve_http(server, [listener], HttpSettings(key=secrets.token_bytes(32)), trio.Event())


if sys.argv[1] == "stdio":
    server.run()
else:
    trio.run(serve, int(sys.argv[2]))
