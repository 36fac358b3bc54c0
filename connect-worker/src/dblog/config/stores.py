"""Reads certificates and keys from files that a configuration names: PEM, or PKCS12 stores as Java
keeps them.
"""

from __future__ import annotations

import ssl

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from dblog.config.named_files import NamedFile, in_memory

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
PEM_BEGINS = b"-----BEGIN"


def certificates_of(file: NamedFile, password: str | None) -> str:
    """Return the certificates of a truststore as PEM. Raise ConfigError if there are none."""
    data = file.read()
    if PEM_BEGINS in data:
        certificates = data.decode("ascii", "replace")
    else:
        store = _pkcs12(data, password, file)
        found = [c.certificate for c in store.additional_certs] + ([store.cert.certificate] if store.cert else [])
        certificates = "".join(c.public_bytes(Encoding.PEM).decode() for c in found)
    if "CERTIFICATE-----" not in certificates:
        raise file.unusable("it holds no certificate")
    return certificates


def identity_of(file: NamedFile, password: str | None) -> bytes:
    """Return a private key and its certificates as PEM: a PEM file's own bytes, or the content of a
    PKCS12 store. Raise ConfigError if there are none.
    """
    data = file.read()
    if PEM_BEGINS in data:
        return data
    store = _pkcs12(data, password, file)
    if store.key is None or store.cert is None:
        raise file.unusable("it holds no private key with its certificate")
    pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(c.certificate.public_bytes(Encoding.PEM) for c in (store.cert, *store.additional_certs))


def load_identity(context: ssl.SSLContext, pem: bytes, password: str | None) -> None:
    """Load a key and its certificates into a context. Raise what Python raises.

    Python loads them only from files, so they pass through an anonymous one.
    """
    with in_memory(pem) as path:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(path, password=password or "")


def _pkcs12(data: bytes, password: str | None, file: NamedFile) -> pkcs12.PKCS12KeyAndCertificates:
    if data.startswith(_JKS_MAGIC):
        raise file.unusable(
            "it is a JKS store, which only Java reads; run keytool -importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12"
        )
    if not data.strip():
        raise file.unusable("it is empty")
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError as e:
        raise file.unusable(f"it is neither PEM nor a PKCS12 store that opens with the password: {e}") from None
