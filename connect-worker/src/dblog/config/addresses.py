"""Normalizes the spelling of hosts, without asking a name service.

An address has many spellings. ``169.254.169.254`` is ``2852039166``, ``0xA9FEA9FE`` and
``0251.0376.0251.0376`` for ``inet_aton``, with which the name service's functions of every platform
read numbers. In IPv6 it is ``::ffff:169.254.169.254``, and IDNA folds its wide digits in names.
Code that compares hosts has to compare what the spellings mean.
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
    """Return True if a text can be one host name or address, and nothing else that a library
    accepts, such as a list of hosts or a socket's folder.
    """
    return _HOST_FORM.fullmatch(text) is not None


def host_of(text: str) -> Address | str:
    """Return the address that a text means, or its name in lower case without a final dot."""
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
    """Fold a name as Python does before it asks the name service."""
    if text.isascii():
        return text
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        return unicodedata.normalize("NFKC", text).replace("。", ".")


def _unwrapped(address: ipaddress.IPv6Address) -> Address:
    """Return the IPv4 address that an IPv6 address leads to, if any."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
