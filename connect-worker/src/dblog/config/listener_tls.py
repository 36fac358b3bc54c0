"""TLS of the worker's listeners: Kafka Connect's options, the files that they name, and a server
context that follows these files.

As in Connect, the options below ``listeners.https.`` apply if there are any, else the worker's own
``ssl.*``. PEM and PKCS12 are read, whatever type is configured; a JKS store is refused with the
command that converts it. Besides Connect's one keystore, a certificate and its key may be two
files, as certificate issuers of Kubernetes write them (``ssl.certificate.location``,
``ssl.key.location``).

The files are checked regularly. A renewed certificate is used for the next connection; an unusable
one is reported while the former stays in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from dblog.config.cipher_suites import OF_TLS_1_3, CipherSuites
from dblog.config.followed import Followed
from dblog.config.listeners import MAIN_PREFIX
from dblog.config.named_files import NamedFile
from dblog.config.options import split_list
from dblog.config.stores import certificates_of, identity_of, load_identity
from dblog.errors import ConfigError

_log = structlog.get_logger("dblog.config")

_KEYSTORE = "ssl.keystore.location"
_CERTIFICATE = "ssl.certificate.location"
_KEY = "ssl.key.location"
_TRUSTSTORE = "ssl.truststore.location"
_AUTHORITIES = "ssl.ca.location"
_READ = frozenset(
    {
        _KEYSTORE,
        _CERTIFICATE,
        _KEY,
        _TRUSTSTORE,
        _AUTHORITIES,
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.truststore.password",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
_JAVA_ONLY = frozenset(
    {
        "ssl.keystore.type",
        "ssl.truststore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "ssl.endpoint.identification.algorithm",
    }
)
"""Accepted without effect: the type is visible in the file, and a server has no host name of a
client to check.
"""
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSV1.2": ssl.TLSVersion.TLSv1_2, "TLSV1.3": ssl.TLSVersion.TLSv1_3}
_SOON_S = 14 * 24 * 3600


@dataclass(frozen=True, slots=True)
class CertificateInUse:
    """A listener's certificate, with its expiry for monitoring."""

    named_by: str
    """The option that names the file."""
    path: str
    subject: str
    expires_s: float
    """Earliest expiry in the chain, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """The TLS options of one set of listeners."""

    prefix: str
    """The prefix of the options in the worker's file."""
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str], prefix: str = MAIN_PREFIX) -> Self:
        """Return the options below the prefix, or the worker's own if there are none."""
        given = {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}
        if given:
            return cls(prefix, given)
        return cls("", {name: text for name, text in properties.items() if name in _READ})

    @property
    def asks_for_certificates(self) -> bool:
        """True if clients are asked for a certificate. Certificates that they show are verified."""
        return self._client_auth() is not ssl.CERT_NONE

    @property
    def requires_certificates(self) -> bool:
        """True if clients without a certificate are refused."""
        return self._client_auth() is ssl.CERT_REQUIRED

    def files(self) -> dict[str, str]:
        """Return the paths by the option that names them."""
        names = (_KEYSTORE, _CERTIFICATE, _KEY, _TRUSTSTORE, _AUTHORITIES)
        return {f"{self.prefix}{name}": self.texts[name].strip() for name in names if self.texts.get(name, "").strip()}

    def context(self) -> tuple[ssl.SSLContext, CertificateInUse]:
        """Return a context from the files' current content.

        Raise ConfigError naming the option at fault.
        """
        self._require_known()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self._versions()
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        self._keep_to_suites(context)
        named_by, pem, password = self._identity()
        try:
            load_identity(context, pem, password)
        except (ssl.SSLError, ValueError) as e:
            raise named_by.unusable(f"its key does not open with the password, or does not fit its certificate: {e}") from None
        if self.asks_for_certificates:
            self._trust(context)
        return context, _described(named_by, pem)

    def certificates(self) -> list[str]:
        """Return the PEM certificates by which a client recognizes another worker with the same
        options.

        They are the own certificate with its chain, and the configured authorities. Raise
        ConfigError naming the option at fault.
        """
        _, pem, _ = self._identity()
        own = "".join(c.public_bytes(Encoding.PEM).decode() for c in x509.load_pem_x509_certificates(pem))
        name = _AUTHORITIES if _AUTHORITIES in self.texts else _TRUSTSTORE
        if name not in self.texts:
            return [own]
        file = self._file(name, f"certificates in PEM, or in a PKCS12 store that opens with {self.prefix}ssl.truststore.password")
        return [own, certificates_of(file, self.texts.get("ssl.truststore.password"))]

    @property
    def suites_beside_the_list(self) -> frozenset[str]:
        """Suites that are offered although ssl.cipher.suites leaves them out."""
        suites = self._suites()
        return OF_TLS_1_3 - suites.of_tls_1_3 if suites and self._versions()[1] is ssl.TLSVersion.TLSv1_3 else frozenset()

    def _suites(self) -> CipherSuites:
        return CipherSuites.of(self.texts.get("ssl.cipher.suites", ""))

    def _keep_to_suites(self, context: ssl.SSLContext) -> None:
        suites = self._suites()
        if suites.of_tls_1_2:
            try:
                context.set_ciphers(suites.openssl_list)
            except ssl.SSLError as e:
                raise self._wrong("ssl.cipher.suites", "names no cipher suite that is known here; write Java's names or OpenSSL's") from e
        elif suites.of_tls_1_3 and context.maximum_version is not ssl.TLSVersion.TLSv1_3:
            raise self._wrong("ssl.cipher.suites", f"lists suites of TLS 1.3 alone, which {self.prefix}ssl.enabled.protocols leaves out")
        elif suites.of_tls_1_3:
            context.minimum_version = ssl.TLSVersion.TLSv1_3

    def _identity(self) -> tuple[NamedFile, bytes, str | None]:
        key_password = self.texts.get("ssl.key.password")
        if _CERTIFICATE in self.texts:
            certificate = self._file(_CERTIFICATE, "PEM with the certificate of this worker and those of its authorities")
            if _KEY not in self.texts:
                raise self._wrong(_KEY, f"is missing; it names the file with the key of {self.prefix}{_CERTIFICATE}")
            return certificate, self._file(_KEY, "PEM with a private key").read() + b"\n" + certificate.read(), key_password
        if _KEYSTORE not in self.texts:
            reason = (
                "is missing, and a listener with https needs a certificate: name a file of PEM with key and certificate or a PKCS12 store, or give "
                f"{self.prefix}{_CERTIFICATE} and {self.prefix}{_KEY}"
            )
            raise self._wrong(_KEYSTORE, reason)
        store = self._file(
            _KEYSTORE, f"a private key and its certificate, in PEM or in a PKCS12 store that opens with {self.prefix}ssl.keystore.password"
        )
        password = self.texts.get("ssl.keystore.password")
        return store, identity_of(store, password), password if key_password is None else key_password

    def _trust(self, context: ssl.SSLContext) -> None:
        """Load the authorities of client certificates.

        There is no default: the machine's authorities would accept anybody with a public
        certificate.
        """
        name = _AUTHORITIES if _AUTHORITIES in self.texts else _TRUSTSTORE
        if name not in self.texts:
            raise self._wrong(
                _TRUSTSTORE,
                f"is missing; {self.prefix}ssl.client.auth needs the certificates of the authorities that sign those of clients",
            )
        file = self._file(name, f"certificates in PEM, or in a PKCS12 store that opens with {self.prefix}ssl.truststore.password")
        try:
            context.load_verify_locations(cadata=certificates_of(file, self.texts.get("ssl.truststore.password")))
        except (ssl.SSLError, ValueError) as e:
            raise file.unusable(f"its certificates cannot be read: {e}") from None
        context.verify_mode = self._client_auth()

    def _client_auth(self) -> ssl.VerifyMode:
        text = self.texts.get("ssl.client.auth", "").strip().lower() or "none"
        if text not in _CLIENT_AUTH:
            raise self._wrong("ssl.client.auth", f"must be one of {', '.join(_CLIENT_AUTH)}")
        return _CLIENT_AUTH[text]

    def _versions(self) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
        names = split_list(self.texts.get("ssl.enabled.protocols", "")) or tuple(_VERSIONS)
        found = [_VERSIONS.get(name.upper()) for name in names]
        if not all(found):
            raise self._wrong("ssl.enabled.protocols", "may list TLSv1.2 and TLSv1.3; older ones are not safe")
        versions = sorted(version for version in found if version is not None)
        return versions[0], versions[-1]

    def _require_known(self) -> None:
        unknown = sorted(name for name in self.texts if name.startswith("ssl.") and name not in _READ | _JAVA_ONLY)
        if unknown:
            raise self._wrong(unknown[0], f"is not a key of a listener; there are {', '.join(sorted(_READ))}")

    def _file(self, name: str, expected: str) -> NamedFile:
        return NamedFile(f"{self.prefix}{name}", self.texts[name].strip(), expected, for_owner=True)

    def _wrong(self, name: str, reason: str) -> ConfigError:
        return ConfigError({f"{self.prefix}{name}": [reason]})


