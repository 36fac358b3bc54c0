"""The schema history topic: one record per table, so recovery reads one record per table, whatever
the number of DDL statements (D8).

The key is ``{"dblog":1,"server":"<prefix>","table":"<db>.<table>"}``, the value
``{"versions":[...]}`` with every version that a restart can still need (core/timeline.py): the one
valid at the committed offset, and all later ones. Of a dropped table only the name is kept. A
database's defaults are a record as well (``"database":"<db>"`` in the key), and so is the position
where the newest epoch began (``"position":"epoch"``). We create the topic as a compacted one. In a
topic that Debezium made, with its null keys, our records stand among Debezium's, which are skipped;
statements are added to those in Debezium's form (debezium_history.py). Several connectors may share
a topic; the server name keeps them apart.

The topic also stores the names of tables in a dump of many (core/dumps.py), so that no offset needs
to carry them. Their key is ``{"dblog":1,"dumps":"<prefix>","list":"<id>"}``, their value
``{"tables":[["<db>","<table>"],...]}``.

``save`` returns when the broker has the records (acks=all). The stream must not pass a DDL
statement before that: otherwise a row of the new version could be committed and the version lost.
# I4
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Protocol

import structlog

from dblog.core.timeline import Database, Position, Timeline
from dblog.errors import DefiniteError, RecordTooLargeError
from dblog.model import TableId
from dblog.readers.log.debezium_history import DebeziumHistory, LoggedStatement

log = structlog.get_logger(__name__)

FORMAT = 1

_LARGE_BYTES = 256 * 1024
"""Size of a record that nearly every topic accepts; only a topic with a tiny limit does not."""


class KeptPosition(Enum):
    """Kinds of log positions in the history."""

    EPOCH = "epoch"


class HistoryLog(Protocol):
    """Topic of the history; ``KafkaHistoryLog`` and the tests' fake pass the same
    contract suite.
    """

    def read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Yield every record that exists when the call begins, in order. Raise TransientError."""

    def write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        """Append the records, and return only when all are durable.

        Raise TransientError; then none, some or all may have been written.
        """

    def close(self) -> None:
        """Close the connections."""


