"""How often a client may ask, and which address counts as the client, as pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.mcp import request_rates
from delta_protocol.mcp.forwarded import ProxyHeader, client_address
from delta_protocol.mcp.http_ladder import Headers
from delta_protocol.mcp.request_rates import RequestRates

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 20)), max_size=60)


@given(STEPS, st.integers(1, 5))
def test_no_window_of_a_client_holds_more_than_the_limit(steps: list[tuple[str, float]], limit: int) -> None:
    rates, now = RequestRates(limit, 10.0), 0.0
    let_in: dict[str, list[float]] = {}
    for client, pause in steps:
        now += pause
        wait = rates.take(client, now)
        recent = [moment for moment in let_in.setdefault(client, []) if moment > now - 10.0]
        assert (wait == 0) == (len(recent) < limit)
        assert 0 <= wait <= 10.0
        if not wait:
            let_in[client].append(now)


def test_who_asked_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rates, "MOST_CLIENTS", 2)
    rates = RequestRates(1, 60.0)
    assert [rates.take(client, 0.0) for client in "abc"] == [0, 0, 0]
    assert len(rates) == 2
    assert rates.take("c", 1.0) == 59.0
    assert rates.take("a", 1.0) == 0


def test_the_moments_of_all_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rates, "MOST_MOMENTS", 10)
    rates = RequestRates(8, 60.0)
    for moment in range(8):
        rates.take("a", float(moment))
        rates.take("b", float(moment))
    assert len(rates) == 1


def test_without_a_limit_nothing_is_remembered() -> None:
    rates = RequestRates(0, 60.0)
    assert [rates.take("a", 0.0) for _ in range(100)] == [0] * 100
    assert len(rates) == 0


@pytest.mark.parametrize(
    ("header", "values", "proxies", "address"),
    [
        ("x-forwarded-for", ["1.1.1.1, 2.2.2.2"], 0, "10.0.0.1"),
        ("x-forwarded-for", ["1.1.1.1, 2.2.2.2"], 1, "2.2.2.2"),
        ("x-forwarded-for", ["1.1.1.1", "2.2.2.2:4711"], 1, "2.2.2.2"),
        ("x-forwarded-for", ["1.1.1.1, 2.2.2.2"], 2, "1.1.1.1"),
        ("x-forwarded-for", ["1.1.1.1, 2.2.2.2"], 9, "1.1.1.1"),
        ("x-forwarded-for", ["2001:db8::1"], 1, "2001:db8::1"),
        ("x-forwarded-for", ["[2001:db8::1]:80"], 1, "2001:db8::1"),
        ("x-forwarded-for", [], 1, "10.0.0.1"),
        ("forwarded", ["for=1.1.1.1, for=2.2.2.2;proto=https;by=3.3.3.3"], 1, "2.2.2.2"),
        ("forwarded", ['proto=http;For="[2001:db8:cafe::17]:4711"'], 1, "2001:db8:cafe::17"),
        ("forwarded", ['for=1.1.1.1, for="a, for=9.9.9.9"'], 2, "1.1.1.1"),
        ("forwarded", ["for=1.1.1.1, by=2.2.2.2"], 1, "unknown"),
        ("forwarded", ["for=_hidden"], 1, "_hidden"),
    ],
)
def test_addresses_are_counted_from_the_right(
    header: ProxyHeader, values: list[str], proxies: int, address: str
) -> None:
    pairs = [(header.encode(), value.encode()) for value in values]
    assert client_address(Headers(pairs), "10.0.0.1", proxies, header) == address


@given(st.text(st.characters(max_codepoint=255), max_size=80), st.integers(1, 3))
def test_whatever_a_client_sends_the_nearest_entry_is_the_proxys(sent: str, proxies: int) -> None:
    pairs = [(b"x-forwarded-for", sent.encode("latin-1")), (b"x-forwarded-for", b"192.0.2.1")]
    assert client_address(Headers(pairs), "10.0.0.1", 1, "x-forwarded-for") == "192.0.2.1"
    assert client_address(Headers([(b"forwarded", sent.encode("latin-1"))]), "10.0.0.1", proxies, "forwarded")
