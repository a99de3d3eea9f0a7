"""The HTTP server's connections: bursts, a bound on how many are open, clients that stop reading or never read."""

from __future__ import annotations

import socket

import httpx
import pytest
import trio

from delta_actors.mcp import DeltaServer, HttpSettings, NoReply, NotSent, serve_http
from delta_actors.mcp.client_calls import OpenCall
from delta_actors.mcp.http_wire import Post, exchange
from tests.mcp.samples import Log, modern, sample_server
from tests.mcp.web import KEY, listening, raw_request, site

BURST = 500
LIST = modern(1, "tools/list")


async def answer(stream: trio.SocketStream) -> bytes:
    """Return the head of the response to a tool list, having read all of it."""
    received = b""
    with trio.fail_after(60):
        while b'"tools"' not in received or not received.endswith(b"}"):
            piece = await stream.receive_some()
            assert piece, received
            received += piece
    return received.partition(b"\r\n")[0]


async def test_a_burst_of_connections_waits_in_the_queue_instead_of_being_dropped() -> None:
    async with site(sample_server(Log())) as web:
        # Nothing is accepted meanwhile: a blocking connect stops the server too, and one too many would never end.
        clients = [socket.create_connection(("127.0.0.1", web.port), timeout=5) for _ in range(BURST)]
        heads: list[bytes] = []

        async def ask(client: socket.socket) -> None:
            client.setblocking(False)
            async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as stream:
                await stream.send_all(raw_request(LIST))
                heads.append(await answer(stream))

        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(ask, client)
        assert len(heads) == BURST
        assert all(head.startswith(b"HTTP/1.1 200") for head in heads)


async def test_a_connection_too_many_is_served_once_another_has_gone() -> None:
    async with site(sample_server(Log()), connections=2) as web:
        first, second, third = [await trio.open_tcp_stream("127.0.0.1", web.port) for _ in range(3)]
        for stream in (first, second, third):
            await stream.send_all(raw_request(LIST))
        for stream in (first, second):
            assert await answer(stream) == b"HTTP/1.1 200 "
        with trio.move_on_after(0.3) as waiting:
            await third.receive_some()
        assert waiting.cancelled_caught
        await first.aclose()
        assert await answer(third) == b"HTTP/1.1 200 "
        await second.aclose()
        await third.aclose()


def flooding() -> DeltaServer:
    """A server whose one tool answers more than the buffers of a connection hold."""
    server = DeltaServer("flood", "1")

    @server.tool()
    def flood() -> str:
        return "x" * (32 << 20)

    return server


FLOOD = raw_request(modern(1, "tools/call", name="flood", arguments={}))


async def test_a_client_that_stopped_reading_is_cut_when_the_grace_of_the_shutdown_ends() -> None:
    """Pitfall 1: hypercorn sends behind a shield, which only the connection's end opens."""
    async with site(flooding(), stall=3600.0, graceful=0.1) as web:
        with socket.create_connection(("127.0.0.1", web.port)) as stalled:
            stalled.sendall(FLOOD)
            await trio.sleep(0.5)
            web.shutdown.set()
            with trio.fail_after(30):
                await web.done.wait()


async def test_a_client_that_stopped_reading_does_not_hold_a_cancelled_server() -> None:
    listener = listening()
    with listener, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            settings = HttpSettings(KEY, stall=3600.0)
            await nursery.start(serve_http, flooding(), [listener], settings, trio.Event())
            with socket.create_connection(listener.getsockname()) as stalled:
                stalled.sendall(FLOOD)
                await trio.sleep(0.5)
                nursery.cancel_scope.cancel()


async def test_a_client_that_stopped_reading_is_cut_in_the_end_while_others_are_served() -> None:
    async with site(flooding(), stall=1.0) as web:
        with socket.create_connection(("127.0.0.1", web.port)) as stalled:
            stalled.sendall(FLOOD)
            assert (await web.modern(LIST)).status_code == 200
            await trio.sleep(3)
            stalled.settimeout(30)
            received = 0
            try:
                while piece := stalled.recv(1 << 20):
                    received += len(piece)
            except ConnectionResetError:
                pass
            assert received < 32 << 20


async def test_who_sends_too_much_is_told_so_and_not_cut_off() -> None:
    message = modern(1, "tools/call", name="echo", arguments={"text": "x" * (16 << 20)})
    async with site(sample_server(Log()), max_body=1 << 10) as web:
        stream = await trio.open_tcp_stream("127.0.0.1", web.port)
        async with stream:
            await stream.send_all(raw_request(message))
            received = b""
            with trio.fail_after(30):
                while not received.endswith(b"}"):
                    received += await stream.receive_some()
        assert received.startswith(b"HTTP/1.1 413 ")
        assert b"1024" in received.partition(b"\r\n\r\n")[2]


async def test_our_client_hears_a_refusal_that_comes_before_its_request_was_read() -> None:
    """Nothing is left behind that the interpreter would warn of."""

    async def refuse(stream: trio.SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await trio.sleep(0.2)

    async with httpx.AsyncClient(trust_env=False) as http, trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, refuse, 0)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/mcp"
        for _ in range(3):
            call = OpenCall(may_ask=True, on_progress=None, on_question=None)
            await exchange(http, Post(url, {}, b"x" * (32 << 20), 1, 1 << 20, False), call, lambda _message: None)
            with pytest.raises((NotSent, NoReply)):
                await call.result()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "opening",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        (
            b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n"
        ),
    ],
    ids=["preface", "upgrade"],
)
async def test_http_2_is_not_spoken_however_it_is_asked_for(opening: bytes) -> None:
    async with site(sample_server(Log())) as web:
        stream = await trio.open_tcp_stream("127.0.0.1", web.port)
        with trio.fail_after(20):
            async with stream:
                await stream.send_all(opening)
                received = await stream.receive_some()
    assert received.startswith(b"HTTP/1.1 4")
