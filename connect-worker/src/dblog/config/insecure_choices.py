"""Finds settings that expose a connection to attackers in the network. Each is logged once and gets
a safer value in the validate answer; none is refused.

Debezium's and Kafka's defaults are among them, so that configurations made for these keep working.
The warning makes sure that users learn of it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from dblog.config.clients import CONNECTOR_CLIENTS
from dblog.config.framework import CONVERTER_PREFIXES
from dblog.config.options import Option, raw_text
from dblog.config.unused_stores import mode_of, unused_stores

_WORKER_CLIENTS = ("", "producer.", "consumer.", "admin.")
_REGISTRY_LOGINS = ("basic.auth.user.info", "schema.registry.basic.auth.user.info", "bearer.auth.token")
_OFF_MODES = ("disabled", "disable")
_VERIFYING = ("verify_ca", "verify_identity", "verify-ca", "verify-full")
_HALF_MODES = ("preferred", "required", "trust", "allow", "prefer", "require")
"""Modes of MySQL, MariaDB and PostgreSQL that do not verify the certificate, or use TLS only if the
server offers it.
"""


@dataclass(frozen=True, slots=True)
class InsecureChoice:
    """The risk of a setting, and safer values."""

    reason: str
    safer: tuple[str, ...]


def insecure_choices(options: Iterable[Option], properties: Mapping[str, str | None]) -> dict[str, InsecureChoice]:
    """Return the insecure choices of a connector's configuration, by key.

    Defaults count too, because the risk is the same.
    """
    found = {}
    mode = mode_of(options)
    if mode is not None and (stores := unused_stores(properties, mode=mode)):
        reason = f"the connection is not encrypted, and {' and '.join(stores)} not used"
        found[mode.name] = InsecureChoice(reason, _verifying(mode))
    hosts = ("database.hostname", "dblog.dump.hostname")
    if mode is not None and mode.name not in found and not all(_is_loopback(properties.get(name)) for name in hosts):
        chosen = (raw_text(mode, properties) or "").strip().lower()
        if chosen in _OFF_MODES:
            found[mode.name] = InsecureChoice(f"with {chosen} anybody who can read the traffic gets all rows", _verifying(mode))
        if chosen in _HALF_MODES:
            reason = f"{chosen} does not check the server's certificate: anybody who can change the traffic can answer as the server"
            found[mode.name] = InsecureChoice(reason, _verifying(mode))
    retrieval = "driver.allowPublicKeyRetrieval"
    if _value_of(properties, retrieval) == "true":
        found[retrieval] = InsecureChoice(
            "without TLS, anybody who answers as the server gets the password with a key of its own", ("false",)
        )
    methods = "driver.requireAuth"
    if "password" in (_value_of(properties, methods) or "").split(","):
        found[methods] = InsecureChoice(
            "anybody who answers as the server may ask for the password in clear text", ("!password", "scram-sha-256")
        )
    return found | _of_clients(properties, CONNECTOR_CLIENTS) | _of_registries(properties)


def insecure_worker_choices(properties: Mapping[str, str | None]) -> dict[str, InsecureChoice]:
    """Return the insecure choices of a worker's file: those of its Kafka clients."""
    return _of_clients(properties, _WORKER_CLIENTS) | _of_registries(properties)


def described(choices: Mapping[str, InsecureChoice]) -> str:
    """Return one sentence for each choice, for a log line, with safer values."""
    return "; ".join(f"{key}: {choice.reason}; use {' or '.join(choice.safer)}" for key, choice in choices.items())


def _of_clients(properties: Mapping[str, str | None], prefixes: Iterable[str]) -> dict[str, InsecureChoice]:
    found = {}
    for prefix in prefixes:
        verification = f"{prefix}enable.ssl.certificate.verification"
        if _value_of(properties, verification) == "false":
            found[verification] = InsecureChoice("anybody can answer as a broker and is trusted", ("true",))
        identification = f"{prefix}ssl.endpoint.identification.algorithm"
        if _value_of(properties, identification) in ("", "none"):
            reason = "a certificate of any host is taken for the broker's"
            found[identification] = InsecureChoice(reason, ("https",))
        protocol = f"{prefix}security.protocol"
        if _value_of(properties, protocol) == "sasl_plaintext" and _value_of(properties, f"{prefix}sasl.mechanism") == "plain":
            found[protocol] = InsecureChoice("anybody who can read the traffic gets the brokers' password", ("SASL_SSL",))
    return found


def _of_registries(properties: Mapping[str, str | None]) -> dict[str, InsecureChoice]:
    found = {}
    for prefix in CONVERTER_PREFIXES:
        key = f"{prefix}schema.registry.url"
        urls = [url.strip() for url in (properties.get(key) or "").split(",")]
        open_urls = [url for url in urls if url.lower().startswith("http://") and not _is_loopback(_host_of(url))]
        has_login = any(_value_of(properties, f"{prefix}{name}") for name in _REGISTRY_LOGINS) or any("@" in url for url in open_urls)
        if open_urls and has_login:
            found[key] = InsecureChoice("anybody who can read the traffic gets the registry's login", ("https://...",))
    return found


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return url


def _verifying(mode: Option) -> tuple[str, ...]:
    return tuple(choice for choice in mode.choices if choice in _VERIFYING)


def _value_of(properties: Mapping[str, str | None], name: str) -> str | None:
    text = properties.get(name)
    return None if text is None else text.strip().lower()


def _is_loopback(host: str | None) -> bool:
    name = (host or "").strip().lower().strip("[]").removesuffix(".")
    if name in ("", "localhost") or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
