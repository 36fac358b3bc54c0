"""Groups addresses by client."""

from __future__ import annotations

import ipaddress


def client_of(host: str) -> str:
    """Return the key that identifies a client: its address, or for IPv6 the customer's /64 network,
    which holds more addresses than any table.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((int(address), 64), strict=False).network_address)
    return str(address)
