"""A connection to a MySQL or MariaDB server: its address, login and TLS, and the meaning of its
failures.

PyMySQL does the handshake, authentication (caching_sha2_password, ed25519, ...) and TLS. ``Wire``
hides it from the rest of the dialect. Every driver error becomes a ``TransientError`` (another try
may help) or a ``DefiniteError`` (a person must act). Messages name server and user, but never the
password, nor text of the server that could contain data of rows.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import SERVER_STATUS

from dblog.abort import Abort
from dblog.config.named_files import NamedFile
from dblog.config.stores import certificates_of, identity_of, load_identity
from dblog.dialects.answer_budget import AnswerBudget
from dblog.dialects.connection_counts import needs
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.wire.guarded import ANSWER_BYTES_MAX, GuardedConnection, no_server
from dblog.errors import (
    DblogError,
    DefiniteError,
    NoConnectionsError,
    ServerChangedError,
    TableChangedError,
    TableLockedError,
    TransientError,
    leaves_transaction_open,
)

SSL_MODES = {
    "disabled": "disabled", "preferred": "preferred", "required": "required", "verify_ca": "verify_ca",
    "verify_identity": "verify_identity",
    "disable": "disabled", "trust": "required", "verify-ca": "verify_ca", "verify-full": "verify_identity",
}  # fmt: skip
"""Values of database.ssl.mode: Debezium's names for MySQL, then those for MariaDB."""

STATEMENT_TIMEOUT_S = 3600.0
"""The longest wait of our statements for the next byte. A chunk's first row can take long on a busy
server.
"""

