"""Three ways to read one row agree: the log, a dump, and the server itself, which is given back what the records have.

Every type that records have, with random values, in several handling modes. The log has each row as an insert, an update and a delete with all columns before
and after; the dump has it as a line of COPY. What a record has is put into a second table by the way back that a consumer takes
(``support.postgres_generated``), and the server says where that table differs from the first.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import fastavro
import pytest
from dblog.clock import SystemClock
from dblog.codecs import avro
from dblog.codecs.rowplan import RowEncoder
from dblog.codecs.schema import Schema
from dblog.config.connector import POSTGRES_OPTIONS, parse_connector
from dblog.dialects.postgres.catalog import sql
from dblog.dialects.postgres.pgoutput._fast import LogDecoder
from dblog.dialects.postgres.pgoutput.changes import merged
from dblog.dialects.postgres.pgoutput.items import LogEvent, LogOffset
from dblog.dialects.postgres.pgoutput.messages import XLOG_DATA, Relation, copy_messages, read_relation
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext
from dblog.dialects.postgres.task.plans import PostgresPlans
from dblog.dialects.postgres.values.modes import TypeModes
from dblog.dialects.postgres.wire.connect import ConnectSettings, open_wire
from dblog.dialects.postgres.wire.dump import DumpConnection
from dblog.dialects.postgres.wire.log import ConfirmedLsn, LogConnection
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.dialects.postgres.wire.slot import create_slot, options_of
from dblog.model import Column, Table, TableId
from dblog.readers.items import LogRows
from dblog.readers.records import Records
from reference_decoders.postgres.decoder_reference import ReferenceLogDecoder
from stack import Postgres
from support.postgres import connected, execute, new_database
from support.postgres_generated import FAMILIES, PREPARATION, Kind, keyable
from support.postgres_type_cases import SETTINGS

SEED = 20270114
READ_LIMIT_S = 60.0
CHUNK_ROWS = 7

MODES: dict[str, dict[str, str]] = {
    "as they come": {"include.unknown.datatypes": "true"},
    "texts": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64",
        "hstore.handling.mode": "map",
        "interval.handling.mode": "string",
    },
    "doubles": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "nanoseconds",
        "binary.handling.mode": "hex",
        "include.unknown.datatypes": "true",
    },
}
MORE_MODES: dict[str, dict[str, str]] = {
    "Connect's": {"time.precision.mode": "connect", "binary.handling.mode": "base64-url-safe", "include.unknown.datatypes": "true"},
    "microseconds": {"time.precision.mode": "microseconds", "hstore.handling.mode": "map", "interval.handling.mode": "string"},
    "adaptive microseconds": {"time.precision.mode": "adaptive_time_microseconds"},
}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A table of random rows, each with a number ``id``, which is its key unless ``by_value``: its one column is then."""

    name: str
    kinds: tuple[Kind, ...]
    nullable: tuple[bool, ...]
    by_value: bool = False
    rows: list[list[str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [f"c{number}" for number in range(len(self.kinds))]

    @property
    def create(self) -> str:
        columns = (
            f"{name} {kind.ddl}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in zip(self.names, self.kinds, self.nullable, strict=True)
        )
        key = self.names[0] if self.by_value else "id"
        return f"CREATE TABLE {self.name} (id int NOT NULL, n int NOT NULL, {', '.join(columns)}, PRIMARY KEY ({key}))"

    def insert(self, modes: list[TypeModes]) -> str:
        """A key that a record cannot hold has no row, for there is none."""
        rows = ", ".join(f"({number}, 0, {', '.join(row)})" for number, row in enumerate(self.rows))
        if not self.by_value:
            return f"INSERT INTO {self.name} VALUES {rows}"
        unfit = {condition.format(c="c0") for one in modes if (condition := self.kinds[0].unfit(one)) is not None}
        where = " OR ".join(unfit) or "false"
        return f"INSERT INTO {self.name} SELECT * FROM (VALUES {rows}) AS v (id, n, c0) WHERE NOT ({where}) ON CONFLICT DO NOTHING"


def generated(chance: random.Random, *, rows: int, key_rows: int) -> list[Made]:
    """Of each family a table with a column for every type, half of which take no NULL; of each type that a key may have a table by it."""
    out = []
    for number, kinds in enumerate(FAMILIES.values()):
        # A value that some mode cannot express is NULL in records, where that may be.
        nullable = tuple(any(kind.unfit(modes) for modes in ALL_MODES) or chance.random() < 0.5 for kind in kinds)
        made = Made(name=f"f{number}", kinds=kinds, nullable=nullable)
        for _ in range(rows):
            pairs = zip(kinds, nullable, strict=True)
            made.rows.append(["NULL" if null and chance.random() < 0.08 else kind.literal(chance) for kind, null in pairs])
        out.append(made)
    for number, kind in enumerate(keyable()):
        made = Made(name=f"k{number}", kinds=(kind,), nullable=(False,), by_value=True)
        made.rows.extend([kind.literal(chance)] for _ in range(key_rows))
        out.append(made)
    return out


class Framed:
    """A converter that is Avro for the plans, and asks no registry."""

    is_avro = True

    def prefix(self, topic: str, schema: Schema) -> bytes:
        del topic, schema
        return b""

    def serialize(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise AssertionError(topic, schema, value)

    def partial_fault(self) -> str | None:
        return None


class Connector:
    """What one connector makes of the tables: an encoder each, and Avro read back by fastavro."""

    def __init__(self, server: Postgres, database: str, config: dict[str, str], tables: list[Table]) -> None:
        settings = parse_connector(POSTGRES_OPTIONS, {**config_of(server, database), **config})
        self.modes = TypeModes.from_settings(settings)
        records = Records(
            settings=settings,
            plans=PostgresPlans(settings),
            key_converter=Framed(),
            value_converter=Framed(),
            clock=SystemClock(),
            task=0,
        )
        self.encoders: dict[TableId, RowEncoder] = {table.id: records.encoder(table) for table in tables}
        self._schemas = {table: _plain(encoder.plan.value_schema) for table, encoder in self.encoders.items()}

    def envelope(self, table: TableId, value: bytes) -> dict[str, Any]:
        reader = BytesIO(value)
        record: dict[str, Any] = fastavro.schemaless_reader(reader, self._schemas[table])
        assert not reader.read()
        return record

    def by_log(self, raw: list[bytes], *, make: Callable[..., Any] = LogDecoder) -> dict[TableId, list[tuple[bytes | None, bytes | None]]]:
        """Key and value bytes of every record of the log, by table."""

        def resolve(relation: Relation, *_: Any) -> RowEncoder | None:
            return self.encoders.get(TableId(relation.schema, relation.name))

        decoder = make(resolve=resolve, committed=lambda *_: None, database="t")
        decoder.start(LogOffset(lsn=0), epoch=0, now_us=lambda: 1)
        items: list[LogRows | LogEvent] = []
        for data in raw:
            items += decoder.feed(data)
            while decoder.held:
                items += decoder.feed(b"")
        items += decoder.flush()
        found: dict[TableId, list[tuple[bytes | None, bytes | None]]] = {}
        for item in items:
            if isinstance(item, LogRows):
                for encoder, keys, values, _ in item.segments:
                    found.setdefault(encoder.plan.table.id, []).extend(zip(keys, values, strict=True))
        return found

    def by_dump(self, table: TableId, chunks: list[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        """The same of a table's lines of COPY."""
        context = PostgresContext(database="t", source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental")
        out: list[tuple[bytes | None, bytes | None]] = []
        for rows in chunks:
            keys, values, dropped, _ = self.encoders[table].encode_chunk(rows, context, frozenset())
            assert dropped == 0
            out += zip(keys, values, strict=True)
        return out


def _plain(schema: Schema) -> Any:
    """Dates and times stay numbers: Python's classes do not hold all of them."""
    return fastavro.parse_schema(json.loads(re.sub(r'"logicalType": ?"[a-z-]+",?', "", avro.avro_text(schema)).replace(",}", "}")))


def config_of(server: Postgres, database: str) -> dict[str, str]:
    return {
        "name": "c",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": "p",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database,
        "plugin.name": "pgoutput",
    }


ALL_MODES = [
    TypeModes(time_precision_mode=time_mode, decimal_handling_mode=decimals)
    for time_mode in ("adaptive", "nanoseconds")
    for decimals in ("precise", "string")
]


@contextlib.contextmanager
def opened(server: Postgres, database: str) -> Iterator[Session]:
    settings = ConnectSettings(host=server.host, port=server.port, user=server.user, password=server.password, database=database)
    with contextlib.closing(connect(settings, by_root=False)) as session:
        yield session


@contextlib.contextmanager
def slot_of(session: Session, name: str) -> Iterator[int]:
    """Where its log begins."""
    lsn = create_slot(session.settings, name, version=session.version, failover=False)
    try:
        yield lsn
    finally:
        session.query(f"SELECT pg_drop_replication_slot('{name}')")


def read_log(session: Session, slot: str, lsn: int) -> list[bytes]:
    """Messages of the log up to the one that says that it is over."""
    wire = open_wire(session.settings, replication=True)
    connection = LogConnection.open(
        wire, slot=slot, publication="p", options=options_of("p"), lsn=lsn, confirmed=ConfirmedLsn(lsn), status_interval_s=10.0
    )
    out: list[bytes] = []
    limit = time.monotonic() + READ_LIMIT_S
    with contextlib.closing(connection):
        while not any(b"the test is over" in data for data in out[-1:]):
            assert time.monotonic() < limit, "the log did not get to its end"
            if data := connection.receive(0.2):
                out.append(data)
    return out


def dumped(session: Session, table: Table) -> list[bytes]:
    """Chunks of a table as the chunk reader asks for them: each behind the last key of the one before."""
    dump = DumpConnection.open(
        session.settings, session.settings, identity=lambda _: session.identity, server=session.identity, read_only=True
    )
    with contextlib.closing(dump):
        dump.begin_snapshot()
        out: list[bytes] = []
        after = None
        while True:
            statement, parameters = sql.chunk_select(table, after, None, CHUNK_ROWS)
            chunk = dump.select(statement, parameters, key=sql.key_indexes(table), table=table.id)
            if not chunk.row_count:
                return out
            out.append(chunk.rows)
            after = chunk.last_key


def given_back(server: Postgres, database: str, made: Made, modes: TypeModes, rows: dict[int, dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What differs when the records' values are put into columns of their own: (column, type, the source's text, the record's)."""
    columns = [(name, kind) for name, kind in zip(made.names, made.kinds, strict=True) if kind.known(modes)]
    if not columns:
        return []
    assert {name for row in rows.values() for name in row} == {"id", "n", *(name for name, _ in columns)}
    kept = {name: (kind.ddl, "{c}") if kind.kept is None else kind.kept(modes) for name, kind in columns}
    different: list[tuple[Any, ...]] = []
    with connected(server, database=database) as connection, connection.cursor() as cursor:
        for name, value in SETTINGS.items():
            cursor.execute(f"SET {name} = '{value}'")
        cursor.execute(f"CREATE TEMPORARY TABLE back (id int, {', '.join(f'{name} {kept[name][0]}' for name, _ in columns)})")
        values = ", ".join(
            f"({number}, {', '.join('NULL' if row[name] is None else kind.back(row[name], modes) for name, kind in columns)})"
            for number, row in rows.items()
        )
        cursor.execute(f"INSERT INTO back VALUES {values}")
        for name, kind in columns:
            of, expression = kept[name]
            condition = kind.unfit(modes)
            unfit = "false" if condition is None else f"coalesce({condition.format(c=f't.{name}')}, false)"
            held = f"CASE WHEN NOT {unfit} THEN ({expression.format(c=f't.{name}')})::{of}::text END"
            cursor.execute(
                f"SELECT left(t.{name}::text, 200), left(b.{name}::text, 200) FROM {made.name} t LEFT JOIN back b USING (id) "
                f"WHERE {held} IS DISTINCT FROM b.{name}::text LIMIT 3"
            )
            different += [(f"{made.name}.{name} {kind.ddl}", *row) for row in cursor.fetchall()]
        cursor.execute(f"SELECT count(*) FROM {made.name}")
        assert cursor.fetchall() == [(len(rows),)]
    return different


def relations_of(raw: list[bytes]) -> Iterator[Relation]:
    for data in raw:
        for start, _ in copy_messages(data):
            at = start + XLOG_DATA.size
            if data[start : start + 1] == b"w" and data[at : at + 1] == b"R":
                yield read_relation(data, at + 1)


def columns_as_logged(session: Session, relation: Relation) -> list[Column]:
    """What a Relation message shows of columns."""
    texts = session.type_texts((column.type, column.modifier) for column in relation.columns)
    return [
        session.types.column(
            Column(name=column.name, type="", type_text=texts[column.type, column.modifier], nullable=True), column.type, column.modifier
        )
        for column in relation.columns
    ]


@pytest.mark.parametrize(
    ("rows", "key_rows", "modes", "seed"),
    [
        pytest.param(110, 60, MODES, SEED, id="some"),
        pytest.param(700, 400, {**MODES, **MORE_MODES}, SEED + 1, id="many", marks=pytest.mark.long),
    ],
)
def test_the_records_of_log_and_dump_are_the_rows_of_the_server(
    postgres: Postgres, rows: int, key_rows: int, modes: dict[str, dict[str, str]], seed: int
) -> None:
    database = new_database(postgres, "differential")
    tables = generated(random.Random(seed), rows=rows, key_rows=key_rows)
    by_id = {TableId("public", made.name): made for made in tables}
    execute(postgres, *PREPARATION, *(made.create for made in tables), "CREATE PUBLICATION p FOR ALL TABLES", database=database)
    execute(postgres, *(f"ALTER TABLE {made.name} REPLICA IDENTITY FULL" for made in tables), database=database)
    with opened(postgres, database) as session, slot_of(session, f"s_{database}") as lsn:
        catalog = list(session.read_tables(lambda table: table in by_id).values())
        connectors = {name: Connector(postgres, database, config, catalog) for name, config in modes.items()}
        all_modes = [one.modes for one in connectors.values()]
        execute(postgres, *(made.insert(all_modes) for made in tables), database=database)
        chunks = {table.id: dumped(session, table) for table in catalog}
        wrong: list[Any] = []
        in_dump: dict[str, dict[TableId, dict[int, Any]]] = {}
        for name, connector in connectors.items():
            in_dump[name] = {}
            for table, made in by_id.items():
                records = connector.by_dump(table, chunks[table])
                read = [(key, connector.envelope(table, value)["after"]) for key, value in records if value is not None]
                in_dump[name][table] = {row["id"]: (key, row) for key, row in read}
                assert len(in_dump[name][table]) == len(read), f"{made.name} has a row twice"
                wrong += given_back(
                    postgres, database, made, connector.modes, {number: row for number, (_, row) in in_dump[name][table].items()}
                )
        assert not wrong, "\n".join(map(repr, wrong))
        execute(
            postgres,
            *(f"UPDATE {made.name} SET n = 1" for made in tables),
            *(f"DELETE FROM {made.name}" for made in tables),
            database=database,
        )
        execute(postgres, "SELECT pg_logical_emit_message(true, 'test', 'the test is over')", database=database)
        raw = read_log(session, f"s_{database}", lsn)
        logged_columns = {TableId(one.schema, one.name): columns_as_logged(session, one) for one in relations_of(raw)}
        for table in catalog:
            for known, seen in zip(table.columns, logged_columns[table.id], strict=True):
                assert merged(known, seen) is known, "log and catalog describe a column alike"
                assert (known.name, known.type_text, known.members) == (seen.name, seen.type_text, seen.members)

    values = 0
    for name, connector in connectors.items():
        logged = connector.by_log(raw)
        if name == next(iter(connectors)):
            assert logged == connector.by_log(raw, make=ReferenceLogDecoder)
        for table, made in by_id.items():
            dump = in_dump[name][table]
            ops: dict[str, int] = {}
            for key, value in logged[table]:
                if value is None:
                    continue
                record = connector.envelope(table, value)
                ops[record["op"]] = ops.get(record["op"], 0) + 1
                for image, n in ((record["before"], int(record["op"] == "d")), (record["after"], int(record["op"] == "u"))):
                    if image is not None:
                        wanted_key, row = dump[image["id"]]
                        values += len(image) - 2
                        assert repr((key, image)) == repr((wanted_key, {**row, "n": n})), f"{name}: {record['op']} of {made.name}"
            assert ops == dict.fromkeys("cud", len(dump)), f"{name}: {made.name}"
    assert sum(len(row) - 2 for rows_of in in_dump["as they come"].values() for _, row in rows_of.values()) >= 15_000
    assert values >= 4 * 3 * 15_000 * 0.8  # before and after, and not every mode has the unknown types
