"""Finds settings that leave a connection open to eavesdroppers. Pure.

Each gives one warning at the start, with the alternative; none is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from dblog_sink.config.job_options import Settings

_PROTOCOL, _MECHANISM = "kafka.security.protocol", "kafka.sasl.mechanism"
_IDENTIFICATION = "kafka.ssl.endpoint.identification.algorithm"


def insecure_choices(settings: Settings) -> dict[str, str]:
    """Return a sentence for each insecure setting, by its key. It contains no secret."""
    found = {}
    if (settings["registry.auth"] or settings["registry.token"]) and any(map(_is_open, settings["registry.url"].split(","))):
        found["registry.url"] = "anybody who can read the traffic gets the registry's login; use https://"
    kafka: Mapping[str, str] = settings.kafka
    if _value(kafka, _PROTOCOL) == "sasl_plaintext" and _value(kafka, _MECHANISM) == "plain":
        found[_PROTOCOL] = "anybody who can read the traffic gets the brokers' password; use SASL_SSL"
    if _value(kafka, _IDENTIFICATION) in ("", "none"):
        found[_IDENTIFICATION] = "a certificate of any host is taken for the broker's; use https"
    return found


def _value(properties: Mapping[str, str], name: str) -> str | None:
    text = properties.get(name)
    return None if text is None else text.strip().lower()


def _is_open(url: str) -> bool:
    """Return True if the address is reached over a network without TLS."""
    parts = urlsplit(url.strip())
    if parts.scheme.lower() != "http":
        return False
    host = (parts.hostname or "").removesuffix(".")
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost" and not host.endswith(".localhost")