WAIT_TIMEOUT_S = 31_536_000
"""The server's maximum. Our idle sessions live long, because a paused dump or a full queue must not
lose its connection.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """Settings of a connection: the address of the server, the login, TLS and time limits."""

    host: str
    user: str
    port: int = 3306
    password: str = field(default="", repr=False)
    ssl_mode: str = "preferred"
    truststore: str | None = None
    """A PEM file of certificates, or a PKCS12 store."""
    truststore_password: str | None = field(default=None, repr=False)
    keystore: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 30.0
    statement_timeout_s: float | None = STATEMENT_TIMEOUT_S
    """Longest silence of the server while a statement runs (database.query.timeout.ms); None for no
    limit.
    """
    keep_alive: bool = True
    keep_alive_interval_s: int = 60
    initial_statements: tuple[str, ...] = ()
    takes_public_key: bool = False
    """True if the password may be encrypted with a key that the server sends over a connection
    without TLS.
    """
    abort: Abort | None = field(default=None, repr=False, compare=False)
    """A signal that cuts every connection made with these settings, even during its login."""
    budget: AnswerBudget | None = field(default=None, repr=False, compare=False)
    """The limit on bytes that these connections and others may read together; None for no limit."""
    needs: str = field(default="", compare=False)
    """A sentence about the connections that the connector needs, for the error of a server that has
    none left.
    """

    @property
    def address(self) -> str:
        """``host:port`` for messages."""
        return f"{self.host}:{self.port}"


def settings_of(options: Mapping[str, Any]) -> ConnectSettings:
    """Return the settings in a connector's parsed options (Debezium's manual, "MySQL connector",
    Connector properties); missing ones have Debezium's defaults.
    """

    def get(key: str, default: Any) -> Any:
        value = options.get(key)
        return default if value is None else value

    statements = str(get("database.initial.statements", ""))
    return ConnectSettings(
        host=str(options["database.hostname"]),
        port=int(get("database.port", 3306)),
        user=str(options["database.user"]),
        password=str(get("database.password", "")),
        ssl_mode=str(get("database.ssl.mode", "preferred")).lower(),
        truststore=get("database.ssl.truststore", None),
        truststore_password=get("database.ssl.truststore.password", None),
        keystore=get("database.ssl.keystore", None),
        keystore_password=get("database.ssl.keystore.password", None),
        connect_timeout_s=float(get("connect.timeout.ms", 30_000)) / 1000,
        statement_timeout_s=_statement_timeout_s(options),
        keep_alive=bool(get("connect.keep.alive", True)),
        keep_alive_interval_s=max(1, int(get("connect.keep.alive.interval.ms", 60_000)) // 1000),
        initial_statements=split_statements(statements),
        takes_public_key=bool(get("driver.allowPublicKeyRetrieval", False)),
        needs=needs(options),
    )


def _statement_timeout_s(options: Mapping[str, Any]) -> float | None:
    """Return database.query.timeout.ms in seconds, None for no limit (0). The default is an hour,
    because a chunk of a huge table may take long.
    """
    originals = getattr(options, "originals", options)
    if not originals.get("database.query.timeout.ms"):
        return STATEMENT_TIMEOUT_S
    timeout_ms = int(options["database.query.timeout.ms"])
    return timeout_ms / 1000 if timeout_ms else None


def split_statements(text: str) -> tuple[str, ...]:
    """Split ``database.initial.statements`` at semicolons; a doubled one stands for itself
    (Debezium's rule).
    """
    marked = text.replace(";;", "\0")
    return tuple(part.replace("\0", ";").strip() for part in marked.split(";") if part.strip())


class Wire:
    """An open connection, for statements with answers held in memory, or for its bare socket."""

    def __init__(self, connection: Any, settings: ConnectSettings, forget: Callable[[], None]) -> None:
        """Wrap an open connection. ``forget`` is called on close, to remove it from the abort
        signal.
        """
        self._connection = connection
        self._forget = forget
        self.settings = settings

    @property
    def socket(self) -> socket.socket:
        """The socket (an SSLSocket under TLS). Between statements PyMySQL holds no unread byte of
        it.
        """
        sock = self._connection._sock  # noqa: SLF001 - PyMySQL has no public way to its socket
        if sock is None:
            message = f"the connection to {self.settings.address} is closed"
            raise TransientError(message)
        return sock  # type: ignore[no-any-return]

    @property
    def server_version(self) -> str:
        """The version text of the handshake."""
        return str(self._connection.server_version)

    @property
    def id(self) -> int:
        """The server's number of the connection, from the handshake."""
        return int(self._connection.thread_id())

    def query(
        self, statement: str, arguments: Sequence[Any] = (), *, doing: str = "a query", bytes_max: int = ANSWER_BYTES_MAX
    ) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; ``%s`` marks its arguments. ``doing`` completes "...
        failed" in error messages. ``bytes_max`` limits the rows' memory.
        """
        cursor = self._connection.cursor()
        text = cursor.mogrify(statement, tuple(arguments) or None)
        return self._rows(cursor, text, doing, bytes_max)

    @property
    def commits_each_statement(self) -> bool:
        """True if no transaction is open, and none begins implicitly, by the server's latest
        answer.
        """
        status = self._connection.server_status
        return bool(status & SERVER_STATUS.SERVER_STATUS_AUTOCOMMIT and not status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def run_of_user(self, statement: str, *, doing: str) -> None:
        """Run a statement of the user. It may contain a password, so an error shows only the
        server's number.
        """
        self._rows(self._connection.cursor(), statement, doing, ANSWER_BYTES_MAX, secret=True)

    def query_bytes(self, statement: str, *, doing: str) -> list[tuple[Any, ...]]:
        """Return all rows with texts as the received bytes, for answers that the server does not
        keep in the connection's charset.
        """
        self._connection.use_unicode = False
        try:
            return self.query(statement, doing=doing)
        finally:
            self._connection.use_unicode = True

    def query_named(self, statement: str, *, doing: str = "a query") -> list[dict[str, Any]]:
        """Return all rows by column name, for SHOW statements whose columns differ by version."""
        return self._rows(self._connection.cursor(pymysql.cursors.DictCursor), statement, doing, ANSWER_BYTES_MAX)

    def _rows(self, cursor: Any, text: str, doing: str, bytes_max: int, *, secret: bool = False) -> list[Any]:
        self._connection.answer_bytes_max = bytes_max
        try:
            with cursor:
                cursor.execute(text)
                return list(cursor.fetchall())
        except pymysql.err.Error as e:
            # The driver's error has the server's text, and as a cause it would appear in a trace.
            raise translate(e, self.settings, doing, secret=secret) from (None if secret else e)
        except (DblogError, MemoryError):
            raise
        except Exception as e:
            # PyMySQL trusts a server to behave like one. Otherwise it may raise any class, even a
            # bare Exception. It does so too for an answer that asks for a file of this machine
            # (LOAD DATA LOCAL), which is never sent.
            self.abort()
            message = (
                f"{doing} at {self.settings.address} failed: the answer is not a MySQL or MariaDB server's ({type(e).__name__}); check database.hostname and "
                "database.port"
            )
            raise DefiniteError(message) from e

    def limit_answers(self, limit_s: float) -> None:
        """Let later statements wait at most this long for their next byte."""
        self._connection._read_timeout = limit_s  # noqa: SLF001

    def close(self) -> None:
        """Say goodbye and close. Harmless if the connection is already closed."""
        sock = self._connection._sock  # noqa: SLF001
        with contextlib.suppress(Exception):
            self._connection.close()
        if sock is not None and sock.fileno() >= 0:  # PyMySQL leaves it open if its goodbye fails
            _shut_down(sock)  # a thread that still reads it must wake before its number is free
            os.close(sock.detach())
        self._connection.release()
        self._forget()

    def abort(self) -> None:
        """Cut the connection at once, from any thread, even during a statement. Its reader gets a
        TransientError.
        """
        _cut(self._connection)


def _cut(connection: Any) -> None:
    sock = connection._sock  # noqa: SLF001
    if sock is not None:
        _shut_down(sock)


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def identity(uuid: str | None, server_id: int | str) -> str:
    """Return the server's name in offsets: for MySQL its UUID, for MariaDB its server_id."""
    return uuid or f"server_id {server_id}"


def check_identity(wire: Wire, wanted: str | None) -> None:
    """Raise ServerChangedError if the connection has reached another server than the wanted one."""
    if wanted is None:
        return
    rows = wire.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid')", doing="asking which server it is")
    facts = {str(name).lower(): str(value) for name, value in rows}
    found = identity(facts.get("server_uuid"), facts["server_id"])
    if found != wanted:
        message = f"another server answers at {wire.settings.address} now: it is {found}, the log is read from {wanted}; the connector starts again"
        raise ServerChangedError(message)


_MARIADB_UNVERIFIED = "trust"
"""MariaDB's name of TLS without verification of the certificate."""


def open_wire(settings: ConnectSettings, *, again: bool = False) -> Wire:
    """Connect, authenticate and prepare the session (UTC, utf8mb4, our sql_mode).

    ``again``: the server has been reached before, so an unknown host counts as transient.
    """
    connection = GuardedConnection(
        takes_public_key=settings.takes_public_key, trusts_tls=settings.ssl_mode != _MARIADB_UNVERIFIED, budget=settings.budget,
        host=settings.host, port=settings.port, user=settings.user, password=settings.password.encode(), charset="utf8mb4",
        connect_timeout=max(settings.connect_timeout_s, 0.001), read_timeout=max(settings.connect_timeout_s, 1.0), autocommit=True,
        program_name="dblog", defer_connect=True, **tls_arguments(settings),
    )  # fmt: skip
    forget = settings.abort.on(lambda: _cut(connection)) if settings.abort is not None else _nothing
    try:
        _connect(connection, settings, again=again)
    except BaseException:
        forget()
        raise
    wire = Wire(connection, settings, forget)
    try:
        _keep_alive(wire.socket, settings)
        for statement in (
            f"SET SESSION wait_timeout = {WAIT_TIMEOUT_S}",
            f"SET SESSION net_write_timeout = {WAIT_TIMEOUT_S}",
            *_values(wire),
        ):
            wire.query(statement, doing="setting up the session")
        _run_initial(wire, settings.initial_statements)
        # After the handshake statements may take their time; keep-alive detects a dead peer.
        connection._read_timeout = settings.statement_timeout_s  # noqa: SLF001
    except BaseException as e:
        wire.close()
        if isinstance(e, Exception) and not isinstance(e, (DblogError, MemoryError)):
            raise no_server(settings.address) from e
        raise
    return wire


def _connect(connection: GuardedConnection, settings: ConnectSettings, *, again: bool) -> None:
    """Connect and log in. Raise every failure as a DblogError."""
    try:
        connection.connect()
    except pymysql.err.InternalError as e:
        raise no_server(settings.address) from e
    except pymysql.err.Error as e:
        raise translate(e, settings, "connecting", again=again) from e
    except (DblogError, MemoryError):
        raise
    except UnicodeDecodeError as e:
        raise no_server(settings.address) from e
    except UnicodeError as e:
        message = f"'{settings.host}' is not a host name; correct database.hostname"
        raise DefiniteError(message) from e
    except RuntimeError as e:  # PyMySQL lacks a package for this login method (ed25519: PyNaCl)
        message = f"the login method that {settings.address} wants for user '{settings.user}' cannot be used here: {e}"
        raise DefiniteError(message) from e
    # PyMySQL trusts a server to behave like one; otherwise it may raise any class.
    except Exception as e:
        raise no_server(settings.address) from e


def _nothing() -> None:
    """Forget nothing: without an abort signal the connection was not registered."""


def version_of(text: str) -> tuple[int, int, int]:
    """Return the first three numbers of a version text; missing ones are 0."""
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]] + [0, 0, 0]
    return numbers[0], numbers[1], numbers[2]


