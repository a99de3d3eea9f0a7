"""The peer: fastmcp's proxy in front of the same echo server. Runs in the peers' environment; argument: the server."""

from __future__ import annotations

import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

create_proxy(StdioTransport(sys.executable, sys.argv[1:])).run(show_banner=False)
