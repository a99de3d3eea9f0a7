"""Lists the tools of a server that asks for a sign-in: `python signed_in_client.py https://mcp.example.com/mcp FOLDER`.

The first run opens a browser; the tokens stay in FOLDER, and later runs need nobody.
"""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path

import trio

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, loopback, open_http

A_PERSON_NEEDS = 600.0


def say(words: str) -> None:
    print(words, file=sys.stderr)


async def show(page: str) -> None:
    say(f"sign in at {page}")
    await trio.to_thread.run_sync(webbrowser.open, page, abandon_on_cancel=True)


async def main(url: str, folder: str) -> None:
    auth = OAuth(url, OAuthSettings(Path(folder)), loopback(show, 8421, say))
    parameters = HttpParameters(url, auth=auth, start_timeout=A_PERSON_NEEDS, probe_timeout=A_PERSON_NEEDS)
    async with open_http(parameters) as client:
        for tool in await client.list_tools():
            print(json.loads(tool)["name"])


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