def _described(file: NamedFile, pem: bytes) -> CertificateInUse:
    certificates = x509.load_pem_x509_certificates(pem)
    ends = min(certificate.not_valid_after_utc for certificate in certificates)
    return CertificateInUse(file.named_by, file.path, certificates[0].subject.rfc4514_string(), ends.timestamp())


class ServerContext(ssl.SSLContext):
    """A context whose certificate may change.

    Each connection gets the files' content of the last check.
    """

    _tls: ListenerTls
    _followed: Followed[tuple[ssl.SSLContext, CertificateInUse]]

    def __new__(cls, tls: ListenerTls) -> Self:
        """Create the context. Raise ConfigError for unusable files."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._tls = tls
        made._followed = Followed("the certificate of the listeners", tls.files().values(), tls.context)
        _warn(made.certificate)
        if beside := tls.suites_beside_the_list:
            _log.warning(
                "suites of TLS 1.3 stay on beside the listed ones, because they cannot be chosen one by one",
                suites=", ".join(sorted(beside)),
                remedy=f"list them too, or keep to TLS 1.2 with {tls.prefix}ssl.enabled.protocols",
            )
        return made

    def __init__(self, tls: ListenerTls) -> None:
        """Do nothing: __new__ has done all, and Python's own class takes a protocol here."""

    @property
    def certificate(self) -> CertificateInUse:
        """The certificate that clients see now."""
        return self._followed.value[1]

    @property
    def requires_certificates(self) -> bool:
        """True if clients without a certificate are refused."""
        return self._tls.requires_certificates

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Return a new connection's SSL object, at asyncio's request."""
        return self._followed.value[0].wrap_bio(*arguments, **named)

    def refresh(self) -> None:
        """Check the files, and reread them if they have changed.

        Do not call it in the event loop's thread, because file systems may be slow.
        """
        if self._followed.refresh():
            _warn(self.certificate)


def _warn(certificate: CertificateInUse) -> None:
    left_s = certificate.expires_s - datetime.now(UTC).timestamp()
    if left_s < _SOON_S:
        _log.warning(
            "the listeners' certificate ends soon" if left_s > 0 else "the listeners' certificate has ended",
            file=certificate.path,
            ends=datetime.fromtimestamp(certificate.expires_s, UTC).isoformat(timespec="seconds"),
            remedy=f"renew it; {certificate.named_by} is read again when it changes",
        )
