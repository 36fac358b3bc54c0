"""Where a worker listens: addresses as Kafka Connect writes them, ``http://host:port`` and ``https://host:port``. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

SCHEMES = ("http", "https")
MAIN_PREFIX = "listeners.https."
ADMIN_PREFIX = "admin.listeners.https."
"""What stands before the keys of TLS."""
ANY_HOSTS = ("", "0.0.0.0", "::")  # noqa: S104  compared, not bound


@dataclass(frozen=True, slots=True)
class Listener:
    """One address; port 0 becomes a number when it is bound."""

    scheme: str
    host: str
    port: int

    @property
    def secure(self) -> bool:
        """Whether it speaks TLS."""
        return self.scheme == "https"

    @property
    def is_loopback(self) -> bool:
        """Whether it is reached from its own machine only."""
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """As it is written in a worker's file."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def address(self) -> str:
        """For lines of the log."""
        return f"{self.host or '*'}:{self.port}"

    def at_port(self, port: int) -> Listener:
        """The same, bound."""
        return replace(self, port=port)


def parse_listener(text: str) -> Listener:
    """ValueError, with the reason, for a text that is none."""
    url = urlsplit(text.strip())
    try:
        port = url.port
    except ValueError:
        port = None
    if url.scheme.lower() not in SCHEMES or port is None or url.path.strip("/"):
        raise ValueError("a listener is written as http://host:port or https://host:port")
    return Listener(url.scheme.lower(), url.hostname or "", port)


def advertised(listeners: Iterable[Listener], scheme: str | None) -> Listener | None:
    """The listener whose address others get: the first of the scheme that is asked for, else of http, else of https, as in Connect. None: there is none."""
    for wanted in (scheme.lower(),) if scheme else SCHEMES:
        for listener in listeners:
            if listener.scheme == wanted:
                return listener
    return None


def is_loopback(host: str) -> bool:
    """Whether a listener on this host is reached from its own machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
