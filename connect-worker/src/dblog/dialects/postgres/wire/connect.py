"""Opens connections to a PostgreSQL server, with login and TLS, and translates their failures.

psycopg2 (libpq) does the handshake, SCRAM and TLS; ``Wire`` hides it from the rest of the dialect.
Every driver error becomes a ``TransientError`` (worth another try) or a ``DefiniteError`` (a person
must act). Messages name server and user, never the password, and never text from the server that
could contain data of rows.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg2
import psycopg2.extras
from psycopg2.extensions import TRANSACTION_STATUS_IDLE

from dblog.abort import Abort
from dblog.config.addresses import has_host_form
from dblog.dialects.answer_budget import AnswerBudget
from dblog.dialects.connection_counts import needs
from dblog.dialects.postgres.wire import _libpq
from dblog.dialects.postgres.wire.answers import ANSWER_BYTES_MAX, ANSWERS, ROW_BYTES_MAX, Answer
from dblog.dialects.postgres.wire.bounded_login import log_in, wait
from dblog.dialects.postgres.wire.encodings import take_bytes_as_they_are
from dblog.dialects.postgres.wire.tls_files import tls_files
from dblog.errors import (
    LOST_REMEDY,
    DblogError,
    DefiniteError,
    NoConnectionsError,
    TableChangedError,
    TableLockedError,
    TransientError,
    leaves_transaction_open,
)

_VALUES = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmloption": "content",
    "standard_conforming_strings": "on",
    "row_security": "off",
    "client_min_messages": "warning",
}
_KEPT = ("client_encoding", "lc_monetary", "quote_all_identifiers")
"""Settings that keep their values from role and database, since the connection that reads the log
has the same values.
"""
SESSION = {
    **_VALUES,
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""Settings of every session.

The first decide the text form of values, in the log and in chunks alike. row_security=off gives an
account with policies an error instead of fewer rows. Limits that a role may have for its sessions
(ALTER ROLE ... SET) are lifted, as they are not meant for connections that read a log, or a table
in a snapshot. Warnings are enabled, because the server reports with one that it decodes without the
publication.
"""

CUTS_TEXT_ALIKE_SQL = "SET standard_conforming_strings = on"
"""Statement to run before conditions of users. They are checked as the server tokenizes them with
this setting, and a pooler may drop the settings that a connection begins with.
"""

_MORE_LIMITS = {"idle_session_timeout": 140000, "transaction_timeout": 170000}
"""Limits that servers know from a version on. An older server refuses a connection that names
them.
"""

STATEMENT_TIMEOUT_S = 3600.0

