"""What hypercorn and httpx do that a server must live with; the others of this list have tests beside their subject."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from delta_actors.mcp import HttpParameters, HttpSettings, NotSent, open_http, serve_http
from tests.mcp.samples import Log, modern, sample_server
from tests.mcp.web import KEY, listening, raw_request, site

LIST = modern(1, "tools/list")


async def test_a_client_that_ends_its_side_has_left() -> None:
    """Pitfall 4: a half-closed connection is read as a disconnect, which cancels in the modern era."""
    log = Log()
    async with site(sample_server(log)) as web:
        async with await trio.open_tcp_stream("127.0.0.1", web.port) as stream:
            await stream.send_all(raw_request(modern(1, "tools/call", name="wait", arguments={})))
            while not log.started:
                await trio.sleep(0.01)
            await stream.send_eof()
            with trio.fail_after(20):
                await log.cancelled.wait()
        assert (await web.modern(LIST)).status_code == 200


async def test_an_interrupt_beside_the_server_is_not_swallowed() -> None:
    """Pitfall 9."""
    with listening() as listener, pytest.raises(BaseExceptionGroup) as caught:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, sample_server(Log()), [listener], HttpSettings(KEY), trio.Event())
            raise KeyboardInterrupt
    assert caught.value.subgroup(KeyboardInterrupt) is not None


async def test_nothing_hangs_on_the_lifespan() -> None:
    """Pitfalls 10 and 11: it is answered, and what must be opened is opened elsewhere."""
    app = sample_server(Log()).asgi(HttpSettings(KEY))
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return next(asked)

    async def send(message: dict[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        told.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_headers_that_never_end_are_cut_and_idle_connections_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 12: the time for an idle connection bounds slow headers too; slow bodies have the request's deadline."""
    monkeypatch.setattr("delta_actors.mcp.http_serve._KEEP_ALIVE", 0.2)
    async with site(sample_server(Log())) as web:
        for sent in (b"", raw_request(LIST)[:40]):
            async with await trio.open_tcp_stream("127.0.0.1", web.port) as stream:
                if sent:
                    await stream.send_all(sent)
                with trio.fail_after(20):
                    assert not await stream.receive_some()


async def test_a_socket_in_the_file_system_stays_its_owners(tmp_path: Path) -> None:
    """Pitfall 13: hypercorn's own would be left behind, open to everybody."""
    place = tmp_path / "mcp.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        place.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        shutdown = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, sample_server(Log()), [listener], HttpSettings(KEY), shutdown)
            async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(place))) as http:
                headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
                answer = await http.post("http://localhost/mcp", json=LIST, headers=headers)
                assert answer.status_code == 200
            shutdown.set()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


async def test_certificates_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 15: it takes tens of milliseconds in which nothing else runs."""
    made: list[int] = []
    real = httpx.create_ssl_context

    def counted() -> Any:
        made.append(1)
        return real()

    monkeypatch.setattr(httpx, "create_ssl_context", counted)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for _ in range(2):
        with pytest.raises(NotSent):
            async with open_http(HttpParameters(f"https://127.0.0.1:{port}/mcp")):
                pass
    assert len(made) <= 1
