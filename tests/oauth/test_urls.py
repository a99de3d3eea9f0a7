"""Where the documents of OAuth are, which of them speak for a server, and which addresses may be reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.mcp.oauth import addresses, urls
from delta_protocol.mcp.oauth.errors import MetadataRefused

PRM = ".well-known/oauth-protected-resource"
AS = ".well-known/oauth-authorization-server"
OIDC = ".well-known/openid-configuration"


# acceptance 65
@pytest.mark.parametrize(
    ("server", "resource", "where"),
    [
        ("https://a.test", "https://a.test", [f"https://a.test/{PRM}"]),
        ("https://a.test/", "https://a.test", [f"https://a.test/{PRM}"]),
        ("https://a.test/mcp", "https://a.test/mcp", [f"https://a.test/{PRM}/mcp", f"https://a.test/{PRM}"]),
        ("https://a.test/mcp/", "https://a.test/mcp/", [f"https://a.test/{PRM}/mcp", f"https://a.test/{PRM}"]),
        ("https://A.test:443/x/y", "https://a.test/x/y", [f"https://a.test/{PRM}/x/y", f"https://a.test/{PRM}"]),
        (
            "https://a.test:8/m?k=v",
            "https://a.test:8/m?k=v",
            [f"https://a.test:8/{PRM}/m?k=v", f"https://a.test:8/{PRM}"],
        ),
        ("http://[::1]:80/mcp", "http://[::1]/mcp", [f"http://[::1]/{PRM}/mcp", f"http://[::1]/{PRM}"]),
        (
            "http://localhost:3/mcp#x",
            "http://localhost:3/mcp",
            [f"http://localhost:3/{PRM}/mcp", f"http://localhost:3/{PRM}"],
        ),
    ],
)
def test_a_server_of_any_shape_has_one_resource_and_its_places(server: str, resource: str, where: list[str]) -> None:
    assert urls.canonical_resource(server) == resource
    assert list(urls.resource_urls(server)) == where


@pytest.mark.parametrize(
    ("issuer", "where"),
    [
        ("https://as.test", [f"https://as.test/{AS}", f"https://as.test/{OIDC}"]),
        ("https://as.test/", [f"https://as.test/{AS}", f"https://as.test/{OIDC}"]),
        ("https://as.test/t", [f"https://as.test/{AS}/t", f"https://as.test/{OIDC}/t", f"https://as.test/t/{OIDC}"]),
        ("https://as.test/t/", [f"https://as.test/{AS}/t", f"https://as.test/{OIDC}/t", f"https://as.test/t/{OIDC}"]),
    ],
)
def test_an_issuers_path_is_inserted(issuer: str, where: list[str]) -> None:
    assert list(urls.issuer_urls(issuer)) == where


@pytest.mark.parametrize(
    ("resource", "speaks"),
    [
        ("https://a.test/mcp", True),
        ("https://A.TEST:443/mcp/", True),
        ("https://a.test", True),
        ("https://a.test/", True),
        ("https://a.test/mc", False),
        ("https://a.test/mcp/x", False),
        ("https://a.test/mcp?x=1", False),
        ("https://a.test/mcp#x", False),
        ("http://a.test/mcp", False),
        ("https://a.test:444/mcp", False),
        ("https://b.test/mcp", False),
        ("https://a.test.evil.test/mcp", False),
        ("https://a.test@evil.test/mcp", False),
        ("https://evil@a.test/mcp", False),
        ("https://a.test/x/..", False),
        ("https://a.test:x/mcp", False),
        ("", False),
    ],
)
def test_metadata_speaks_for_its_own_origin_and_path(resource: str, speaks: bool) -> None:
    assert urls.covers(resource, "https://a.test/mcp") is speaks


@pytest.mark.parametrize(
    "url",
    [
        "http://as.test/token",
        "ftp://as.test/token",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://",
        "https://user@as.test/token",
        "https://as.test/token#x",
        "https://as.test/to ken",
        "https://as.test\\@evil.test",
        "https://as.test:port/",
        "//as.test/token",
        "http://127.0.0.1.evil.test/token",
    ],
)
def test_a_url_that_could_lead_astray_is_refused(url: str) -> None:
    with pytest.raises(MetadataRefused) as refused:
        urls.check_url(url, "the token endpoint")
    assert "the token endpoint" in refused.value.message


def test_a_refusal_shows_no_secret_of_the_url() -> None:
    with pytest.raises(MetadataRefused) as refused:
        urls.check_url("http://user:hunter2@as.test/t?key=hunter3", "it")
    assert "hunter" not in refused.value.message
    assert "as.test/t" in refused.value.message


@pytest.mark.parametrize(
    "url", ["https://as.test/t?x=1", "http://localhost:9/t", "http://127.0.0.1/t", "http://[::1]:9/"]
)
def test_https_and_this_machine_are_good(url: str) -> None:
    assert urls.check_url(url, "it") == url


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_is_more_than_refused(one: str, other: str) -> None:
    urls.covers(one, other)
    for function in (urls.canonical_resource, urls.resource_urls, urls.issuer_urls):
        try:
            function(one)
        except MetadataRefused:
            pass


# acceptance 70
@pytest.mark.parametrize(
    ("address", "public", "local"),
    [
        ("93.184.216.34", True, True),
        ("2606:4700::1", True, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("10.1.2.3", False, True),
        ("192.168.1.1", False, True),
        ("172.16.0.9", False, True),
        ("fd12::1", False, True),
        ("::ffff:10.0.0.1", False, True),
        ("64:ff9b::a00:1", False, True),
        ("64:ff9b::5db8:d822", True, True),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::1", False, False),
        ("169.254.7.7", False, False),
        ("fe80::1", False, False),
        ("fe80::1%eth0", False, False),
        ("fd00:ec2::254", False, False),
        ("100.100.100.200", False, False),
        ("100.64.0.1", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("224.0.0.1", False, False),
        ("240.0.0.1", False, True),
        ("as.test", False, False),
    ],
)
def test_only_public_addresses_are_reached_for_a_public_connector(address: str, public: bool, local: bool) -> None:
    assert (addresses.fault_of(address, local=False) == "") is public
    assert (addresses.fault_of(address, local=True) == "") is local


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("x.localhost", True),
        ("127.0.0.9", True),
        ("[::1]", True),
        ("10.0.0.1", True),
        ("localhost.evil.test", False),
        ("mcp.example", False),
        ("93.184.216.34", False),
    ],
)
def test_a_private_connector_is_known_by_its_url_alone(host: str, private: bool) -> None:
    assert urls.is_private(host) is private