def replica_status(version: tuple[int, int, int]) -> str:
    """Return MySQL's statement for the replication status. SHOW SLAVE STATUS was renamed in 8.0.22
    and removed in 8.4.
    """
    return "SHOW REPLICA STATUS" if version >= (8, 0, 22) else "SHOW SLAVE STATUS"


_NO_LIMIT = 2**64 - 1


def _values(wire: Wire) -> tuple[str, ...]:
    """Return statements that fix the form of values and names, and allow watermarks to be written."""
    return (
        f"SET SESSION sql_mode = '{sql.SESSION_SQL_MODE}'",
        "SET SESSION time_zone = '+00:00'",
        # Without the first, names in SHOW CREATE TABLE could not be told from the rest. The second
        # would silently cut off a catalog's rows.
        f"SET SESSION sql_quote_show_create = ON, sql_select_limit = {_NO_LIMIT}",
        # Watermarks are written; transaction_read_only is only a session's default.
        "SET SESSION TRANSACTION READ WRITE",
        *_old_names(wire.server_version),
    )


def _run_initial(wire: Wire, statements: Sequence[str]) -> None:
    """Run the user's statements. Raise DefiniteError if they leave a transaction open, in which
    watermarks would wait, or turn off logging. The form of values is restored after them.
    """
    if not statements:
        return
    for number, statement in enumerate(statements, start=1):
        wire.run_of_user(statement, doing=f"statement {number} of database.initial.statements")
        if not wire.commits_each_statement:
            raise DefiniteError(leaves_transaction_open(number))
    for statement in ("SET NAMES utf8mb4", *_values(wire)):
        wire.query(statement, doing="setting up the session")
    if not wire.query("SELECT @@SESSION.sql_log_bin", doing="setting up the session")[0][0]:
        message = "database.initial.statements set sql_log_bin = 0: watermarks would not be in the log, and no chunk could be read; leave that out"
        raise DefiniteError(message)


