"""Which host a text means, in whatever spelling: no name service is asked.

An address has many: ``169.254.169.254`` is ``2852039166``, ``0xA9FEA9FE`` and ``0251.0376.0251.0376`` for ``inet_aton``, which the name service's
functions of every platform read numbers by; ``::ffff:169.254.169.254`` in IPv6, and its wide digits in the names that IDNA folds. What compares hosts has
to compare what is meant.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOST_FORM = re.compile(r"[A-Za-z0-9_.:\-\[\]]+")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def has_host_form(text: str) -> bool:
    """Whether a text can be one host name or address, and nothing else that a library reads: no list of hosts, no socket's folder."""
    return _HOST_FORM.fullmatch(text) is not None


def host_of(text: str) -> Address | str:
    """The address that a text is, or its name in small letters without the dot at its end."""
    name = _folded(text.strip()).lower()
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if ":" in name:
        try:
            return _unwrapped(ipaddress.IPv6Address(name.partition("%")[0]))
        except ValueError:
            return name
    name = name.removesuffix(".")
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except (OSError, ValueError):
        return name


def _folded(text: str) -> str:
    """As Python folds a name before it asks the name service."""
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        return unicodedata.normalize("NFKC", text).replace("。", ".")


def _unwrapped(address: ipaddress.IPv6Address) -> Address:
    """The address of IPv4 that one of IPv6 leads to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
