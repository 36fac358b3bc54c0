"""The checks of a server before a connector starts: settings of its log, privileges of the account,
the watermark table.

Each privilege is tried instead of read from SHOW GRANTS, which does not show the effect of roles,
wildcards and partial revokes. All missing privileges are named at once, each with its GRANT.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Iterable, Sequence

from dblog.core.selection import Parts
from dblog.dialects.guide import Topic, cited
from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.wire.connect import PrivilegeError, ReadOnlyError, open_wire
from dblog.dialects.mysql.wire.hosting import how_to_set
from dblog.dialects.mysql.wire.log import announce
from dblog.dialects.mysql.wire.session import ServerFacts, Session, log_bin_off
from dblog.dialects.mysql.wire.unmatched import describe_unmatched
from dblog.errors import DefiniteError, TableChangedError
from dblog.model import Table, TableId

TABLES_NAMED_MAX = 20
"""The most tables that a message names; further ones are counted."""


def check(
    session: Session,
    *,
    server_id: int,
    tables: Sequence[Table] = (),
    watermarks: TableId | None = None,
    rereads: bool = False,
    named: Parts = (),
    make: bool = True,
    read_only: bool = False,
) -> list[str]:
    """Raise DefiniteError if a start would be pointless; return the warnings otherwise.

    ``tables``: the captured tables that the account sees. ``named``: the names in the
    configuration, of which it may not see all. ``watermarks``: the watermark table, None if no
    tables are read or nothing may be written. ``rereads``: rows that lack columns are read again.
    ``make`` False changes nothing on the server. ``read_only``: windows are proved by GTIDs.
    """
    address = session.settings.address
    problem = setting_at_fault(session.facts, address, server_id=server_id, rereads=rereads, read_only=read_only)
    if problem is not None:
        raise DefiniteError(_cited(session.facts, problem, Topic.SETTINGS))
    user = session.current_user()
    unmatched = describe_unmatched(session, named, [table.id for table in tables])
    missing: list[str] = []
    missing += _log_privileges(session, user, server_id)
    unreadable = _select_privileges(session, user, tables)
    missing += unreadable[:TABLES_NAMED_MAX]
    unseen = _unseen_privileges(session, user, named, [table.id for table in tables])
    missing += unseen
    try:
        lacks_watermarks = watermarks is not None and not _may_use_watermarks(session, watermarks)
    except ReadOnlyError as e:
        raise DefiniteError(_cited(session.facts, str(e), Topic.REPLICAS)) from e
    if watermarks is not None and lacks_watermarks:
        missing.append(sql.grant_watermarks(watermarks, user))
    if missing:
        # Statements have lines of their own, to be copied, with no explanation between them.
        lacks = _cited(session.facts, f"the account {user} at {address} lacks privileges", Topic.ACCOUNT)
        message = "\n".join([f"{lacks}; run there:", *dict.fromkeys(missing)])
        if watermarks is not None and lacks_watermarks:
            by_hand = sql.setup_watermarks(watermarks, user)
            message += (
                f"\nThe last one lets it make the watermark table {watermarks}; grant that, or create it for the connector:\n{by_hand}"
            )
        if len(unreadable) > TABLES_NAMED_MAX:
            message += (
                f"\nOf {len(unreadable)} tables that it may not read, {TABLES_NAMED_MAX} are named; for all of them run:\n"
                f"{sql.grant_global('SELECT', user)}"
            )
        if unseen and unmatched:
            # The server gives the same answer for a hidden table and for a missing one.
            message = f"{'; '.join(unmatched)}. If the names are right, {message}"
        raise DefiniteError(message)
    _check_filters(session, [t.id for t in tables], watermarks)
    if watermarks is not None and make:
        ensure_watermarks(session, watermarks, user)
    return [
        *warnings(session.facts, address),
        *_replica_warnings(session),
        *unmatched,
        *_hidden_warnings(session, user, named, {t.id.database for t in tables}),
        *_table_warnings(session, {t.id for t in tables}),
    ]


def setting_at_fault(facts: ServerFacts, address: str, *, server_id: int, rereads: bool = False, read_only: bool = False) -> str | None:
    """Return the first setting that makes the log unusable, with its remedy; None if there is none."""
    if not facts.log_bin:
        return log_bin_off(address, facts.hosting)
    if facts.binlog_format != "ROW":
        return (
            f"the server at {address} logs with binlog_format={facts.binlog_format}; {how_to_set(facts.hosting, 'binlog_format', 'ROW')}; "
            "sessions that are open keep the old format until they reconnect"
        )
    if facts.row_image not in ("FULL", "FULL_NODUP", "NOBLOB") and not rereads:
        return (
            f"the server at {address} logs with binlog_row_image={facts.row_image}, which leaves columns out; "
            f"{how_to_set(facts.hosting, 'binlog_row_image', 'FULL')}; "
            "or set dblog.row.image.missing=reread: changed rows are then read again from their table, so "
            "they may come newer than the change, updates without the row before, and deletes with the key only"
        )
    if facts.server_id == 0:
        return f"the server at {address} has server_id=0 and so refuses to send its log; {how_to_set(facts.hosting, 'server_id', '1')}"
    if facts.server_id == server_id:
        return (
            f"database.server.id={server_id} is the id of the server at {address} itself; choose another one that no "
            "server or reader there uses"
        )
    if not facts.ordered_commits:
        return (
            f"the server at {address} runs with binlog_order_commits=OFF, so what the log shows may not be visible "
            f"yet, and no watermark is safe; {how_to_set(facts.hosting, 'binlog_order_commits', 'ON')}"
        )
    if read_only and not facts.uses_gtids:
        return (
            f"read.only=true proves by GTIDs what a snapshot shows, and the server at {address} runs with gtid_mode={facts.gtid_mode}; turn GTIDs on there "
            "(gtid_mode=ON, enforce_gtid_consistency=ON), or remove read.only and let the connector write its watermarks"
        )
    return None


def _cited(facts: ServerFacts, sentence: str, topic: Topic) -> str:
    return cited(sentence, facts.flavor, topic, facts.hosting)


def warnings(facts: ServerFacts, address: str) -> list[str]:
    """Return the warnings about settings that deserve attention but stop nothing."""
    out = []
    if facts.row_image == "NOBLOB":
        out.append(
            f"the server at {address} logs with binlog_row_image=NOBLOB: large objects that an update leaves alone are not in the log, and their "
            "columns get the unavailable.value.placeholder, also beside a changed key, where nobody has the value; for whole rows "
            f"{how_to_set(facts.hosting, 'binlog_row_image', 'FULL')}"
        )
    if facts.row_image == "MINIMAL":
        out.append(
            f"the server at {address} logs with binlog_row_image=MINIMAL: changed rows are read again from their table "
            "(dblog.row.image.missing=reread), so they may come newer than the change, updates without the row before, and deletes with the key only; "
            f"for whole rows {how_to_set(facts.hosting, 'binlog_row_image', 'FULL')}"
        )
    if facts.row_metadata != "FULL":
        known = facts.row_metadata or "not available"
        out.append(
            f"binlog_row_metadata is {known} at {address}: the log does not name columns, so schemas follow from DDL statements alone; "
            f"to make them certain (MySQL 8.0, MariaDB 10.5 and later) {how_to_set(facts.hosting, 'binlog_row_metadata', 'FULL')}"
        )
    if facts.flavor == "mysql" and not facts.uses_gtids:
        out.append(
            f"gtid_mode is {facts.gtid_mode} at {address}: the connector follows file and offset, which mean nothing "
            "on another server after a failover"
        )
    return [_cited(facts, text, Topic.SETTINGS) for text in out]


def _replica_warnings(session: Session) -> list[str]:
    if session.facts.logs_replicated or not session.is_replica():
        return []
    warning = (
        f"the server at {session.settings.address} is a replica with log_slave_updates=OFF: what reaches it by replication is not in its "
        "log and will be missed; turn it on there, or read from the primary"
    )
    return [_cited(session.facts, warning, Topic.REPLICAS)]


def _table_warnings(session: Session, captured: set[TableId]) -> list[str]:
    return [*cascade_warnings(session, captured), *versioning_warnings(session, captured)]


def versioning_warnings(session: Session, captured: set[TableId]) -> list[str]:
    """Return a warning about system-versioned tables. Their log has an INSERT of the old row for
    each UPDATE, and an UPDATE of row_end for each DELETE.
    """
    tables = [table for table in session.versioned_tables() if table in captured]
    if not tables:
        return []
    warning = (
        f"these tables at {session.settings.address} are system-versioned, so the log mixes their history with their present rows, and their "
        f"topics will not fold to the present table; leave them out with table.exclude.list: {_named(tables)}"
    )
    return [_cited(session.facts, warning, Topic.TABLES)]


def _named(things: Sequence[object]) -> str:
    more = f" and {len(things) - TABLES_NAMED_MAX} more" if len(things) > TABLES_NAMED_MAX else ""
    return "; ".join(map(str, things[:TABLES_NAMED_MAX])) + more


def cascade_warnings(session: Session, captured: set[TableId]) -> list[str]:
    """Return a warning that names foreign keys whose actions do not reach the log."""
    cascades = session.cascades(lambda table: table in captured)
    if not cascades:
        return []
    warning = f"rows changed by these foreign keys' actions are not in the log of {session.settings.address} and will be missed: {_named(cascades)}"
    return [_cited(session.facts, warning, Topic.TABLES)]


# -- privileges ------------------------------------------------------------------------------------


def _log_privileges(session: Session, user: str, server_id: int) -> list[str]:
    missing = []
    try:
        session.log_status()
        session.log_files()
    except PrivilegeError:
        missing.append(sql.grant_global(session.status_privilege, user))
    wire = open_wire(session.settings, again=True)
    try:
        announce(wire, server_id=server_id, hostname=socket.gethostname())
    except PrivilegeError:
        missing.append(sql.grant_global("REPLICATION SLAVE", user))
    finally:
        wire.close()
    return missing


def _select_privileges(session: Session, user: str, tables: Iterable[Table]) -> list[str]:
    missing = []
    for table in tables:
        # A table dropped or altered since the catalog was read shows up in the log; here only
        # access counts.
        with contextlib.suppress(TableChangedError):
            try:
                session.query(sql.readable(table), doing=f"reading {table.id}")
            except PrivilegeError:
                missing.append(sql.grant_select(table.id, user))
    return missing


def _unseen_privileges(session: Session, user: str, named: Parts, seen: Sequence[TableId]) -> list[str]:
    """Return GRANTs for names in the configuration that the account cannot read. The catalog hides
    such tables, so names of which the account sees nothing are tried.
    """
    names = {(table.database.lower(), table.name.lower()) for table in seen}
    databases = {database for database, _ in names}
    missing = []
    for database, table in named:
        if database is None and table is not None:
            continue  # it matches nothing, whatever is granted
        if database is None:
            hidden = not names
        elif table is None:
            hidden = database.lower() not in databases
        else:
            hidden = (database.lower(), table.lower()) not in names
        if hidden and _denied(session, TableId(database or sql.NO_SUCH_NAME, table or sql.NO_SUCH_NAME)):
            if database is None:
                missing.append(sql.grant_global("SELECT", user))
            elif table is None:
                missing.append(sql.grant_database(database, user))
            else:
                missing.append(sql.grant_select(TableId(database, table), user))
    return missing


def _hidden_warnings(session: Session, user: str, named: Parts, databases: Collection[str]) -> list[str]:
    """Return warnings for databases that are captured as a whole but readable in part. Their other
    tables stay hidden until the log names them.
    """
    whole = {(database or "").lower() for database, table in named if table is None and database is not None}
    return [
        _cited(
            session.facts,
            f"the account {user} may read some tables of {database} only, and sees no others; a table that the log names and it may not read will end the "
            f"task; {sql.grant_database(database, user)} or name the tables in table.include.list",
            Topic.ACCOUNT,
        )
        for database in sorted(databases)
        if database.lower() in whole and _denied(session, TableId(database, sql.NO_SUCH_NAME))
    ]


def _denied(session: Session, table: TableId) -> bool:
    """Return whether the account may not read the table. The server checks privileges before it
    looks for the table, so this works for a missing one too.
    """
    try:
        session.query(sql.probe(table), doing=f"looking at {table}")
    except PrivilegeError:
        return True
    except TableChangedError:
        return False
    return False


def require_readable(session: Session, table: TableId) -> None:
    """Raise DefiniteError with the GRANT for a table of the log that the account may not read: its
    earlier rows could never be dumped. # I3
    """
    if _denied(session, table):
        user = session.current_user()
        message = (
            f"the log of {session.settings.address} names {table}, which the account {user} may not read, so its rows would come in part only; run there: "
            f"{sql.grant_select(table, user)} and restart the task, or leave the table out with table.exclude.list"
        )
        raise DefiniteError(_cited(session.facts, message, Topic.ACCOUNT))


def _check_filters(session: Session, tables: Iterable[TableId], watermarks: TableId | None) -> None:
    """Raise DefiniteError if the server keeps a captured database out of its log (binlog-do-db,
    binlog-ignore-db).
    """
    status = session.log_status()
    only = {name for name in status.get("binlog_do_db", "").split(",") if name}
    ignored = {name for name in status.get("binlog_ignore_db", "").split(",") if name}
    wanted = {table.database for table in tables} | ({watermarks.database} if watermarks else set())
    left_out = sorted(name for name in wanted if name in ignored or (only and name not in only))
    if left_out:
        message = (
            f"the server at {session.settings.address} keeps these databases out of its log: {', '.join(left_out)}; "
            "change binlog-do-db or binlog-ignore-db in its configuration"
        )
        raise DefiniteError(_cited(session.facts, message, Topic.SETTINGS))


# -- the watermark table ---------------------------------------------------------------------------


def _may_use_watermarks(session: Session, watermarks: TableId) -> bool:
    """Return whether the account may read and write the watermark table, and create it if
    necessary; tried without effect.
    """
    try:
        for statement in sql.probe_watermarks(watermarks, there=_watermark_table_exists(session, watermarks)):
            with contextlib.suppress(TableChangedError):
                session.query(statement, doing=f"looking at the watermark table {watermarks}")
    except PrivilegeError:
        return False
    return True


def ensure_watermarks(session: Session, watermarks: TableId, user: str) -> None:
    """Create the watermark table if it is missing. Raise DefiniteError unless it has our columns,
    is transactional and can be written.
    """
    try:
        if not _watermark_table_exists(session, watermarks):
            session.query(sql.create_watermark_database(watermarks), doing=f"creating the database {watermarks.database}")
            session.query(sql.create_watermark_table(watermarks), doing=f"creating the watermark table {watermarks}")
        _check_watermarks(session, watermarks)
        session.query(sql.write_watermark(watermarks), ("check", "0", "0"), doing=f"writing to the watermark table {watermarks}")
        session.query(sql.read_watermark(watermarks), ("check",), doing=f"reading the watermark table {watermarks}")
    except PrivilegeError as e:
        needed = f"the dump needs the watermark table {watermarks} at {session.settings.address}, which {user} may not create or write"
        grant, by_hand = sql.grant_watermarks(watermarks, user), sql.setup_watermarks(watermarks, user)
        message = f"{_cited(session.facts, needed, Topic.ACCOUNT)}; run: {grant} or create it for the connector: {by_hand}"
        raise DefiniteError(message) from e


def _watermark_table_exists(session: Session, watermarks: TableId) -> bool:
    rows = session.query(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (watermarks.database, watermarks.name),
        doing="looking for the watermark table",
    )
    return bool(rows)


def _check_watermarks(session: Session, watermarks: TableId) -> None:
    columns = session.query(
        (
            "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = "
            "%s ORDER BY ORDINAL_POSITION"
        ),
        (watermarks.database, watermarks.name),
        doing="looking at the watermark table",
    )
    engine = session.query(
        "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (watermarks.database, watermarks.name),
        doing="looking at the watermark table",
    )
    shape = [(str(name).lower(), str(kind).lower()) for name, kind in columns]
    if shape != [("id", "varchar"), ("token", "varchar")] or not engine or str(engine[0][0]).lower() != "innodb":
        message = (
            f"{watermarks} is not a watermark table of dblog; drop it (the connector creates it again), or set "
            "dblog.watermark.table to another name"
        )
        raise DefiniteError(message)