def _old_names(server_version: str) -> tuple[str, ...]:
    """Return statements that make MariaDB 10.6 and later read ``utf8_bin`` as ``utf8mb3_bin``.

    Empty for other servers. This is MariaDB's default mode, but a server may have been given
    another one, and sql.py uses the old names.
    """
    found = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", server_version)
    if found and (int(found[1]), int(found[2])) >= (10, 6):
        return ("SET SESSION old_mode = 'UTF8_IS_UTF8MB3'",)
    return ()


def _keep_alive(sock: socket.socket, settings: ConnectSettings) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(settings.keep_alive))
    if settings.keep_alive and hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, settings.keep_alive_interval_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, settings.keep_alive_interval_s // 4))


# -- TLS -------------------------------------------------------------------------------------------


def tls_arguments(settings: ConnectSettings) -> dict[str, Any]:
    mode = SSL_MODES.get(settings.ssl_mode)
    if mode is None:
        message = f"database.ssl.mode is '{settings.ssl_mode}'; use one of {', '.join(SSL_MODES)}"
        raise DefiniteError(message)
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not settings.keystore:
        return {}
    context = _trusting(settings)
    # Certificates that MySQL generates lack what strict verification (Python 3.13's default)
    # demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if mode in ("verify_ca", "verify_identity"):
        context.verify_mode = ssl.CERT_REQUIRED
        context.check_hostname = mode == "verify_identity"
    if settings.keystore:
        _load_identity(context, settings.keystore, settings.keystore_password)
    return {"ssl": context}


