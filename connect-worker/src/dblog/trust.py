"""Decides which TLS certificates to trust, and explains why one is not trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

from dblog.errors import DefiniteError

OPTION = "--ca"

_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's error codes for a certificate of another host name or address."""
_NOT_ITS_TIME = frozenset({9, 10})
"""OpenSSL's error codes for a certificate that is not valid yet, or has expired."""


def trusting(authorities: Path | None) -> ssl.SSLContext:
    """Return a context that trusts these CA certificates, or by default the machine's
    (SSL_CERT_FILE).

    Raise DefiniteError if the file holds no certificates.
    """
    try:
        return ssl.create_default_context(cafile=None if authorities is None else str(authorities))
    except (OSError, ssl.SSLError) as e:
        raise DefiniteError(
            f"the certificates in {authorities} cannot be used ({type(e).__name__}); name a file in PEM with {OPTION}"
        ) from e


def unreached(what: str, address: object, error: Exception, remedy: str = "") -> str:
    """Return why ``what`` at ``address`` gave no answer: nobody listens, or its certificate is not
    trusted.

    ``remedy`` is added if nobody answers.
    """
    nobody = f"no {what} answers at {address} ({type(error).__name__})" + (f"; {remedy}" if remedy else "")
    return distrusted(what, address, error) or nobody


def distrusted(what: str, address: object, error: Exception) -> str | None:
    """Return what is wrong with the certificate of ``what``, and the remedy. None for any other
    error.
    """
    refused = _refused(error)
    if refused is None:
        return None
    if refused.verify_code in _OTHER_NAME:
        mended = "name it by an address that its certificate is for"
    elif refused.verify_code in _NOT_ITS_TIME:
        mended = "renew it, or set the clock right"
    else:
        mended = f"name the authorities that signed it with {OPTION}"
    return f"the certificate of the {what} at {address} is not trusted: {_words(refused)}; {mended}"


def kind_of(error: Exception) -> str:
    """Return the cause of a failed request in a few words, for use in a longer sentence."""
    refused = _refused(error)
    return type(error).__name__ if refused is None else f"its certificate is not trusted: {_words(refused)}"


def _refused(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return OpenSSL's error that caused ``error``, if there is one."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _words(refused: ssl.SSLCertVerificationError) -> str:
    return refused.verify_message.rstrip(".")
