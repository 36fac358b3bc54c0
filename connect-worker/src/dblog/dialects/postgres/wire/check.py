"""Checks if a connector can run on a server: settings, privileges, slot, publication, replica
identities. One answer names everything that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from dblog.config.namespaces import Namespace
from dblog.core.selection import KeyRule, Parts, message_key
from dblog.core.unmatched_tables import LOOKED_AT_MAX, describe_unmatched_tables
from dblog.dialects.guide import Hosting, Topic, cited, section
from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.catalog.tables import is_deferrable
from dblog.dialects.postgres.wire.connect import LockedError, PrivilegeError
from dblog.dialects.postgres.wire.hosting import hosting_of, how_to_set
from dblog.dialects.postgres.wire.lock_waits import LockWaits
from dblog.dialects.postgres.wire.search_path import describe_open_schemas
from dblog.dialects.postgres.wire.session import AllReadable, NothingReadable, Session, SomeUnreadable
from dblog.dialects.postgres.wire.slot import Publication, find_publication, find_slot, lacks_to_create, require_ours
from dblog.errors import DefiniteError, PositionLostError, TableChangedError
from dblog.model import Table, TableId

NAMED_MAX = 20
_STANDBY_SINCE = _ORIGIN_SINCE = 160000
_NOTHING, _DEFAULT, _FULL = "n", "d", "f"


def check(
    session: Session,
    *,
    tables: Sequence[Table],
    slot: str,
    publication: str,
    autocreate: str,
    cannot_show: Callable[[Table], Sequence[str]],
    reader: str,
    read_only: bool,
    by_root: bool,
    signal_tables: AbstractSet[TableId],
    key_rules: tuple[KeyRule, ...],
    further: Collection[str] = (),
    named: Parts = (),
    starts: bool = False,
) -> list[str]:
    """Return warnings. Raise DefiniteError that names every missing setting and privilege, with the
    statement to run.

    - ``autocreate``: publication.autocreate.mode.
    - ``cannot_show``: PostgresPlans.cannot_show.
    - ``reader``: the name of the connector's own log connection, which may be reading the slot.
    - ``by_root``: publish.via.partition.root.
    - ``key_rules``: message.key.columns.
    - ``further``: requested options of the plugin (slot.stream.params).
    - ``named``: the names in the include lists.
    - ``starts``: True if a task starts. It runs on without tables that it may not read, so these
      give warnings.
    """
    warnings: list[str] = []
    standby, hosting = session.is_standby, hosting_of(session)
    unreadable = _readable(session, tables)
    found = (
        (Topic.SETTINGS, [*_settings(session, hosting, standby=standby, read_only=read_only), *_options(session, further)]),
        (Topic.ACCOUNT, _role(session, hosting)),
        (Topic.RETENTION, _slot(session, slot, reader, warnings)),
        (Topic.PUBLICATION, _publication(session, publication, autocreate, tables, standby=standby)),
        (Topic.ACCOUNT, [] if starts else unreadable),
    )
    if missing := [sentence for _, sentences in found for sentence in sentences]:
        # Statements end with a semicolon too. The sections come last, so that none is between two statements.
        sections = dict.fromkeys(section("postgres", topic, hosting) for topic, sentences in found if sentences)
        raise DefiniteError(f"{'; '.join(missing).replace(';; ', '; ')} (more: {', '.join(sections)})")
    warnings += _cited(unreadable, Topic.ACCOUNT, hosting)
    unmatched = describe_unmatched_tables(named, [table.id for table in tables], lambda: _visible(session), namespace=Namespace.SCHEMA)
    by_id = {table.id: table for table in tables}
    identities = session.replica_identities(lambda table: table in by_id)
    return [
        *warnings,
        *unmatched,
        *_cited(without_identity(by_id, identities), Topic.TABLES, hosting),
        *_cited(without_values(by_id, identities, cannot_show), Topic.TABLES, hosting),
        *_cited(without_message_key(by_id, identities, key_rules), Topic.TABLES, hosting),
        *_absent_signal_tables(session, signal_tables),
        *describe_open_schemas(session.wire),
        *_of_publication(session, publication, by_id, by_root=by_root, signal_tables=signal_tables, filled=autocreate == "filtered"),
    ]


def _visible(session: Session) -> list[TableId]:
    rows = session.query(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%' LIMIT {LOOKED_AT_MAX}",
        (),
        doing="listing tables",
    )
    return [TableId(schema, name) for schema, name in rows]


def _cited(sentences: Iterable[str], topic: Topic, hosting: Hosting) -> list[str]:
    return [cited(sentence, "postgres", topic, hosting) for sentence in sentences]


def _settings(session: Session, hosting: Hosting, *, standby: bool, read_only: bool) -> list[str]:
    address = session.settings.address
    level = session.setting("wal_level")
    if standby and session.version < _STANDBY_SINCE:
        return [
            (
                f"the server at {address} is a standby of version {session.version // 10000}, and a log can be decoded on a standby from 16 on; point "
                "database.hostname at its primary"
            )
        ]
    missing = []
    if standby and not read_only:
        missing.append(
            f"the server at {address} is a standby, where nothing can be written, and watermarks of dumps are; set read.only=true, or point "
            "database.hostname at its primary"
        )
    if level != "logical":
        missing.append(
            f"the server at {address} has wal_level={level}, so its log holds no rows; {how_to_set(hosting, 'wal_level', 'logical')}"
        )
    if session.setting("max_wal_senders") == "0":
        missing.append(
            f"the server at {address} has max_wal_senders=0, so nobody may read its log; {how_to_set(hosting, 'max_wal_senders', '10')}"
        )
    return missing


def _options(session: Session, further: Collection[str]) -> list[str]:
    """Return the sentence about an option of the plugin that the server's version lacks."""
    if "origin" not in further or session.version >= _ORIGIN_SINCE:
        return []
    return [
        (
            f"slot.stream.params has origin, which is of PostgreSQL 16, and the server at {session.settings.address} runs {session.version // 10000}; "
            "remove the key"
        )
    ]