_STORE = "{content} in PEM, or in a PKCS12 store that opens with {option}.password (keytool -importkeystore makes one of JKS)"


def _trusting(settings: ConnectSettings) -> ssl.SSLContext:
    """Return a context that trusts only the certificates of the truststore, if there is one. The
    machine's own authorities would vouch for any server with a public certificate.
    """
    if not settings.truststore:
        return ssl.create_default_context()
    option = "database.ssl.truststore"
    file = NamedFile(option, settings.truststore, _STORE.format(option=option, content="certificates"))
    certificates = certificates_of(file, settings.truststore_password)
    try:
        return ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError) as e:
        raise file.unusable(f"its certificates cannot be read: {e}") from None


def _load_identity(context: ssl.SSLContext, path: str, password: str | None) -> None:
    """Load our own certificate and key."""
    option = "database.ssl.keystore"
    file = NamedFile(option, path, _STORE.format(option=option, content="a private key and its certificate"))
    pem = identity_of(file, password)
    try:
        load_identity(context, pem, password)
    except (ssl.SSLError, ValueError) as e:
        raise file.unusable(f"its key does not open with the password, or does not fit its certificate: {e}") from None


# -- the meaning of errors -------------------------------------------------------------------------


class PrivilegeError(DefiniteError):
    """An error for an action that the account may not do; a GRANT helps."""


class ReadOnlyError(DefiniteError):
    """An error for a write to a read-only server, which takes no watermarks either."""


LOST = frozenset({1053, 1077, 1079, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1317, 1927, 2006, 2013, 2055, 3169, 4031})
"""Errors by which the connection was lost: shutdown, aborted or killed connections, network errors,
inactivity.
"""

BUSY = frozenset(
    {
        2,
        5,
        13,
        20,
        23,
        29,
        1021,
        1028,
        1037,
        1038,
        1040,
        1041,
        1047,
        1114,
        1135,
        1180,
        1203,
        1206,
        1213,
        1226,
        1461,
        1614,
        1969,
        3024,
        3100,
        3101,
        3572,
    }
)
"""Errors by which the server is short of something: too many connections or statements, deadlock,
disk full, out of memory, statement time, a cluster node that is not ready. Numbers below 100 are of
the server's file system (mysys_err.h): a file that it cannot read or find now, no memory or handle
for it.
"""

_LOCK_WAIT_TIMEOUT = 1205
"""The error ER_LOCK_WAIT_TIMEOUT."""

TABLE_CHANGED = frozenset({1049, 1054, 1072, 1146, 1176, 1267, 1412, 1615})
"""Errors by which a table is gone or has changed: unknown database, column or table, missing index,
a bound that cannot be compared with its column (another charset by now), table definition changed
under the snapshot.
"""

DENIED = frozenset({1044, 1142, 1143, 1227, 1370, 1045, 1698})

READ_ONLY = frozenset({1290, 1792, 1836})

_PRIVILEGE = re.compile(r"at least one of\) the (.+?) privilege")


def translate(error: Exception, settings: ConnectSettings, doing: str, *, again: bool = False, secret: bool = False) -> DblogError:
    """Return the dblog error for a PyMySQL error. ``secret``: the statement was the user's, so none
    of its text is repeated.
    """
    code, text = _parts(error)
    where = f"{doing} at {settings.address} failed"
    original = getattr(error, "original_exception", None)
    if code == 2003 and original is not None:  # noqa: PLR2004 - CR_CONN_HOST_ERROR, PyMySQL's wrapper of OSError
        return _network(original, settings, again=again)
    if isinstance(error, pymysql.err.InterfaceError) or code == 0:
        return TransientError(f"{where}: the connection is closed")
    return meaning(code, None if secret else text, settings, doing)


def meaning(code: int, text: str | None, settings: ConnectSettings, doing: str) -> DblogError:
    """Return the dblog error for a server's error number. ``text`` is that of ``server_message``."""
    error, untold = (_meaning(code, told, settings, doing) for told in (text, None))
    if str(untold) != str(error):
        error.discreet = str(untold)
    return error