class SchemaHistory:
    """Writer and reader of one server's timeline. ``server`` is topic.prefix."""

    def __init__(self, log: HistoryLog, *, server: str) -> None:
        self._log = log
        self._server = server
        self._debezium = DebeziumHistory(server=server)
        self._is_uncertain = False
        self._lists: dict[str, tuple[TableId, ...]] | None = None

    def recover(self, timeline: Timeline) -> int:
        """Read the topic to its end and fill ``timeline``; return the number of tables.

        Each table is parsed once, not each record.
        """
        newest = {key: value for key, value in self._read() if key is not None}
        self._lists = self._lists_of(newest)
        tables = 0
        for key, value in newest.items():
            name = self._ours(key)
            if name is None or value is None:
                continue
            try:
                record = json.loads(value)
                if isinstance(name, TableId):
                    timeline.from_record(name, record)
                    tables += 1
                elif isinstance(name, KeptPosition):
                    high, low = record["sequence"]
                    timeline.began = int(high), int(low)
                else:
                    timeline.databases[name] = Database(record.get("charset"), record.get("collation"))
            except (ValueError, AttributeError, KeyError, TypeError) as e:
                raise DefiniteError(
                    f"the schema history has a record for {name} that cannot be read: {e}; "
                    "restore the topic, or delete it together with the connector's offsets and start with a new dump"
                ) from e
        return tables

    def others(self) -> Iterator[bytes]:
        """Yield the values of records without a key, oldest first: Debezium's, if it used this
        topic.
        """
        return (value for key, value in self._log.read() if key is None and value is not None)

    @property
    def server(self) -> str:
        """Server whose history this is: topic.prefix."""
        return self._server

    def save(
        self, timeline: Timeline, tables: Iterable[TableId], *, databases: Iterable[str] = (), statement: LoggedStatement | None = None
    ) -> None:
        """Write the records of these tables and databases, and return when they are durable.

        A table without any version left is erased. ``statement`` is the DDL that changed them;
        Debezium's history gets it too if the topic has one.
        """
        records = [
            (self._key("table", f"{id_.database}.{id_.name}", id_), _value(timeline.to_record(id_))) for id_ in dict.fromkeys(tables)
        ]
        for name in databases:
            defaults = timeline.databases.get(name)
            value = None if defaults is None else {"charset": defaults.charset, "collation": defaults.collation}
            records.append((self._key("database", name), _value(value)))
        if statement is not None:
            self._write_statement(records, statement)
        elif records:
            self._log.write(records)

    def _write_statement(self, records: list[tuple[bytes, bytes | None]], statement: LoggedStatement) -> None:
        """Write Debezium's record of a statement together with ours.

        A failed write may have stored it, so in that case read the topic first.
        """
        if self._is_uncertain:
            for _ in self._read():
                pass
        if (peer := self._debezium.record(statement)) is not None:
            records = [*records, peer]
        if records:
            self._is_uncertain = peer is not None
            try:
                self._log.write(records)
            except RecordTooLargeError as e:
                if peer is None or len(peer[1]) < _LARGE_BYTES:
                    raise
                self._write_without(peer, records, e)
                peer = None
        if peer is not None:
            self._debezium.observe(*peer)
        self._is_uncertain = False

    def _write_without(self, peer: tuple[bytes, bytes], records: Sequence[tuple[bytes, bytes | None]], error: RecordTooLargeError) -> None:
        """Write only dblog's own records, without the statement for Debezium's history.

        They are small, and dblog needs no others. A client may send a statement of megabytes about
        any table.
        """
        if own := [record for record in records if record is not peer]:
            self._log.write(own)
        log.warning(
            "a statement is left out of Debezium's schema history: it is larger than the topic takes; should Debezium go on from here, rebuild its history "
            "(snapshot.mode=recovery)",
            statement_bytes=len(peer[1]),
            reason=str(error),
        )

    def _read(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        for key, value in self._log.read():
            self._debezium.observe(key, value)
            yield key, value

    def begin_epoch(self, timeline: Timeline, began_at: Position) -> None:
        """Store the position where a new epoch begins; save the tables as they are before it first.

        An offset that names no epoch belongs to the newest one.
        """
        timeline.began = began_at
        self._log.write([(self._key("position", KeptPosition.EPOCH.value), _value({"sequence": list(began_at)}))])

    def save_all(self, timeline: Timeline) -> None:
        """Write every table and database, after the first read of the catalog."""
        self.save(timeline, timeline.tables(), databases=timeline.databases)

    def prune(self, timeline: Timeline, committed: Position) -> None:
        """Drop versions that no restart needs, and erase the records of tables that are gone.

        It is cheap if there is nothing to do, so it is called at every commit.
        """
        altered = timeline.take_refreshed().union(timeline.prune(committed))
        if altered:
            self.save(timeline, sorted(altered))

    def lists(self) -> Mapping[str, tuple[TableId, ...]]:
        """Return the stored lists of tables by id."""
        if self._lists is None:
            self._lists = self._lists_of({key: value for key, value in self._log.read() if key is not None})
        return self._lists

    def save_list(self, identity: str, tables: Sequence[TableId]) -> None:
        """Store a list before any text refers to it."""
        self._log.write([(self._list_key(identity), _value({"tables": [[table.database, table.name] for table in tables]}))])
        self._lists = {**self.lists(), identity: tuple(tables)}

    def keep_lists(self, identities: Collection[str | None]) -> None:
        """Erase the other lists: neither the stored offset nor the new run refers to them."""
        known = self.lists()
        if gone := [identity for identity in known if identity not in identities]:
            self._log.write([(self._list_key(identity), None) for identity in gone])
            self._lists = {identity: tables for identity, tables in known.items() if identity not in gone}

    def close(self) -> None:
        """Close the topic."""
        self._log.close()

    def _key(self, kind: str, name: str, id_: TableId | None = None) -> bytes:
        key: dict[str, object] = {"dblog": FORMAT, "server": self._server, kind: name}
        if id_ is not None and ("." in id_.database):  # the dot would be ambiguous
            key["db_length"] = len(id_.database)
        return json.dumps(key, separators=(",", ":"), ensure_ascii=False).encode()

    def _list_key(self, identity: str) -> bytes:
        # Without "server": a version that does not know lists takes such a record for another
        # connector's.
        return json.dumps({"dblog": FORMAT, "dumps": self._server, "list": identity}, separators=(",", ":"), ensure_ascii=False).encode()

    def _lists_of(self, records: Mapping[bytes, bytes | None]) -> dict[str, tuple[TableId, ...]]:
        lists = {}
        for key, value in records.items():
            if value is None or b'"dumps"' not in key:
                continue
            # A list that cannot be read is reported as missing by the text that refers to it.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                parsed = json.loads(key)
                if parsed["dumps"] == self._server and parsed["dblog"] == FORMAT:
                    lists[str(parsed["list"])] = tuple(TableId(database, name) for database, name in json.loads(value)["tables"])
        return lists

    def _ours(self, key: bytes) -> TableId | KeptPosition | str | None:
        """Return what a record is about: a table, a position, or a database's name; None if it is
        not ours.
        """
        try:
            parsed = json.loads(key)
        except ValueError:
            return None
        if not isinstance(parsed, dict) or "dblog" not in parsed or parsed.get("server") != self._server:
            return None
        if parsed["dblog"] != FORMAT:
            raise DefiniteError(
                f"the schema history was written by a newer version (format {parsed['dblog']}, this one reads {FORMAT}); use that version"
            )
        if "position" in parsed:
            return KeptPosition(parsed["position"])
        if "database" in parsed:
            return str(parsed["database"])
        name = str(parsed["table"])
        cut = int(parsed.get("db_length", name.index(".")))
        return TableId(name[:cut], name[cut + 1 :])


def _value(record: object) -> bytes | None:
    return None if record is None else json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


class StoredHistory(Protocol):
    """The place where a connector's history is stored (``dialects.tasks.HistoryTopic``)."""

    def open(self) -> SchemaHistory:
        """Return the history. Raise an error if its place cannot be reached."""
