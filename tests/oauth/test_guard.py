"""acceptance 70: what a stranger's document names is reached only where it may be."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import httpcore
import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from delta_actors.mcp import HttpParameters, OAuth, OAuthSettings, open_http
from delta_actors.mcp.oauth_discovery import discover
from delta_actors.mcp.oauth_fetch import MAX_BODY, Fetcher, GuardedBackend
from delta_protocol.mcp.oauth.errors import MetadataRefused, OAuthError
from tests.oauth.world import Answer, Asked, Browser, web, world

PUBLIC = "93.184.216.34"


class Recorder(httpcore.AsyncNetworkBackend):
    """Connects nowhere and remembers where to."""

    def __init__(self) -> None:
        self.connected: list[tuple[str, int]] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.connected.append((host, port))
        raise httpcore.ConnectError("recorded")


class Names:
    """A resolver whose every answer is the next one."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return self._answers.pop(0)


async def test_the_connection_goes_to_the_address_that_was_judged() -> None:
    recorder, names = Recorder(), Names([PUBLIC], ["127.0.0.1"])
    fetch = Fetcher(GuardedBackend(local=False, resolver=names.resolve, inner=recorder))
    with pytest.raises(OAuthError, match="cannot be reached"):
        await fetch.get("https://as.test/x", "it")
    assert recorder.connected == [(PUBLIC, 443)]
    with pytest.raises(MetadataRefused, match="not a public address"):
        await fetch.get("https://as.test/x", "it")
    assert recorder.connected == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"], ["::1"], ["fe80::1%lo"], [PUBLIC, "10.0.0.1"]]
)
async def test_a_name_of_a_private_address_is_refused_before_anything_is_sent(addresses: list[str]) -> None:
    recorder = Recorder()
    fetch = Fetcher(GuardedBackend(local=False, resolver=Names(addresses).resolve, inner=recorder))
    with pytest.raises(MetadataRefused):
        await fetch.post_form("https://as.test/token", "it", {"client_secret": "s"}, {})
    assert recorder.connected == []


async def test_an_address_that_does_not_answer_makes_room_for_the_next() -> None:
    recorder = Recorder()
    fetch = Fetcher(GuardedBackend(local=False, resolver=Names(["2606:4700::1", PUBLIC]).resolve, inner=recorder))
    with pytest.raises(OAuthError):
        await fetch.get("https://as.test:8443/x", "it")
    assert recorder.connected == [("2606:4700::1", 8443), (PUBLIC, 8443)]


async def test_a_public_connectors_documents_never_lead_to_this_machine() -> None:
    """The whole chain: the connector is public by its URL, its server names 127.0.0.1 in any of three ways."""
    reached: list[str] = []

    def trap(asked: Asked) -> Answer:
        reached.append(asked.path)
        return Answer(200, {})

    async with web(trap) as inside:
        fetch = Fetcher(GuardedBackend(local=False))
        for named in (f"{inside}/prm", "https://169.254.169.254/latest/meta-data/", "http://10.0.0.1/x"):
            with pytest.raises(MetadataRefused):
                await discover(fetch, "https://mcp.test/mcp", named, None)
        for what in ("/token", "/register"):
            with pytest.raises(MetadataRefused):
                await fetch.post_form(inside + what, "it", {"client_secret": "s"}, {})
    assert reached == []


async def test_nothing_is_redirected_neither_documents_nor_secrets() -> None:
    reached: list[str] = []

    def trap(asked: Asked) -> Answer:
        reached.append(asked.path)
        return Answer(200, {})

    async with web(trap) as elsewhere:

        def away(asked: Asked) -> Answer:
            return Answer(307, headers={"location": f"{elsewhere}/taken"})

        async with web(away) as origin:
            fetch = Fetcher(GuardedBackend(local=True))
            assert (await fetch.get(f"{origin}/x", "it")).status == 307
            assert (await fetch.post_form(f"{origin}/token", "it", {"client_secret": "s"}, {})).status == 307
    assert reached == []