def _meaning(code: int, text: str | None, settings: ConnectSettings, doing: str) -> DblogError:
    where = f"{doing} at {settings.address} failed"
    if code in (1045, 1698):
        return DefiniteError(
            f"the server at {settings.address} refused user '{settings.user}': the password is wrong, or no such "
            "account may come from this "
            "machine; correct database.user and database.password, or create the account"
        )
    if code in (1130, 1129):
        remedy = "run FLUSH HOSTS there" if code == 1129 else "let the account's host part include this machine"  # noqa: PLR2004
        return DefiniteError(f"the server at {settings.address} does not talk to this machine (error {code}); {remedy}")
    if code in (1251, 2059, 1524):
        return DefiniteError(
            f"the server at {settings.address} asks user '{settings.user}' for a login method that is not supported (error {code}); "
            "use caching_sha2_password, mysql_native_password or ed25519 for this account"
        )
    if code == 2026:  # noqa: PLR2004 - CR_SSL_CONNECTION_ERROR, PyMySQL's word for a greeting without TLS
        return DefiniteError(
            f"the server at {settings.address} offers no TLS, which database.ssl.mode={settings.ssl_mode} asks for; turn it on there: ssl_cert and ssl_key in "
            "the server's configuration, no skip_ssl, and a restart"
        )
    if code == 3159:  # noqa: PLR2004 - ER_SECURE_TRANSPORT_REQUIRED
        strictest = "verify-full" if settings.ssl_mode == "disable" else "verify_identity"
        return DefiniteError(
            f"the server at {settings.address} takes connections with TLS only, and database.ssl.mode={settings.ssl_mode} makes none; set "
            f"database.ssl.mode={strictest} and name the authority of its certificate in database.ssl.truststore"
        )
    if code in LOST:
        return TransientError(f"{where}: the connection was lost (error {code})")
    if (limit := _limit_of_connections(code, text, settings)) is not None:
        more = f"; {settings.needs}" if settings.needs else ""
        return NoConnectionsError(f"the server at {settings.address} is out of connections (error {code}){more}: {limit}")
    if code == _LOCK_WAIT_TIMEOUT:
        return TableLockedError(
            f"{where}: somebody locks the table, or rows of it, and was waited for long enough (error {code}); SHOW FULL PROCESSLIST there shows who has been "
            "at it for long"
        )
    if code in BUSY:
        return TransientError(f"{where}: the server is short of something for now (error {code})")
    if code in TABLE_CHANGED:
        return TableChangedError(f"{where}: the table is gone or has changed ({server_message(code, text)})")
    if code in DENIED:
        found = _PRIVILEGE.search(text or "")
        missing = f"the privilege {found[1]}" if found else "a privilege"
        return PrivilegeError(f"{where}: user '{settings.user}' lacks {missing} ({server_message(code, text)})")
    if code in READ_ONLY:
        return ReadOnlyError(
            f"{where}: the server is read-only (error {code}); dblog writes its watermarks, so point it at a server that takes writes, or set "
            "read.only=true, with which it writes none"
        )
    return DefiniteError(f"{where}: {server_message(code, text)}")


def _limit_of_connections(code: int, text: str | None, settings: ConnectSettings) -> str | None:
    """Return the remedy if a server, or a proxy before it, accepts no further connection; None for
    any other error.
    """
    account = f"user '{settings.user}'"
    if code == 1040:  # noqa: PLR2004 - ER_CON_COUNT_ERROR
        return "raise max_connections there, or end sessions that nobody needs"
    if code == 1203:  # noqa: PLR2004 - ER_TOO_MANY_USER_CONNECTIONS
        return f"{account} has as many as max_user_connections lets it have; raise that, or give the connectors accounts of their own"
    if code != 1226:  # noqa: PLR2004 - ER_USER_LIMIT_REACHED
        return None
    if "max_connections_per_hour" in (text or ""):
        return f"{account} has made as many in this hour as its account allows; run there ALTER USER ... WITH MAX_CONNECTIONS_PER_HOUR 0"
    if "max_user_connections" in (text or ""):
        return f"{account} has as many as its account allows; run there ALTER USER ... WITH MAX_USER_CONNECTIONS 0, or a larger number"
    return None


