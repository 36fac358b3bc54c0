"""Addresses that a worker listens on, in Kafka Connect's form ``http://host:port`` and
``https://host:port``. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

SCHEMES = ("http", "https")
MAIN_PREFIX = "listeners.https."
ADMIN_PREFIX = "admin.listeners.https."
"""Prefixes of the TLS options."""
ANY_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


@dataclass(frozen=True, slots=True)
class Listener:
    """One address. Port 0 becomes a number when it is bound."""

    scheme: str
    host: str
    port: int

    @property
    def secure(self) -> bool:
        """True if the listener uses TLS."""
        return self.scheme == "https"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the listener."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """The address as written in a worker's file."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def address(self) -> str:
        """The address for log lines."""
        return f"{self.host or '*'}:{self.port}"

    def at_port(self, port: int) -> Listener:
        """Return the listener with the port that it was bound to."""
        return replace(self, port=port)


def parse_listener(text: str) -> Listener:
    """Parse one entry of ``listeners``. Raise ValueError with the reason."""
    url = urlsplit(text.strip())
    try:
        port = url.port
    except ValueError:
        port = None
    if url.scheme.lower() not in SCHEMES or port is None or url.path.strip("/"):
        raise ValueError("a listener is written as http://host:port or https://host:port")
    return Listener(url.scheme.lower(), url.hostname or "", port)


def advertised(listeners: Iterable[Listener], scheme: str | None) -> Listener | None:
    """Return the listener whose address is advertised to others, or None.

    It is the first with the requested scheme, else the first with http, else with https, as in
    Connect.
    """
    for wanted in (scheme.lower(),) if scheme else SCHEMES:
        for listener in listeners:
            if listener.scheme == wanted:
                return listener
    return None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a listener on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