def _role(session: Session, hosting: Hosting) -> list[str]:
    user = session.settings.user
    allowed = session.wire.one(
        "SELECT r.rolsuper OR r.rolreplication OR EXISTS (SELECT FROM pg_catalog.pg_roles m WHERE m.rolname IN ('rds_replication', 'rds_superuser', "
        "'azure_pg_admin') AND pg_catalog.pg_has_role(r.oid, m.oid, 'member')) FROM pg_catalog.pg_roles r WHERE r.rolname = current_user",
        doing="reading the account's privileges",
    )
    amazon = hosting in (Hosting.RDS, Hosting.AURORA)
    grant = f"GRANT rds_replication TO {sql.quote(user)};" if amazon else f"ALTER ROLE {sql.quote(user)} REPLICATION;"
    return [] if allowed else [f"user '{user}' may not read the log; run there: {grant}"]


def _slot(session: Session, name: str, reader: str, warnings: list[str]) -> list[str]:
    found = find_slot(session, name)
    if found is None:
        free = session.wire.one(
            "SELECT pg_catalog.current_setting('max_replication_slots')::int - count(*) FROM pg_catalog.pg_replication_slots",
            doing="counting the slots",
        )
        return (
            []
            if free > 0
            else [
                f"the server has no room for another replication slot; drop one that nobody needs, or raise max_replication_slots ({session.settings.address})"
            ]
        )
    try:
        require_ours(found, session.settings)
    except PositionLostError as e:
        warnings.append(str(e))  # at a start, snapshot.mode decides what follows
    if found.active_pid is None:
        return []
    other = session.wire.one(
        "SELECT application_name FROM pg_catalog.pg_stat_activity WHERE pid = %s", (found.active_pid,), doing="asking who reads the slot"
    )
    if other is None or other == reader:
        return []
    return [
        (
            f"the slot {name} is read by the server's process {found.active_pid} ({other or 'of no name'}); a slot serves one connector: name another one "
            "with slot.name, or stop its reader"
        )
    ]


def _publication(session: Session, name: str, autocreate: str, tables: Sequence[Table], *, standby: bool) -> list[str]:
    found = find_publication(session, name)
    if found is None:
        if standby:
            return [
                (
                    f"there is no publication {name}, and a standby cannot make one; run at its primary: CREATE PUBLICATION {sql.quote(name)} FOR ALL "
                    "TABLES; or FOR TABLE and the names of the tables"
                )
            ]
        if autocreate != "disabled":
            wanted = None if autocreate == "all_tables" else [] if autocreate == "no_tables" else [table.id for table in tables]
            lacks = lacks_to_create(session, name, wanted, by_root=session.by_root)
            return [] if lacks is None else [lacks]
        listed = ", ".join(sql.quote_table(table.id) for table in tables[:NAMED_MAX])
        return [
            (
                f"there is no publication {name}, and publication.autocreate.mode=disabled; run there: CREATE PUBLICATION {sql.quote(name)} FOR TABLE "
                f"{listed}; or FOR ALL TABLES"
            )
        ]
    if (lacking := leaves_out(found)) is not None:
        return [lacking]
    if autocreate == "filtered" and not standby:
        return []
    absent = [table.id for table in tables if table.id not in found.tables]
    return [lacks_tables(name, absent)] if absent and not found.all_tables else []