KEEP_ALIVE = {"keepalives": 1, "keepalives_idle": 60, "keepalives_interval": 15, "keepalives_count": 4, "tcp_user_timeout": 120_000}
"""Options of libpq that detect a dead server within two minutes: by probes while nothing is sent
(PostgreSQL manual, 34.1.2, keepalives_*; in seconds), and by data that it does not acknowledge
(tcp_user_timeout, in milliseconds).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """The address of a server and the login, with the names of libpq (PostgreSQL manual, 34.1.2
    "Parameter Key Words").
    """

    host: str
    user: str
    database: str
    port: int = 5432
    password: str = field(default="", repr=False)
    ssl_mode: str = "prefer"
    ssl_certificate: str | None = None
    ssl_key: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_root: str | None = None
    login_methods: str | None = None
    """Authentication methods that the server may use, as in libpq's require_auth; None for those of
    ``_login_methods``.
    """
    channel_binding: str = "prefer"
    ssl_negotiation: str = "postgres"
    """Start of TLS; with ``direct`` the connection begins with the TLS handshake."""
    connect_timeout_s: float = 30.0
    statement_timeout_s: float | None = STATEMENT_TIMEOUT_S
    keep_alive: bool = True
    initial_statements: tuple[str, ...] = field(default=(), repr=False)
    abort: Abort | None = field(default=None, repr=False, compare=False)
    """Handle that cuts every connection made with these settings; None if nobody needs to."""
    budget: AnswerBudget | None = field(default=None, repr=False, compare=False)
    """Memory that answers on these connections and on others may take together; None for no limit.
    Checks in the worker's own process use it. Their connections are made step by step
    (bounded_login.py).
    """
    needs: str = field(default="", compare=False)
    """Text with the number of connections that the connector needs, for the error of a server that
    has none left.
    """

    @property
    def address(self) -> str:
        """Address as ``host:port``, for messages."""
        return f"{self.host}:{self.port}"


def settings_of(options: Mapping[str, Any]) -> ConnectSettings:
    """Return the settings from a connector's parsed options (Debezium's manual, "PostgreSQL
    connector"). Missing ones get Debezium's defaults.
    """

    def text(key: str) -> str | None:
        value = options.get(key)
        return None if value is None or value == "" else str(value)

    timeout_ms = options.get("database.query.timeout.ms")
    return ConnectSettings(
        host=text("database.hostname") or "",
        user=text("database.user") or "",
        database=text("database.dbname") or "",
        port=int(options.get("database.port") or 5432),
        password=text("database.password") or "",
        ssl_mode=(text("database.sslmode") or "prefer").lower().replace("_", "-"),
        ssl_certificate=text("database.sslcert"),
        ssl_key=text("database.sslkey"),
        ssl_password=text("database.sslpassword"),
        ssl_root=text("database.sslrootcert"),
        login_methods=text("driver.requireAuth"),
        channel_binding=(text("driver.channelBinding") or "prefer").lower(),
        ssl_negotiation=(text("driver.sslNegotiation") or "postgres").lower(),
        connect_timeout_s=int(options.get("connect.timeout.ms") or 30_000) / 1000,
        statement_timeout_s=None if timeout_ms in (None, 0) else int(str(timeout_ms)) / 1000,
        keep_alive=options.get("database.tcpKeepAlive") is not False,
        initial_statements=_statements(text("database.initial.statements") or ""),
        needs=needs(options),
    )


def _statements(text: str) -> tuple[str, ...]:
    """Split statements at semicolons. Two semicolons stand for one inside a statement, as in
    Debezium.
    """
    return tuple(part.replace("\0", ";").strip() for part in text.replace(";;", "\0").split(";") if part.strip())


class PrivilegeError(DefiniteError):
    """The account lacks the privilege for a statement."""


class ReadOnlyError(DefiniteError):
    """A chunk's SELECT calls something that writes."""


class UnconvertedTextError(DefiniteError):
    """A text in the database cannot be converted to UTF-8."""


class LockedError(TableLockedError):
    """Another session holds a lock that the statement did not get in time (lock_not_available)."""


class PublicationMissingError(DefiniteError):
    """The publication did not exist at the position where the log is read, so the changes there
    cannot be read.
    """

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text}: the log is decoded with the publication as it was at each position, so a new one serves only from its creation on; make it; "
            f"{LOST_REMEDY}, and drop the slot then (pg_drop_replication_slot)"
        )


