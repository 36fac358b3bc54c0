"""Checks parts of a configuration that go into an HTTP request: hosts, ports, headers. Pure.

A part that HTTP cannot carry would cause a library error in the middle of a task, or a second
request inside a header. A host that two parsers read differently would bypass
``dblog.connector.allowed.hosts``. So these parts must be plain ASCII in the form of RFC 9110, or
are refused with their option. No message shows a value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

_NAME = re.compile(r"(?=.{1,254}\Z)(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_TEXT = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
_TOKEN = re.compile(r"[!-~]+")
_FRAMING = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via"}
)
"""Headers that Java's HTTP client does not let callers set either."""
_PORT_MAX = 65_535


def is_host(text: str) -> bool:
    """Return True for a host name in ASCII, or an address; an IPv6 address without brackets."""
    if ":" in text:
        try:
            ipaddress.IPv6Address(text)
        except ValueError:
            return False
        return "%" not in text
    if not _NAME.fullmatch(text):
        return False
    if not _NUMBER.fullmatch(text.rstrip(".").rpartition(".")[2]):
        return True
    try:
        ipaddress.IPv4Address(text)
    except ValueError:  # an address in a spelling with several readings, such as 0251.254.43518
        return False
    return True


def check_request_parts(settings: Mapping[str, str], option_prefix: str) -> dict[str, list[str]]:
    """Return the errors in a converter's token, headers and proxy, by full option."""
    errors: dict[str, list[str]] = {}
    token = settings.get("bearer.auth.token")
    if token and not _TOKEN.fullmatch(token):
        errors["bearer.auth.token"] = [
            "is not a token: it may have visible ASCII characters only, without blanks or a line break at its end"
        ]
    for name, text in settings.items():
        if not name.startswith("request.header."):
            continue
        header = name.removeprefix("request.header.")
        if not _HEADER_NAME.fullmatch(header):
            errors[name] = ["is not a name of an HTTP header: letters, digits and -_.!#$%&'*+^`|~"]
        elif header.lower() in _FRAMING:
            errors[name] = ["this header is HTTP's own and cannot be given"]
        elif not _HEADER_TEXT.fullmatch(text):
            errors[name] = ["is not a value of an HTTP header: visible ASCII characters, with blanks between them but no line break"]
    if host := settings.get("proxy.host"):
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not is_host(bare) or (":" in bare) is not host.startswith("["):
            errors["proxy.host"] = ["is neither a host name nor an address (write one of IPv6 in brackets)"]
        port = settings.get("proxy.port", "80")
        if not (port.isascii() and port.isdigit() and len(port) <= len(str(_PORT_MAX)) and 1 <= int(port) <= _PORT_MAX):
            errors["proxy.port"] = [f"is not a port: a number from 1 to {_PORT_MAX}"]
    return {option_prefix + name: texts for name, texts in errors.items()}
