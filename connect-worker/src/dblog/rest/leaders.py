"""Decides to which leader's address a standby may forward requests with their logins.

The address comes from the group's claim and so from the brokers: a server that answers as one of
them, or a client that may commit to the group, can name any address. The worker's own file limits
it: by the scheme of its listener and by the list of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from dblog.config.hosts import is_listed

WORKERS = "dblog.rest.workers.allowed.hosts"

_PORTS = {"http": "80", "https": "443"}


def fault_of(leader: str, *, own_url: str, listed: Sequence[str]) -> str | None:
    """Return why the leader's address gets no requests, or None if it may.

    ``listed`` are the entries of WORKERS; an empty list allows any host.
    """
    try:
        parts = urlsplit(leader)
        host, port = parts.hostname, str(parts.port or _PORTS.get(parts.scheme, ""))
    except ValueError:
        return "its address is not a URL"
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        return "its address is not the URL of a worker"
    if parts.scheme != "https" and own_url.startswith("https://"):
        return "it is called without TLS, which this worker's own listener has"
    if listed and not is_listed(host, port, listed):
        return f"its host is not listed in {WORKERS}"
    return None