class Wire:
    """An open connection in autocommit mode. Only one thread may use it; ``abort`` and ``close``
    may be called from another.
    """

    def __init__(self, connection: Any, settings: ConnectSettings, forget: Callable[[], None]) -> None:
        self.connection = connection
        self.settings = settings
        self._forget = forget
        self._budget_taken = 0
        self._closing = threading.Lock()
        self._used = threading.Lock()

    @contextlib.contextmanager
    def used(self) -> Iterator[int]:
        """Lend the PGconn for a call of ``_libpq`` that may take long. A thread that cuts and
        closes the connection waits until the call has ended.
        """
        with self._used:
            yield self.pointer

    def copied(self, statement: str, *, doing: str, bytes_max: int = ROW_BYTES_MAX) -> bytes:
        """Return all lines of a ``COPY (...) TO STDOUT``."""
        try:
            with self.bounded(bytes_max), self.used() as connection:
                rows, _, _ = _libpq.copied(connection, statement.encode("utf-8", "surrogateescape"), 0)
        except _libpq.ServerError as e:
            raise translate_server(e, self.settings, doing) from e
        return bytes(rows)

    @property
    def pointer(self) -> int:
        """Address of the PGconn, for ``_libpq``. Raises TransientError once the connection is
        closed.
        """
        try:
            pointer = self.connection.pgconn_ptr
        except psycopg2.Error as e:
            raise translate(e, self.settings, "using the connection") from e
        if not pointer:
            message = f"the connection to {self.settings.address} is closed"
            raise TransientError(message)
        return int(pointer)

    @property
    def in_transaction(self) -> bool:
        """True if statements have begun a transaction that has not ended."""
        return bool(self.connection.info.transaction_status != TRANSACTION_STATUS_IDLE)

    @property
    def version(self) -> int:
        """Version number of the server, such as 150004 for 15.4."""
        return int(self.connection.server_version)

    def query(
        self,
        statement: str,
        arguments: Sequence[Any] = (),
        *,
        doing: str = "a query",
        secret: bool = False,
        limit_s: float | None = None,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, or an empty list if it returns none.

        The connection is cut if the server, which may be dead, has not answered after ``limit_s``
        seconds, or if the answer has more than ``bytes_max`` bytes.
        """
        try:
            with self.bounded(bytes_max) as answer, self._cut_after(limit_s), self.connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                if self.connection.async_:
                    wait(self.connection)
                if cursor.description is None or not answer.weigh_rows(cursor.rowcount, len(cursor.description)):
                    return []
                return list(cursor.fetchall())
        except psycopg2.Error as e:
            raise translate(e, self.settings, doing, secret=secret) from e

    @contextlib.contextmanager
    def bounded(self, bytes_max: int = ANSWER_BYTES_MAX) -> Iterator[Answer]:
        """Limit the server's answer to ``bytes_max`` and to what is left of the budget. A longer
        answer cuts the connection and raises an error that says why.
        """
        try:
            answer = Answer(self.connection.fileno(), bytes_max=bytes_max, budget=self.settings.budget)
        except OSError as e:
            message = f"the connection to {self.settings.address} is closed"
            raise TransientError(message) from e
        try:
            with ANSWERS.watched(answer):
                yield answer
        except (psycopg2.Error, _libpq.ServerError) as e:
            if (error := answer.error(self.settings.address)) is not None:
                raise error from e
            raise
        finally:
            self._budget_taken += answer.budget_taken
        if (error := answer.error(self.settings.address)) is not None:
            raise error

    @contextlib.contextmanager
    def _cut_after(self, limit_s: float | None) -> Iterator[None]:
        if limit_s is None:
            yield
            return
        timer = threading.Timer(limit_s, self.abort)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def one(self, statement: str, arguments: Sequence[Any] = (), *, doing: str = "a query") -> Any:
        """Return the first value of the first row; None if there is no row."""
        rows = self.query(statement, arguments, doing=doing)
        return rows[0][0] if rows else None

    def abort(self) -> None:
        """Cut the connection. Called from another thread."""
        with self._closing, contextlib.suppress(Exception):
            _shut_down(self.connection.fileno())

    def close(self) -> None:
        """Close the connection. libpq frees memory that a call in another thread may be using, so
        this waits for the call to end: cut the connection first.
        """
        self._forget()
        taken, self._budget_taken = self._budget_taken, 0
        if self.settings.budget is not None:
            self.settings.budget.give_back(taken)
        with self._used, self._closing, contextlib.suppress(psycopg2.Error):
            self.connection.close()


def _shut_down(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as other:
        other.shutdown(socket.SHUT_RDWR)


def open_wire(settings: ConnectSettings, *, again: bool = False, replication: bool = False, name: str = "dblog") -> Wire:
    """Connect, authenticate and prepare the session. ``again`` is True for a server that was
    reached before, so that an unknown host counts as a passing error. ``replication`` opens a
    walsender's session for the log.
    """
    if not has_host_form(settings.host):
        # libpq would read a comma as a list of hosts, and a slash or @ as the directory of a
        # socket.
        message = f"'{settings.host}' is not a host name; correct database.hostname, or dblog.dump.hostname"
        raise DefiniteError(message)
    options = " ".join(f"-c {key}={_escaped(value)}" for key, value in SESSION.items())
    keep_alive = KEEP_ALIVE if settings.keep_alive else {"keepalives": 0}
    arguments: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "password": settings.password,
        "dbname": settings.database,
        "connect_timeout": max(2, int(settings.connect_timeout_s)),
        "application_name": name,
        "client_encoding": "UTF8",
        "options": options,
        "sslmode": settings.ssl_mode,
        "sslpassword": settings.ssl_password,
        "require_auth": settings.login_methods or _login_methods(settings.ssl_mode),
        "channel_binding": settings.channel_binding,
        "sslnegotiation": settings.ssl_negotiation,
        **keep_alive,
    }
    arguments = {key: value for key, value in arguments.items() if value is not None}
    if replication:
        arguments["connection_factory"] = psycopg2.extras.LogicalReplicationConnection
    files = tls_files(settings.ssl_mode, root=settings.ssl_root, certificate=settings.ssl_certificate, key=settings.ssl_key)
    try:
        with files as of_files:
            arguments |= of_files
            connection = psycopg2.connect(**arguments) if settings.budget is None else log_in(arguments, address=settings.address)
    except psycopg2.Error as e:
        raise _not_connected(e, settings, again=again) from e
    except UnicodeError as e:
        message = f"'{settings.host}' is not a host name; correct database.hostname"
        raise DefiniteError(message) from e
    forget = _nothing
    if settings.abort is not None:
        forget = settings.abort.on(lambda: _cut(connection))
    wire = Wire(connection, settings, forget)
    try:
        if not connection.async_:
            if not replication:
                connection.autocommit = True
            _take_bytes_as_they_are(wire)
        _lift_limits(wire)
        if not replication:
            timeout_ms = int((settings.statement_timeout_s or 0) * 1000)
            wire.query(f"SET statement_timeout = {timeout_ms}", doing="setting up the session")
            _run_initial(wire, settings.initial_statements)
    except BaseException:
        wire.close()
        raise
    return wire


def _run_initial(wire: Wire, statements: Sequence[str]) -> None:
    """Run the user's statements. They may neither change the text form of values nor leave a
    transaction open, since all chunks would see its snapshot.
    """
    if not statements:
        return
    kept = wire.query(
        "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%s)", (list(_KEPT),), doing="setting up the session"
    )
    for number, statement in enumerate(statements, start=1):
        wire.query(statement, doing=f"statement {number} of database.initial.statements", secret=True)
        if wire.in_transaction:
            raise DefiniteError(leaves_transaction_open(number))
    for name, value in [*kept, *_VALUES.items()]:
        wire.query("SELECT pg_catalog.set_config(%s, %s, false)", (name, value), doing="setting up the session")


def _login_methods(ssl_mode: str) -> str | None:
    """Return the login methods that libpq accepts: all if it has verified the server, else all but
    those that show the password.
    """
    return None if ssl_mode.startswith("verify") else "!password"


def _take_bytes_as_they_are(wire: Wire) -> None:
    try:
        take_bytes_as_they_are(wire.connection)
    except psycopg2.Error as e:
        raise translate(e, wire.settings, "setting up the session") from e


def _lift_limits(wire: Wire) -> None:
    """Lift the limits that cannot be named before the server's version is known."""
    for name, since in _MORE_LIMITS.items():
        if wire.version >= since:
            wire.query(f"SET {name} = 0", doing="setting up the session")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _cut(connection: Any) -> None:
    with contextlib.suppress(Exception):
        _shut_down(connection.fileno())


def _nothing() -> None:
    """Do nothing. Used if no ``Abort`` keeps the connection, so that none has to forget it."""


# -- what failures mean ------------------------------

_ADDRESSED = re.compile(r"connection to server at .*?, port \d+ failed: ")
_UNKNOWN_HOST = ("could not translate host name", "Name or service not known", "nodename nor servname")
_REFUSED_LOGIN = frozenset({"28P01", "28000"})
_TABLE_CHANGED = frozenset({"42P01", "42703", "3F000", "42883", "42804", "0A000", "42P10", "42704"})
"""SQLSTATEs of an undefined table, column, schema or function, of a type that no longer compares,
and of a cached plan that must not change its result type.
"""
_NOT_CONVERTED = frozenset({"22021", "22P05"})
"""SQLSTATEs character_not_in_repertoire and untranslatable_character."""
_TOO_MANY_CONNECTIONS = "53300"
_TRANSIENT_CLASSES = frozenset({"08", "40", "53", "55", "57", "58", "25"})
"""Classes of SQLSTATEs: connection, rollback, resources, object not in its state (a lock, a slot in
use), operator intervention, system error, transaction state.
"""


def translate(error: Exception, settings: ConnectSettings, doing: str, *, secret: bool = False) -> DblogError:
    """Return the dblog error for a psycopg2 error. With ``secret`` the statement was not ours, so
    nothing of the error's text is repeated.
    """
    state = getattr(error, "pgcode", None) or ""
    diagnostics = getattr(error, "diag", None)
    primary = getattr(diagnostics, "message_primary", None)
    if not state:
        return TransientError(f"{doing} at {settings.address} failed: the connection is lost ({first_line(error)})")
    return meaning(state, None if secret else primary, settings, doing)


def translate_server(error: _libpq.ServerError, settings: ConnectSettings, doing: str) -> DblogError:
    """Return the dblog error for an error of ``_libpq``."""
    if not error.sqlstate:
        return TransientError(f"{doing} at {settings.address} failed: the connection is lost ({first_line(error.primary)})")
    return meaning(error.sqlstate, error.primary, settings, doing)


TABLE_CHANGED = ": the table is gone or has changed"
"""End of the text of an error about a changed table. In a statement with a user's text, the names
in that text may just as well be wrong.
"""


def meaning(state: str, primary: str | None, settings: ConnectSettings, doing: str) -> DblogError:
    """Return the dblog error for an SQLSTATE (PostgreSQL manual, appendix A). ``primary`` is the
    error's first line. It quotes values only in the classes 22 and 23, for which it is left out.
    """
    told = "" if primary is None or state[:2] in ("22", "23") else f", {first_line(primary)}"
    text = f"{doing} at {settings.address} failed (SQLSTATE {state}{told})"
    untold = f"{doing} at {settings.address} failed (SQLSTATE {state})"
    error: DblogError
    if state == _TOO_MANY_CONNECTIONS:
        error = _no_connections(primary or "", settings)
    elif state == "53400" and primary is not None and "replication slots" in primary:
        error = TransientError(f"{text}: raise max_replication_slots there, or drop slots that nobody reads (pg_replication_slots)")
    elif state == "42501":
        error = PrivilegeError(f"{text}: user '{settings.user}' may not do that")
    elif state == "42704" and primary is not None and "publication" in primary:
        error = PublicationMissingError(text)
    elif state == "42710" and primary is not None and "publication" in primary:
        error = TransientError(f"{text}: somebody else has done it meanwhile")
    elif state in _TABLE_CHANGED:
        error = TableChangedError(f"{text}{TABLE_CHANGED}")
    elif state == "55P03":
        error = LockedError(text)
    elif state[:2] in _TRANSIENT_CLASSES or state == "XX000":
        error = TransientError(text)
    elif state in _NOT_CONVERTED:
        error = UnconvertedTextError(
            f"{text}: a text there has bytes that the database's encoding gives no character, so the server cannot send it as UTF-8"
        )
    else:
        error = DefiniteError(text)
    error.discreet = untold
    return error


_LIMITS = (
    (
        r"(?:exceeds|number of requested standby connections).*max_wal_senders",
        "raise max_wal_senders there, or end readers of the log that nobody needs",
    ),
    (r"too many connections for role", 'run there ALTER ROLE "{user}" CONNECTION LIMIT -1, or a larger number'),
    (r"too many connections for database", 'run there ALTER DATABASE "{database}" CONNECTION LIMIT -1, or a larger number'),
    (r"too many clients already|remaining connection slots are reserved", "raise max_connections there, or end sessions that nobody needs"),
    (
        r"no more connections allowed|max client(?:s| connections) reached|too many (?:active clients|tcp connections)|query_wait_timeout",
        "raise the limit of the pooler (max_client_conn, pool_size), or name the server itself: the log can be read through no pooler",
    ),
)
"""Patterns of the texts with which a server, or a pooler before it, refuses a further connection,
each with the remedy (backend/utils/init/postinit.c, replication/walsender.c, storage/lmgr/proc.c;
PgBouncer, Supavisor, Odyssey).
"""


def limit_of_connections(text: str, settings: ConnectSettings) -> str | None:
    """Return the remedy if a server refuses a connection with this text because it has too many.
    Return None for any other text.
    """
    found = next((remedy for words, remedy in _LIMITS if re.search(words, text, re.IGNORECASE)), None)
    return None if found is None else found.format(user=settings.user, database=settings.database)


def _no_connections(text: str, settings: ConnectSettings) -> NoConnectionsError:
    limit = limit_of_connections(text, settings) or "raise max_connections there, or end sessions that nobody needs"
    said = text.rpartition("FATAL:")[2].strip()
    more = f"; {settings.needs}" if settings.needs else ""
    return NoConnectionsError(f"the server at {settings.address} is out of connections ({said}){more}: {limit}")


def _not_connected(error: Exception, settings: ConnectSettings, *, again: bool) -> DblogError:
    """Return the dblog error for a failed login. libpq gives no SQLSTATE for it, so the text
    decides. The text begins with the address, unless the login is made step by step.
    """
    text = _ADDRESSED.sub("", first_line(error))
    where = f"the server at {settings.address}"
    lowered = text.lower()
    if limit_of_connections(text, settings) is not None:
        return _no_connections(text, settings)
    if any(words.lower() in lowered for words in _UNKNOWN_HOST):
        if again:
            return TransientError(f"the host '{settings.host}' is not known now")
        return DefiniteError(f"the host '{settings.host}' is not known; correct database.hostname")
    if (
        "password authentication failed" in lowered
        or "no password supplied" in lowered
        or ("role" in lowered and "does not exist" in lowered)
    ):
        return DefiniteError(
            f"{where} refused user '{settings.user}': the password is wrong, or there is no such user; correct database.user and database.password"
        )
    if "no pg_hba.conf entry" in lowered or "pg_hba.conf rejects connection" in lowered:
        what = " for a replication connection" if "replication connection" in lowered else ""
        return DefiniteError(
            f"{where} lets nobody in from this machine as user '{settings.user}' to database '{settings.database}'{what}; add a line to its pg_hba.conf"
        )
    if "database" in lowered and "does not exist" in lowered:
        return DefiniteError(f"{where} has no database '{settings.database}'; correct database.dbname")
    if "must be superuser or replication role" in lowered or "permission denied to start wal sender" in lowered:
        return DefiniteError(
            f"user '{settings.user}' may not read the log of {where}; run there: ALTER ROLE \"{settings.user}\" REPLICATION;"
        )
    if "authentication method requirement" in lowered or "channel binding" in lowered:
        return _login_not_wanted(where, settings)
    if "certificate" in lowered or "ssl" in lowered:
        return DefiniteError(f"{where} and this connector do not agree on TLS (database.sslmode={settings.ssl_mode}): {text}")
    return TransientError(f"{where} cannot be reached: {text}")


def _login_not_wanted(where: str, settings: ConnectSettings) -> DefiniteError:
    """Return the error for a server that asks for the login in a way that ``settings`` do not
    allow.
    """
    if settings.login_methods:
        asked = f"asks for the login in another way than driver.requireAuth={settings.login_methods} allows"
        return DefiniteError(f"{where} {asked}; correct it, or the method of the server's pg_hba.conf")
    if settings.channel_binding == "require":
        asked = "does not bind the login to a connection with TLS, which driver.channelBinding=require wants"
        return DefiniteError(
            f"{where} {asked}: that takes database.sslmode=require or stricter and scram-sha-256 in the server's pg_hba.conf"
        )
    return DefiniteError(
        f"{where} asks for the password in clear text, and database.sslmode={settings.ssl_mode} does not show who asks; set database.sslmode=verify-full "
        "with database.sslrootcert, or scram-sha-256 in the server's pg_hba.conf (driver.requireAuth=password sends it all the same)"
    )


def first_line(error: object) -> str:
    """Return the first line of an error that can be long, at most 300 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