def leaves_out(publication: Publication) -> str | None:
    """Return the sentence about kinds of changes that the publication leaves out of the log; None
    if there are none.
    """
    lacking = sorted({"insert", "update", "delete"} - publication.operations)
    if not lacking:
        return None
    return (
        f"the publication {publication.name} leaves out {', '.join(lacking)}; run there: ALTER PUBLICATION {sql.quote(publication.name)} SET (publish = "
        "'insert, update, delete, truncate');"
    )


def lacks_tables(publication: str, absent: Sequence[TableId]) -> str:
    """Return the sentence about captured tables whose changes are not in the log."""
    listed = ", ".join(map(sql.quote_table, absent[:NAMED_MAX]))
    return (
        f"the publication {publication} lacks captured tables; run there: ALTER PUBLICATION {sql.quote(publication)} ADD TABLE {listed}; or leave the tables "
        "out with table.exclude.list"
    )


def require_readable(session: Session, tables: Iterable[Table]) -> None:
    """Raise PrivilegeError, with the GRANT to run, if the account may not read the columns of a
    table that chunks read.
    """
    with LockWaits(session, doing="reading the tables") as waits:
        for table in tables:
            try:
                session.query(sql.probe(table), doing=f"reading {table.id}")
            except TableChangedError:
                continue
            except LockedError:
                waits.found_locked()
            except DefiniteError as e:
                message = f"{e}; run there: {grants_for(session, [table])}"
                raise type(e)(message) from e


def grants_for(session: Session, tables: Sequence[Table]) -> str:
    """Return the statements that let the account read what chunks read of these tables. They grant
    single columns if the account may read others already, or if some columns are not read.
    """
    columns: dict[TableId, Sequence[str]] = {}
    for table in tables:
        read = sql.read_columns(table)
        match session.readable_columns(table, read):
            case SomeUnreadable(lacking):
                columns[table.id] = lacking
            case AllReadable() | NothingReadable():
                if read is not None:
                    columns[table.id] = read
    return sql.grant_selects([table.id for table in tables], session.settings.user, columns)


def _readable(session: Session, tables: Sequence[Table]) -> list[str]:
    refused = []
    with LockWaits(session, doing="reading the tables") as waits:
        for table in tables:
            try:
                session.query(sql.probe(table), doing=f"reading {table.id}")
            except TableChangedError:
                continue  # the chunks of its dump find out
            except LockedError:
                waits.found_locked()
            except PrivilegeError as e:
                if "row-level security" in str(e):
                    user = session.settings.user
                    return [
                        (
                            f"the policies of {table.id} (row-level security) hide rows from user '{user}', so a dump would lack them; run there: ALTER ROLE "
                            f"{sql.quote(user)} BYPASSRLS; or leave the table out with table.exclude.list"
                        )
                    ]
                refused.append(table)
    if not refused:
        return []
    grants = grants_for(session, refused[:NAMED_MAX])
    more = f" and {len(refused) - NAMED_MAX} more" if len(refused) > NAMED_MAX else ""
    return [f"user '{session.settings.user}' may not read captured tables{more}; run there: {grants}"]


def without_identity(tables: Mapping[TableId, Table], identities: Mapping[TableId, str]) -> list[str]:
    """Return the sentence about tables for which the server refuses updates and deletes while they
    are published.
    """
    lacking = [
        table
        for table, kind in sorted(identities.items())
        if kind == _NOTHING or (kind == _DEFAULT and (not tables[table].primary_key or is_deferrable(tables[table])))
    ]
    if not lacking:
        return []
    names = ", ".join(str(table) for table in lacking[:NAMED_MAX])
    example = f"ALTER TABLE {sql.quote_table(lacking[0])} REPLICA IDENTITY FULL;"
    return [
        (
            f"{names} {'has' if len(lacking) == 1 else 'have'} no replica identity (no primary key, a DEFERRABLE one, or REPLICA IDENTITY NOTHING), "
            f"so the server refuses UPDATE and DELETE of it once it is published; run there, for each: {example} or add a primary key"
        )
    ]


