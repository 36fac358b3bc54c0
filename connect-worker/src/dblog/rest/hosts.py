"""Decides which names a client may use for a listener (the Host header), so that an attacker's name
for the worker's address opens nothing.

A page in a browser reaches this worker under the page's own name if that name resolves to the
worker's address (DNS rebinding). A login that the page does not know keeps it out. Without a login,
a caller who may change something must use a name that nobody outside can own: an address, a name
without a dot, a name of this machine, or a name that only a private network or a cluster resolves
(RFC 6761, 6762, 8375; ICANN's .internal; Kubernetes's names of services). A caller who may only
read can use any name.
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
    """The accepted names of one listener."""

    def __init__(self, listed: Sequence[str], *, own: Iterable[str], identity: Identity | None, namespaces: Iterable[str] = ()) -> None:
        """Collect the names.

        ``listed`` is dblog.rest.allowed.hosts. ``own`` are names of this machine, which are always
        accepted. With ``identity`` None every name is accepted unless there is a list.
        ``namespaces`` are the result of ``cluster_suffixes``.
        """
        self._own = frozenset(name.lower() for name in own if name)
        self._listed = frozenset(name.lower() for name in listed)
        self._identity = identity
        self._suffixes = tuple(namespaces)

    def takes(self, scope: Scope, host: str) -> bool:
        """Return True if a request with this Host header, in lower case, may go on."""
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
    """Return a Host header without its port. The brackets of an IPv6 address stay."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def cluster_suffixes(environment: os._Environ[str] | dict[str, str] = os.environ, resolver: Path = _RESOLVER) -> tuple[str, ...]:
    """Return the suffixes of service names if Kubernetes runs this worker, else an empty tuple.

    They are ``.namespace.svc`` with the cluster's domain, and ``.namespace`` alone if no domain
    outside can have that name: in a namespace that is called dev or app the name of a Service looks
    like one that anyone may buy. Domains at the top are letters alone, or begin with ``xn--``
    (RFC 3696, section 2; ICANN's Applicant Guidebook, 2.2.1.3.2).
    """
    if "KUBERNETES_SERVICE_HOST" not in environment:
        return ()
    try:
        lines = resolver.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    domains = [domain.lower() for line in lines if line.startswith("search") for domain in line.split()[1:]]
    suffixes = []
    for domain in (domain for domain in domains if ".svc." in domain):
        namespace = domain.partition(".svc.")[0]
        suffixes += [f".{domain}", *([] if _may_be_public(namespace) else [f".{namespace}"])]
    return tuple(suffixes)


def _may_be_public(name: str) -> bool:
    """Return True if a domain at the top of the public name service may have the name."""
    return name.isalpha() or name.startswith("xn--")