async def test_a_connector_of_this_machine_may_have_its_server_here(tmp_path: Path) -> None:
    async with world() as given:
        auth = OAuth(given.url, OAuthSettings(tmp_path), Browser().visitor())
        async with open_http(HttpParameters(given.url, auth=auth)):
            assert auth.sign_ins == 1


async def test_an_answer_without_an_end_is_cut() -> None:
    async with web(lambda asked: Answer(200, b" " * (MAX_BODY + 1))) as origin:
        with pytest.raises(MetadataRefused, match="more than"):
            await Fetcher(GuardedBackend(local=True)).get(origin, "the document")


async def test_a_name_without_an_address_is_an_error_in_words() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError(-2, "Name or service not known")

    fetch = Fetcher(GuardedBackend(local=True, resolver=unknown))
    with pytest.raises(OAuthError, match=r"as\.test.*not known"):
        await fetch.get("https://as.test/x", "the document")


async def test_a_server_that_breaks_off_is_an_error_in_words() -> None:
    async def leave(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(10)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(
            trio.serve_tcp,
            leave,
            0,
        )
        port = listeners[0].socket.getsockname()[1]
        with pytest.raises(OAuthError, match="the document cannot be reached"):
            await Fetcher(GuardedBackend(local=True)).get(f"http://127.0.0.1:{port}/", "the document")
        nursery.cancel_scope.cancel()


async def test_a_place_without_a_document_makes_room_for_the_next() -> None:
    seen: list[str] = []

    def handle(asked: Asked) -> Answer:
        seen.append(asked.path)
        own = f"http://{asked.headers['host']}"
        match asked.path:
            case "/.well-known/oauth-protected-resource":
                return Answer(200, {"resource": own, "authorization_servers": [f"{own}/t"]})
            case "/t/.well-known/openid-configuration":
                return Answer(200, json.dumps({"issuer": f"{own}/t", "token_endpoint": f"{own}/k"}).encode())
            case _:
                return Answer(404)

    async with web(handle) as origin:
        found = await discover(Fetcher(GuardedBackend(local=True)), f"{origin}/mcp", None, None)
    assert (found.resource.resource, found.server.issuer) == (origin, f"{origin}/t")
    assert seen == [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server/t",
        "/.well-known/openid-configuration/t",
        "/t/.well-known/openid-configuration",
    ]


async def test_tls_checks_the_name_though_the_connection_goes_to_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate(tmp_path, "as.test"))
    trusting = ssl.create_default_context(cafile=str(tmp_path / "as.test.pem"))
    monkeypatch.setattr("delta_actors.mcp.oauth_fetch._trust", lambda: trusting)

    async def answer(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            async with stream:
                await stream.receive_some(4096)
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrue")
        except trio.BrokenResourceError:
            return

    async def here(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, answer, 0, served, host="127.0.0.1")
        listeners = await nursery.start(serve)
        port = listeners[0].transport_listener.socket.getsockname()[1]
        fetch = Fetcher(GuardedBackend(local=True, resolver=here))
        assert (await fetch.get(f"https://as.test:{port}/", "it")).body == b"true"
        with pytest.raises(OAuthError, match="evil"):
            await fetch.get(f"https://evil.test:{port}/", "it")
        nursery.cancel_scope.cancel()


def certificate(folder: Path, name: str) -> Path:
    """Make a key and a certificate for `name` that vouches for itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(called, called, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / f"{name}.pem"
    file.write_bytes(private + made.public_bytes(pem))
    return file


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_place_in_trouble_is_not_taken_for_an_empty_one(status: int) -> None:
    seen: list[str] = []

    def handle(asked: Asked) -> Answer:
        seen.append(asked.path)
        return Answer(status)

    async with web(handle) as origin:
        with pytest.raises(OAuthError, match=f"HTTP {status}"):
            await discover(Fetcher(GuardedBackend(local=True)), f"{origin}/mcp", None, None)
    assert len(seen) == 1
