"""Explains a file of the worker's own Kafka clients that a client has refused.

librdkafka names its own setting and repeats OpenSSL ("x509 certificate routines::BIO lib"). The
author of the worker's file gets the key as it stands there, the reason and the remedy instead. A
connector's answer never has the reason (config/named_files.py), because it would reveal what the
machine has. The client tries the file first, because it accepts more than PEM files, such as a
folder of authorities.
"""

from __future__ import annotations

from dblog.config.clients import CLIENT_FILES
from dblog.config.named_files import read_regular
from dblog.config.worker import WorkerConfig

_ROLES = ("admin", "consumer", "producer")
_EXPECTED = {
    "ssl.ca.location": ("CERTIFICATE", "a PEM file with the certificates of the brokers' authority"),
    "ssl.certificate.location": ("CERTIFICATE", "a PEM file with the client's certificate and its private key"),
    "ssl.key.location": (
        "PRIVATE KEY",
        "a PEM file with the client's private key, which opens with ssl.key.password where it is encrypted",
    ),
    "ssl.crl.location": ("X509 CRL", "a PEM file with the authority's list of revoked certificates"),
}


def refused_file(worker: WorkerConfig, refusal: str) -> str | None:
    """Return the sentence for a client's ``refusal``, or None if it is not about a file."""
    for key, (block, expected) in _EXPECTED.items():
        if f"{key} failed" not in refusal:
            continue
        # The clients of a role may have their own file, so the first faulty one is reported.
        found = [(role, path, _fault(path, block)) for role in _ROLES if (path := worker.client_settings(role).get(key))]
        for role, path, fault in sorted(found, key=lambda each: each[2] is None):
            reason = fault or "its content is damaged, or does not fit the other files"
            return f"{_given(worker, role, key)}: the file {path} cannot be used: {reason}; name {expected}, which the worker may read"
    return None


def _fault(path: str, block: str) -> str | None:
    try:
        text = read_regular(path)
    except (OSError, ValueError) as e:
        return (e.strerror if isinstance(e, OSError) else None) or str(e)
    if not text.strip():
        return "it is empty"
    return None if f"{block}-----".encode() in text else f"it holds no PEM block {block}"


def _given(worker: WorkerConfig, role: str, key: str) -> str:
    """Return the key under which the worker's file names the path."""
    names = [prefix + name for prefix in (f"{role}.", "") for name in (key, CLIENT_FILES[key])]
    return next((name for name in names if name in worker.settings.originals), key)
