"""A trio application that lets an AI look into it: its own work in one nursery with its MCP server.

`python docs/examples/embedded_server.py 8000` measures something every half second and serves the measurements on that
port of this machine. Nothing is shared between threads: tools run in the application's own event loop. When the work
ends, so does the server, in order.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections import deque

import trio

from delta_actors.mcp import DeltaServer, HttpSettings, serve_http

LATEST = "station://latest"


class Station:
    """The application: it measures, and would do so without any server."""

    def __init__(self) -> None:
        self.pause = 0.5
        self.measured: deque[float] = deque(maxlen=1000)

    async def measure(self, server: DeltaServer) -> None:
        """Measure for ever, and tell those who watch."""
        while True:
            self.measured.append(float(trio.current_time() % 10))
            server.resource_updated(LATEST)
            await trio.sleep(self.pause)


def server_of(station: Station) -> DeltaServer:
    """Return the server that shows the station."""
    server = DeltaServer("station", "1.0")

    @server.tool(read_only=True)
    async def mean(last: int = 10) -> float:
        """Return the mean of the last measurements."""
        values = list(station.measured)[-last:]
        return sum(values) / len(values) if values else 0.0

    @server.tool()
    async def measure_every(seconds: float) -> str:
        """Set how long the station waits between measurements."""
        if seconds < 0.1:
            raise ValueError("the station needs 0.1 s for a measurement")
        station.pause = seconds
        return f"measures every {seconds:g} s"

    @server.resource(LATEST, mime_type="application/json")
    def latest() -> float:
        """The newest measurement."""
        return station.measured[-1]

    return server


async def main(port: int) -> None:
    """Work and serve until Ctrl-C."""
    station = Station()
    server, shutdown = server_of(station), trio.Event()
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.setblocking(False)
        async with trio.open_nursery() as nursery:
            settings = HttpSettings(key=secrets.token_bytes(32))
            urls = await nursery.start(serve_http, server, [listener], settings, shutdown)
            print(f"serving {urls[0]}/mcp", flush=True)
            await station.measure(server)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]))
