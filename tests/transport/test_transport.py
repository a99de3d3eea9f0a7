"""The transport over its real sockets; what the protocol demands of HTTP is tested with the library."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from delta_actors.auth import AuthActor
from delta_actors.runtime import open_actors
from delta_actors.transport import TransportActor
from delta_actors.transport.key import SIZE, load_key
from delta_protocol.config import AuthConfig, HttpConfig, StackConfig
from delta_protocol.errors import Invalid, Refused
from delta_protocol.wire.auth import AddToken, ListTokens, RevokeToken
from delta_protocol.wire.message import Principal, Role
from tests.gateway.house import EVERY_ACTOR, House, open_house, tickets

OPERATOR = Principal("operator", "operator")
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


async def knock(house: House, token: str | None = None, **headers: str) -> httpx.Response:
    given = {**ACCEPT, **headers} | ({"authorization": f"Bearer {token}"} if token else {})
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        return await client.post(house.url, json=HANDSHAKE, headers=given)


def everybody(state_dir: Path, **config: Any) -> StackConfig:
    return StackConfig(connectors={"tickets": tickets(state_dir)}, **config)


async def test_loopback_needs_no_token_and_a_wrong_one_is_refused_all_the_same(tmp_path: Path) -> None:
    async with open_house(tmp_path, everybody(tmp_path)) as house:
        answer = await knock(house)
        assert answer.status_code == 200
        assert answer.headers["mcp-session-id"]
        wrong = await knock(house, "delta_wrong")
        assert wrong.status_code == 401
        assert "invalid_token" in wrong.headers["www-authenticate"]


# acceptance 67, 78
async def test_a_required_token_opens_the_door_until_it_is_revoked(tmp_path: Path) -> None:
    config = everybody(tmp_path, auth=AuthConfig(require_token=True))
    async with open_house(tmp_path, config) as house:
        operator = house.system.ref(Role.AUTH, as_=Role.OPERATOR, principal=OPERATOR)
        token = (await operator.ask(AddToken("ada"))).token
        assert (await knock(house)).status_code == 401
        assert (await knock(house, token)).status_code == 200
        assert (await knock(house, token + "x")).status_code == 401
        assert [known.name for known in await operator.ask(ListTokens())] == ["ada"]
        await operator.ask(RevokeToken("ada"))
        assert await operator.ask(ListTokens()) == ()
    async with open_house(tmp_path, config) as house:
        assert (await knock(house, token)).status_code == 401


# acceptance 69
async def test_foreign_hosts_and_origins_are_refused(tmp_path: Path) -> None:
    async with open_house(tmp_path, everybody(tmp_path)) as house:
        assert (await knock(house, origin="http://evil.test")).status_code == 403
        assert (await knock(house, host="evil.test")).status_code == 403


# acceptance 78
async def test_an_address_beyond_loopback_is_refused_unless_tokens_are_required(tmp_path: Path) -> None:
    with socket.socket() as http:
        http.bind(("0.0.0.0", 0))
        http.listen()
        http.setblocking(False)
        sockets: dict[str, dict[str, socket.socket]] = {Role.TRANSPORT: {"http": http}}
        config = StackConfig(http=HttpConfig(host="0.0.0.0"))
        refused = pytest.RaisesExc(Refused, match="require_token")
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            alone: dict[str, type[TransportActor]] = {Role.TRANSPORT: TransportActor}
            async with open_actors(alone, config=config, state_dir=tmp_path, sockets=sockets):
                pass
        guarded = StackConfig(http=HttpConfig(host="0.0.0.0"), auth=AuthConfig(require_token=True))
        async with open_actors(EVERY_ACTOR, config=guarded, state_dir=tmp_path, sockets=sockets) as system:
            assert system.addresses(Role.TRANSPORT)[0].endswith("/mcp")


async def test_only_the_operator_manages_tokens(tmp_path: Path) -> None:
    async with open_actors({Role.AUTH: AuthActor}, config=StackConfig(), state_dir=tmp_path) as system:
        transport = system.ref(Role.AUTH, as_=Role.TRANSPORT, principal=OPERATOR)
        for request in (AddToken("x"), RevokeToken("x"), ListTokens()):
            with pytest.raises(Refused):
                await transport.ask(request)


async def test_a_client_over_http_does_the_same_as_one_over_a_relay(tmp_path: Path) -> None:
    async with open_house(tmp_path, everybody(tmp_path)) as house:
        session = {"mcp-session-id": (await knock(house)).headers["mcp-session-id"]}
        call = {"name": "delta", "arguments": {"code": 'return (await tickets.get_ticket({id: "T-1"})).title;'}}
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            answer = await client.post(house.url, json=message, headers={**ACCEPT, **session}, timeout=30)
        assert '"Returned: Login broken"' in answer.text or "Returned: Login broken" in answer.text


async def test_a_relay_that_vanishes_leaves_the_others_working(tmp_path: Path) -> None:
    async with open_house(tmp_path, everybody(tmp_path)) as house, house.client() as stays:
        rude = await trio.open_unix_socket(str(house.path))
        await rude.send_all(b'{"jsonrpc":"2.0","id":1,"method":"initialize"')
        await rude.aclose()
        async with house.client() as leaves:
            await leaves.begin("tools/call", {"name": "delta", "arguments": {"code": "await sleep(5000)"}})
        assert not (await stays.call("delta_read", refs=["services"])).is_error


async def test_a_call_in_progress_ends_before_the_stack_stops(tmp_path: Path) -> None:
    stop = trio.Event()

    async def live(task_status: trio.TaskStatus[House]) -> None:
        async with open_house(tmp_path, everybody(tmp_path)) as house:
            task_status.started(house)
            await stop.wait()

    async with trio.open_nursery() as nursery:
        house: House = await nursery.start(live)
        async with house.client() as client:
            # A first program, so that the second does not wait for the sandbox to start.
            await client.call("delta_read", code="return 1;")
            code = {"code": "await sleep(500); return 7;"}
            number = await client.begin("tools/call", {"name": "delta", "arguments": code})
            await trio.sleep(0.2)
            stop.set()
            reply = await client.end(number)
        assert reply["result"]["structuredContent"]["returned"] == 7


async def test_a_transport_that_died_is_back_on_the_same_sockets(tmp_path: Path) -> None:
    async with open_house(tmp_path, everybody(tmp_path)) as house:
        session = (await knock(house)).headers["mcp-session-id"]
        async with house.client() as client:
            await client.call("delta_read", refs=["tickets"])
        house.system.kill(Role.TRANSPORT)
        with trio.fail_after(20):
            while not house.system.restarts(Role.TRANSPORT):
                await trio.sleep(0.05)
        async with house.client() as client:
            with trio.fail_after(20):
                while "get_ticket" not in (await client.call("delta_read", refs=["tickets"])).text:
                    await trio.sleep(0.1)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        async with httpx.AsyncClient(verify=False, trust_env=False) as http:
            answer = await http.post(house.url, json=message, headers={**ACCEPT, "mcp-session-id": session})
        assert answer.status_code == 200


async def test_a_client_that_stopped_reading_does_not_hold_the_stop(tmp_path: Path) -> None:
    with trio.fail_after(60), socket.socket() as stalled:
        async with open_house(tmp_path, everybody(tmp_path)) as house:
            session = (await knock(house)).headers["mcp-session-id"]
            head = {**ACCEPT, "host": "localhost", "mcp-session-id": session, "connection": "keep-alive"}
            body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}).encode()
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            text = f"POST /mcp HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect(("127.0.0.1", int(house.url.split(":")[2].split("/")[0])))
            stalled.setblocking(False)
            for _ in range(4000):
                try:
                    stalled.send(text)
                except BlockingIOError:
                    break
            await trio.sleep(1)
            began = trio.current_time()
        assert trio.current_time() - began < StackConfig().actor(Role.TRANSPORT).stop_timeout


def test_the_session_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "session.key"
    key = load_key(path)
    assert len(key) == SIZE
    assert load_key(path) == key
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert os.listdir(tmp_path) == ["session.key"]
    path.write_bytes(b"short")
    with pytest.raises(Invalid, match=r"session\.key"):
        load_key(path)
