"""Parses ``dblog.rest.proxies``: the proxies of the REST interface that are trusted to name the
client of a request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from dblog.config.options import Value

PROXIES = "dblog.rest.proxies"


class Proxies:
    """Addresses and networks of proxies. ``texts`` are in their original spelling."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Parse the list. Raise ValueError for a text that is neither an address nor a network."""
        self.texts = tuple(texts)
        self._networks = tuple(ipaddress.ip_network(text, strict=False) for text in self.texts)

    def __contains__(self, host: object) -> bool:
        try:
            address = ipaddress.ip_address(str(host))
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def proxies(value: Value, _all: Mapping[str, Value]) -> str | None:
    """Check that every item is an address or a network."""
    try:
        Proxies(value if isinstance(value, tuple) else ())
    except ValueError:
        return "each item has to be an address, or a network such as 10.1.0.0/16"
    return None