def without_message_key(tables: Mapping[TableId, Table], identities: Mapping[TableId, str], rules: tuple[KeyRule, ...]) -> list[str]:
    """Return the sentence about tables whose logged old rows lack columns of the message key."""
    found = [
        table
        for table, kind in sorted(identities.items())
        if kind != _FULL and table in tables and not set(message_key(tables[table], rules)) <= set(tables[table].key)
    ]
    if not found:
        return []
    names = ", ".join(map(str, found[:NAMED_MAX]))
    return [
        (
            f"message.key.columns names columns of {names} that are not in its replica identity: an update of them does not show the old key, whose row stays "
            f"for ever, and deletes end the task; run there, for each: ALTER TABLE {sql.quote_table(found[0])} REPLICA IDENTITY FULL;"
        )
    ]


def _of_publication(
    session: Session, name: str, tables: Container[TableId], *, by_root: bool, signal_tables: AbstractSet[TableId], filled: bool
) -> list[str]:
    """Return warnings about an existing publication that differs from the configuration. ``filled``
    is True if the connector adds tables that it lacks.
    """
    found = find_publication(session, name)
    if found is None:
        return []
    warnings = some_rows(name, sorted(table for table in found.filtered if table in tables))
    if found.by_root != by_root and session.wire.one(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relispartition AND relkind = 'r')", doing="looking for partitions"
    ):
        there, wanted = str(found.by_root).lower(), str(by_root).lower()
        under = "the partitioned table's name" if found.by_root else "the names of the partitions"
        warnings.append(
            f"publish.via.partition.root is {wanted}, and the publication {name} has publish_via_partition_root = {there}, which counts: rows of partitions "
            f"come under {under}; set publish.via.partition.root={there}, or, before the first start, run there: ALTER PUBLICATION {sql.quote(name)} SET "
            f"(publish_via_partition_root = {wanted});"
        )
    known = signal_tables & set(session.table_numbers().values())
    unheard = [] if found.all_tables or filled else sorted(table for table in known if table not in found.tables)
    if unheard:
        warnings.append(
            f"the publication {name} lacks the signal table {unheard[0]}, so no signal of it is heard; run there: ALTER PUBLICATION "
            f"{sql.quote(name)} ADD TABLE {sql.quote_table(unheard[0])};"
        )
    return warnings


def _absent_signal_tables(session: Session, signal_tables: AbstractSet[TableId]) -> list[str]:
    """Return the sentence about signal tables that do not exist or whose names are wrong."""
    absent = sorted(signal_tables - set(session.table_numbers().values())) if signal_tables else []
    return [
        (
            f"signal.data.collection names {table}, and there is no such table, so no signal can come from it; run there: "
            f"CREATE TABLE {sql.quote_table(table)} (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data TEXT);"
        )
        for table in absent
    ]


def some_rows(publication: str, filtered: Sequence[TableId]) -> list[str]:
    """Return the sentence about tables for which the log has only some rows, while a dump has
    all.
    """
    if not filtered:
        return []
    return [
        (
            f"the publication {publication} has a condition for rows of {', '.join(map(str, filtered[:NAMED_MAX]))}: the log leaves out changes of all others, "
            "and a dump brings them, so they stay as they were then; have snapshot.select.statement.overrides name the same condition, or take it out of the "
            f"publication: ALTER PUBLICATION {sql.quote(publication)} SET TABLE names all of its tables anew"
        )
    ]


def without_values(
    tables: Mapping[TableId, Table], identities: Mapping[TableId, str], cannot_show: Callable[[Table], Sequence[str]]
) -> list[str]:
    """Return the sentence about columns whose records show a wrong value after an update that did
    not change a large value: a hash or a truncation of the placeholder.
    """
    found = [
        (table, columns)
        for table, kind in sorted(identities.items())
        if kind != _FULL and table in tables and (columns := cannot_show(tables[table]))
    ]
    if not found:
        return []
    names = ", ".join(f"{table} ({', '.join(columns)})" for table, columns in found[:NAMED_MAX])
    example = f"ALTER TABLE {sql.quote_table(found[0][0])} REPLICA IDENTITY FULL;"
    return [
        (
            f"the log leaves out large values that an update has not changed, and records have a hash or a cut of the placeholder for them in {names}, which "
            "nobody can tell from a value; "
            f"if such values can have more than 2000 bytes, run there, for each: {example}"
        )
    ]
