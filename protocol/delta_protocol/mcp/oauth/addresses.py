"""Which addresses an OAuth request may be sent to (acceptance 70): what a stranger's document names is resolved, and
only a public address will do, unless the connector itself is of this machine or a private network."""

from __future__ import annotations

import ipaddress

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192")
)
"""Where clouds tell a machine its credentials: never an authorisation server."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def fault_of(address: str, *, local: bool) -> str:
    """Return why nothing may be sent to `address`, or nothing. `local` allows loopback and private networks."""
    try:
        given = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"{address!r} is no address"
    for each in _meanings(given):
        if each in _METADATA or each.is_link_local:
            return f"{address} is link-local or a cloud's metadata service"
        if each.is_multicast or each.is_unspecified:
            return f"{address} is no single host's"
        if not each.is_global and not (local and (each.is_loopback or each.is_private)):
            return f"{address} is not a public address"
    return ""


def _meanings(address: _Address) -> tuple[_Address, ...]:
    """Return the address and the IPv4 addresses it carries within: mapped, 6to4, Teredo, NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    within: list[_Address] = [address]
    if address.sixtofour is not None:
        within.append(address.sixtofour)
    if address.teredo is not None:
        within.extend(address.teredo)
    if address in _NAT64:
        within.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        within.remove(address)
    return tuple(within)
