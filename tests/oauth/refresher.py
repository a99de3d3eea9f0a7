"""A process that calls with the tokens of a directory: `refresher.py DIRECTORY URL CALLS`."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http


async def main(directory: str, url: str, calls: int) -> None:
    auth = OAuth(url, OAuthSettings(Path(directory), "wiki"))
    async with open_http(HttpParameters(url, auth=auth)) as client:
        for _ in range(calls):
            await client.call_tool("t", b"{}")
            await trio.sleep(0.02)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
