"""Gives libpq the TLS files of a connection as files in memory, and keeps it from looking for
others.

libpq takes texts as the names of files, and reads more into them. A key with a colon names an
engine, which OpenSSL loads as a library; a file that is not named is looked for in the home
directory. Its errors also tell a missing file from an unreadable one. So each file is read as every
file of a configuration is (config/named_files.py), and libpq gets a path to the content. Source:
PostgreSQL's fe-secure-openssl.c, ``initialize_SSL``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg2

from dblog.config.named_files import NamedFile, in_memory
from dblog.errors import ConfigError

ROOT, CERTIFICATE, KEY = "database.sslrootcert", "database.sslcert", "database.sslkey"

OF_THE_MACHINE = "system"
"""Value of sslrootcert for the machine's own authorities."""

NO_FILE = "/nonexistent/dblog"
"""Path that is given where libpq would look for a file of its own choice: authorities, lists of
revoked certificates, passwords.
"""

_EXPECTED = {
    ROOT: "certificates of authorities in PEM",
    CERTIFICATE: "the client's certificate in PEM",
    KEY: "the private key of database.sslcert in PEM, which opens with database.sslpassword where it is encrypted",
}


@contextmanager
def tls_files(mode: str, *, root: str | None, certificate: str | None, key: str | None) -> Iterator[dict[str, str]]:
    """Yield libpq's parameters for the files that a connection uses. The paths are valid within the
    block, while the connection is made. Raise ConfigError for a file that cannot be used.
    """
    parameters = {"sslrootcert": NO_FILE, "sslcrl": NO_FILE, "sslcertmode": "disable", "passfile": NO_FILE}
    if mode == "disable":
        yield parameters
        return
    if mode.startswith("verify") and not root:
        message = (
            f"database.sslmode={mode} checks the server's certificate, and {ROOT} does not name a PEM file of authorities; name one, or write "
            f"{ROOT}={OF_THE_MACHINE} for the machine's own"
        )
        raise ConfigError({ROOT: [message]})
    if certificate and not key:
        raise ConfigError({KEY: [f"{CERTIFICATE} is set, and {KEY} does not name the file with its private key"]})
    named = {}
    if root == OF_THE_MACHINE:
        parameters["sslrootcert"] = OF_THE_MACHINE
    elif root:
        named["sslrootcert"] = NamedFile(ROOT, root, _EXPECTED[ROOT])
    if certificate and key:
        parameters["sslcertmode"] = "allow"
        named["sslcert"] = NamedFile(CERTIFICATE, certificate, _EXPECTED[CERTIFICATE])
        named["sslkey"] = NamedFile(KEY, key, _EXPECTED[KEY])
    with ExitStack() as files:
        paths = {parameter: files.enter_context(in_memory(file.read())) for parameter, file in named.items()}
        try:
            yield {**parameters, **paths}
        except psycopg2.Error as e:
            for parameter, file in named.items():
                if f'"{paths[parameter]}"' in str(e):
                    raise file.unusable(str(e).replace(paths[parameter], file.path)) from None
            raise
