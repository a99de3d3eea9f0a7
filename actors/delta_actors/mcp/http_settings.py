"""How one HTTP endpoint behaves: its place, its limits, its times."""

from __future__ import annotations

from dataclasses import dataclass

from delta_protocol.codecs.negotiate import Format
from delta_protocol.mcp.forwarded import ProxyHeader


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Seconds and bytes. `key` seals session ids; whoever serves with the same key knows the same sessions.

    `hosts`, `origins`: allowed beside loopback; without `local_origins` pages of loopback are not. `max_requests`: in
    progress at once; more are answered 503. `rate_limit`: requests of one principal, or of one address where nobody is
    asked who they are, in `rate_window`; more are answered 429. So are more failed attempts of one address to get in.
    0 is no limit. `proxies`: how many stand before the server and are trusted to write `proxy_header`.

    `formats`: spoken beside JSON, by `Content-Type` and `Accept`. `gzip`: whether long answers are compressed for
    clients that ask for it; `takes_gzip`: whether requests may be. Event streams never are.

    `patience`: how long a request may stay silent before its response becomes a stream. `graceful`: how long requests
    may finish after shutdown. `stall`: how long a client may stop reading before its connection is cut. `connections`:
    how many may be open, idle ones included; more wait to be accepted. `recheck`: how often the credentials of an open
    stream are looked at again.
    """

    key: bytes
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    local_origins: bool = True
    max_body: int = 4 << 20
    max_requests: int = 256
    rate_limit: int = 0
    rate_window: float = 60.0
    proxies: int = 0
    proxy_header: ProxyHeader = "x-forwarded-for"
    formats: tuple[Format, ...] = ()
    gzip: bool = True
    takes_gzip: bool = False
    session_idle: float = 3600.0
    patience: float = 5.0
    keep_alive: float = 15.0
    graceful: float = 3.0
    stall: float = 15.0
    connections: int = 4096
    recheck: float = 60.0
