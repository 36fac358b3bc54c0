"""A certificate authority that issues certificates for servers, both valid and faulty ones."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


@dataclass
class Authority:
    """An issuer of certificates; ``path`` is the file with its certificate, for a truststore."""

    folder: Path

    def __post_init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the authority")])
        self.path = self.folder / "authority.pem"
        self.path.write_bytes(self._signed(self.name, self.key, [(x509.BasicConstraints(ca=True, path_length=None), True)]))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        *,
        since: dt.datetime = NOW - DAY,
        until: dt.datetime = NOW + DAY,
        self_signed: bool = False,
    ) -> bytes:
        builder = (
            x509.CertificateBuilder().subject_name(subject).issuer_name(subject if self_signed else self.name).public_key(key.public_key())
        )
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(since).not_valid_after(until)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(key if self_signed else self.key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def server(
        self,
        *,
        host: x509.GeneralName | None = None,
        since: dt.datetime = NOW - DAY,
        until: dt.datetime = NOW + DAY,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
        self_signed: bool = False,
    ) -> ssl.SSLContext:
        """Return a TLS context with a server's certificate, valid but for the given parameters."""
        certificate, key = self.identity(host=host, since=since, until=until, purpose=purpose, self_signed=self_signed)
        file = self.folder / "server.pem"
        file.write_bytes(key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def identity(
        self,
        name: str = "the database",
        *,
        host: x509.GeneralName | None = None,
        since: dt.datetime = NOW - DAY,
        until: dt.datetime = NOW + DAY,
        purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
        self_signed: bool = False,
        password: str = "",
    ) -> tuple[bytes, bytes]:
        """Return a certificate, valid but for the given parameters, and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([host or x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        extensions = [(names, False), (x509.ExtendedKeyUsage([purpose]), False)]
        pem = self._signed(subject, key, extensions, since=since, until=until, self_signed=self_signed)
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return pem, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
