"""Finds, for the metrics, when the certificates expire that the worker's file and the connectors
name.

Every option whose name ends like those of Kafka's clients and Debezium's connectors is followed,
whatever reads it. A file that cannot be read or opened is left out: the client that uses it reports
that. A file of many certificates is a bundle of public authorities, of which some expire all the
time, so it is left out too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from cryptography import x509
from cryptography.hazmat.primitives.serialization import pkcs12

from dblog.clock import Clock
from dblog.cluster.statusview import StatusView
from dblog.config.named_files import READS
from dblog.config.providers import Provider, resolve

LOOKED_AGAIN_S = 600.0
BUNDLE_MIN = 20

_FILES = (
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.ca.location",
    "ssl.certificate.location",
    "database.ssl.keystore",
    "database.ssl.truststore",
    "database.sslcert",
    "database.sslrootcert",
)
_TEXTS = ("ssl.keystore.certificate.chain", "ssl.truststore.certificates", "ssl.certificate.pem", "ssl.ca.pem")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The earliest expiry in one file."""

    use: str
    """kafka, registry, database or listener."""
    connector: str
    """The connector's name. Empty for the worker's own files."""
    name: str
    """The file's name without its folder, or the option that holds the certificate itself."""
    ends_s: float


class Certificates:
    """The certificates of one worker.

    ``own`` has the worker's properties, with the values of their placeholders. ``providers``
    replace the placeholders of a connector's properties.
    """

    def __init__(self, own: Mapping[str, str], connectors: StatusView, clock: Clock, *, providers: Mapping[str, Provider]) -> None:
        self._own = own
        self._connectors = connectors
        self._providers = providers
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[Certificate | None, float]] = {}
        """Certificates by connector and option, each with the time when it was read."""

    def all(self) -> list[Certificate]:
        """Return the certificates, read at most ten minutes ago, one for each use, connector and
        name.

        If several options or folders have the same name, the certificate that expires first is
        returned.
        """
        with self._lock:
            now_s = self._clock.monotonic_s()
            found = {}
            for connector, properties in {"": self._own, **self._connectors.configurations()}.items():
                for key in properties:
                    if not key.endswith((*_FILES, *_TEXTS)) or not properties[key]:
                        continue
                    known = self._known.get((connector, key))
                    if known is None or now_s - known[1] > LOOKED_AGAIN_S:
                        known = self._certificate(connector, key, properties), now_s
                    found[connector, key] = known
            self._known = found
            first: dict[tuple[str, str, str], Certificate] = {}
            for certificate, _ in found.values():
                if certificate is not None:
                    who = certificate.use, certificate.connector, certificate.name
                    first[who] = min(certificate, first.get(who, certificate), key=lambda each: each.ends_s)
            return list(first.values())

    def _certificate(self, connector: str, key: str, written: Mapping[str, str]) -> Certificate | None:
        wanted = {name: written[name] for name in (key, _password_key(key)) if written.get(name)}
        properties = resolve(wanted, self._providers).values if connector else wanted
        is_text = key.endswith(_TEXTS)
        try:
            data = properties[key].encode() if is_text else READS.read(properties[key])
            ends = [certificate.not_valid_after_utc.timestamp() for certificate in _certificates_in(data, _password(key, properties))]
        except (OSError, ValueError):
            return None
        if not ends or len(ends) >= BUNDLE_MIN:
            return None
        # A provider's value never appears in metrics, not even as a file's name.
        is_shown = not is_text and properties[key] == written[key]
        return Certificate(_use(key), connector, PurePath(written[key]).name if is_shown else key, min(ends))


def _certificates_in(data: bytes, password: bytes | None) -> Iterator[x509.Certificate]:
    """Yield the certificates of a PEM text or a PKCS12 store."""
    if b"-----BEGIN" in data:
        yield from x509.load_pem_x509_certificates(data)
        return
    store = pkcs12.load_pkcs12(data, password)
    if store.cert is not None:
        yield store.cert.certificate
    yield from (each.certificate for each in store.additional_certs)


def _password(key: str, properties: Mapping[str, str]) -> bytes | None:
    text = properties.get(_password_key(key))
    return text.encode() if text else None


def _password_key(key: str) -> str:
    return key.removesuffix(".location") + ".password"


def _use(key: str) -> str:
    if key.startswith("listeners."):
        return "listener"
    if "schema.registry" in key:
        return "registry"
    return "database" if key.startswith("database.") else "kafka"
