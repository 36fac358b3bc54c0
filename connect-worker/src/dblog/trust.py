"""Which certificates of the other end are trusted by those who ask over TLS, and why one is not."""

from __future__ import annotations

import ssl
from pathlib import Path

from dblog.errors import DefiniteError

OPTION = "--ca"

_OTHER_NAME = frozenset({62, 64})
"""OpenSSL's numbers of a certificate that is for another host name or address."""
_NOT_ITS_TIME = frozenset({9, 10})
"""Of one that is not valid yet, or no longer."""


def trusting(authorities: Path | None) -> ssl.SSLContext:
    """Trusts what these authorities have signed, else what the machine's own have (or those of SSL_CERT_FILE). DefiniteError for a file of none."""
    try:
        return ssl.create_default_context(cafile=None if authorities is None else str(authorities))
    except (OSError, ssl.SSLError) as e:
        raise DefiniteError(
            f"the certificates in {authorities} cannot be used ({type(e).__name__}); name a file in PEM with {OPTION}"
        ) from e


def unreached(what: str, address: object, error: Exception, remedy: str = "") -> str:
    """Why there is no answer of ``what`` at ``address``: nobody answers, and then ``remedy`` helps, or who answers is not trusted."""
    nobody = f"no {what} answers at {address} ({type(error).__name__})" + (f"; {remedy}" if remedy else "")
    return distrusted(what, address, error) or nobody


def distrusted(what: str, address: object, error: Exception) -> str | None:
    """What is wrong with the certificate of ``what``, and the remedy; None when the request failed by something else."""
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
    """What a request failed by, in a word or few, for a longer sentence."""
    refused = _refused(error)
    return type(error).__name__ if refused is None else f"its certificate is not trusted: {_words(refused)}"


def _refused(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """What OpenSSL said, below what the libraries in between made of it."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def _words(refused: ssl.SSLCertVerificationError) -> str:
    return refused.verify_message.rstrip(".")
