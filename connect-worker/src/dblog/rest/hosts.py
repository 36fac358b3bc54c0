"""Tells which names a listener may be called by (the Host header), so that a name of an attacker's that leads to the worker's address opens nothing.

A page in a browser reaches this worker under the page's own name when that name resolves to the worker's address (DNS rebinding). A login that the page does
not know keeps it out. Where none is asked for, whoever may change something calls by a name that nobody outside can own: an address, a name without a dot, one
of this machine, or one that only a private network or a cluster resolves (RFC 6761, 6762, 8375; ICANN's .internal; Kubernetes's names of services). Whoever
may only read, calls by any.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from starlette.types import Scope

from dblog.config.roles import READING
from dblog.rest.identity import Identity, Way

_PRIVATE = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa", ".svc")
_RESOLVER = Path("/etc/resolv.conf")


class Hosts:
    """The names of one listener."""

    def __init__(self, listed: Sequence[str], *, own: Iterable[str], identity: Identity | None, namespaces: Iterable[str] = ()) -> None:
        """``listed``: dblog.rest.allowed.hosts. ``own``: names of this machine, which count in any case. ``identity`` None: every name is taken that is not
        kept out by a list. ``namespaces``: as ``cluster_suffixes`` finds them.
        """
        self._own = frozenset(name.lower() for name in own if name)
        self._listed = frozenset(name.lower() for name in listed)
        self._identity = identity
        self._suffixes = tuple(namespaces)

    def takes(self, scope: Scope, host: str) -> bool:
        """Tell whether a request with this Host header, in small letters, may go on."""
        name = host_name(host)
        if self._listed:
            return bool({host, name} & (self._listed | self._own))
        if self._identity is None or self._identity.asks:
            return True
        principal = self._identity.without_header(scope)
        return principal is None or principal.way is not Way.OPEN or principal.grants is READING or self._is_private(name.removesuffix("."))

    def _is_private(self, name: str) -> bool:
        if "." not in name or name in self._own or name.endswith(_PRIVATE):
            return True
        if any(name.endswith(suffix) and "." not in name.removesuffix(suffix) for suffix in self._suffixes):
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def host_name(host: str) -> str:
    """Return a Host header without its port; the brackets of an IPv6 address stay."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def cluster_suffixes(environment: os._Environ[str] | dict[str, str] = os.environ, resolver: Path = _RESOLVER) -> tuple[str, ...]:
    """Return what stands after a service's own name where Kubernetes runs this worker: ``.namespace``, and the same with the cluster's domain."""
    if "KUBERNETES_SERVICE_HOST" not in environment:
        return ()
    try:
        lines = resolver.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    domains = [domain.lower() for line in lines if line.startswith("search") for domain in line.split()[1:]]
    return tuple(suffix for domain in domains if ".svc." in domain for suffix in (f".{domain}", f".{domain.partition('.svc.')[0]}"))