_NAMING = (
    DENIED
    | TABLE_CHANGED
    | frozenset(
        {
            1007, 1008, 1016, 1030, 1031, 1033, 1034, 1035, 1036, 1050, 1051, 1064, 1069, 1071, 1104, 1115, 1117, 1118, 1193, 1194, 1195, 1221, 1231,
            1235, 1236, 1238, 1273, 1286, 1289, 1295, 1298, 1356, 1373, 1381, 1419, 1436, 1449, 1568, 1665, 1783, 1785, 1786, 1787, 1790, 1812, 1932,
            3750,
        }
    )
)  # fmt: skip
"""Errors of our own statements whose texts contain names, numbers and words of the statement, but
never data of rows.
"""

_CUT = frozenset({1062, 1292, 1366})
"""Errors whose texts state the problem before a value in quotes. A value may contain quotes, and be
cut off with the text, so everything after the first quote may be part of it.
"""

_TEXT_CHARACTERS_MAX = 512
"""The longest text of a server's error (MYSQL_ERRMSG_SIZE)."""


def server_message(code: int, text: str | None) -> str:
    """Return an error of the server for a message: its number, and the part of its text that cannot
    contain data of rows. ``text`` is None for a statement whose words are secret.
    """
    if text is None:
        return f"error {code}"
    clean = "".join(char if char.isprintable() else "?" for char in text[:_TEXT_CHARACTERS_MAX])
    if code in _NAMING:
        return f"error {code}: {clean}"
    if code in _CUT:
        head, quote, _ = clean.partition("'")
        return f"error {code}: {head}'...'" if quote else f"error {code}"
    return f"error {code}, whose text may hold values of rows and is not repeated; the statement is in the server's own logs, where they are on"


def _parts(error: Exception) -> tuple[int, str]:
    arguments = error.args
    code = arguments[0] if arguments and isinstance(arguments[0], int) else 0
    return code, str(arguments[1]) if len(arguments) > 1 else ""


_OTHER_HOST = (62, 64)
_WRONG_TIME = (9, 10)
_WRONG_PURPOSE = 26
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH, _CERT_NOT_YET_VALID and
_CERT_HAS_EXPIRED, _INVALID_PURPOSE.
"""


def _certificate(error: ssl.SSLCertVerificationError, settings: ConnectSettings) -> DefiniteError:
    """Return the error for a certificate, with a remedy for its fault. A weaker mode would accept
    anybody's certificate, so it is never the remedy.
    """
    code, reason = getattr(error, "verify_code", 0), getattr(error, "verify_message", "no reason given").rstrip(".")
    if code in _OTHER_HOST:
        return DefiniteError(
            f"the certificate of {settings.address} is for another host ({reason}); set database.hostname to a name that the certificate holds, or give the "
            f"server a certificate that holds '{settings.host}'"
        )
    if code in _WRONG_TIME:
        remedy = "renew the server's certificate, or correct the clock of this machine"
    elif code == _WRONG_PURPOSE:
        remedy = "give the server a certificate that was made for servers"
    else:
        remedy = "name the authority that signed it in database.ssl.truststore"
    return DefiniteError(f"the certificate of {settings.address} is not trusted ({reason}); {remedy}")


def _network(error: BaseException, settings: ConnectSettings, *, again: bool) -> DblogError:
    match error:
        case ssl.SSLCertVerificationError():
            return _certificate(error, settings)
        case ssl.SSLError() if not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return DefiniteError(
                f"no TLS with {settings.address} ({getattr(error, 'reason', None)}); check database.ssl.mode and the stores"
            )
        case socket.gaierror() if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            message = f"the host '{settings.host}' is not known; check database.hostname and the name service"
            return TransientError(message) if again else DefiniteError(message)
        case socket.gaierror():
            return TransientError(f"the name service did not answer for '{settings.host}'")
        case ConnectionRefusedError():
            return TransientError(f"nothing listens at {settings.address}; check that the server runs, database.hostname and database.port")
        case TimeoutError():
            return TransientError(f"{settings.address} did not answer within {settings.connect_timeout_s:g} s")
        case OSError():
            return TransientError(f"no connection to {settings.address}: {error.strerror or type(error).__name__}")
        case _:
            return TransientError(f"no connection to {settings.address}: {type(error).__name__}")
