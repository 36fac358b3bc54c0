"""Which schema rows get where text and log do not show it: read again, parked with an end, parked without one. # I4"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.core.changes import AlterTable, Change, CreateTable, DropTable, Unknown
from dblog.core.crosscheck import Seen
from dblog.core.timeline import Known, Parked, Timeline
from dblog.dialects.mysql.ddl.lexer import LexerMode
from dblog.dialects.mysql.ddl.row_changes import row_change
from dblog.dialects.mysql.task.schemas import ADVICE
from dblog.errors import DefiniteError
from dblog.model import Column, Table, TableId
from dblog.readers.contract import Reading
from dblog.readers.items import ROWS_PARKED
from dblog.readers.log.history import SchemaHistory
from dblog.readers.log.schemas import PassedOver, Schemas
from dblog.readers.options import DumpRule
from dblog.readers.standing_warnings import StandingWarnings
from dblog.readers.topics import SharedTopicWarnings
from support.history import FakeHistoryLog
from support.worker import connector_config

T, U = TableId("d", "t"), TableId("d", "u")
BEGIN = object()


def table(id_: TableId, *names: str) -> Table:
    return Table(id=id_, columns=tuple(Column(name=name, type="int", type_text="int", nullable=True) for name in names))


@dataclass
class World:
    """A server whose tables are ``now``; ``touched`` is whether they were altered again before they were read."""

    now: dict[TableId, Table] = field(default_factory=dict)
    touched: bool = False
    end: tuple[int, int] = (1, 100)
    changes: tuple[Change, ...] = ()
    log: FakeHistoryLog = field(default_factory=FakeHistoryLog)
    readings: int = 0
    ids: tuple[TableId, TableId] = (T, U)

    def schemas(
        self, timeline: Timeline, *, dumps: Any = lambda _: True, goes_on: bool = False, topics: SharedTopicWarnings | None = None
    ) -> Schemas:
        log_schemas: Any = SimpleNamespace(
            advice=ADVICE,
            read_table_map=lambda body: (
                self.ids[body != b"t"],
                self.seen,
                lambda known, found: known if known.type == found.type else found,
            ),
            parse_statement=lambda _query, _text, _position: self.changes,
            rewritten=lambda changes, _before: {t: "x" for c in changes if isinstance(c, Unknown) for t in c.ids},
            row_change=lambda _query, text: row_change(text, database=T.database, mode=LexerMode()),
            read_table=self._read,
        )
        history = SchemaHistory(self.log, server="s")
        records: Any = SimpleNamespace(encoder=lambda built: SimpleNamespace(plan=SimpleNamespace(table=built)))
        options: Any = SimpleNamespace(
            selection=SimpleNamespace(includes=lambda _: True),
            is_filtered=lambda _: False,
            dump=DumpRule(mode="initial", dumps=dumps, goes_on=goes_on),
        )
        return Schemas(
            timeline=timeline,
            history=history,
            log_schemas=log_schemas,
            options=options,
            records=records,
            retrying=lambda call: call(),
            topics=topics,
        )

    seen: Seen = field(default_factory=lambda: Seen(columns=table(T, "", "").columns, named=False))

    def _read(self, id_: TableId, _position: Any, _begin: object) -> Reading:
        self.readings += 1
        return Reading(table=self.now.get(id_), position=self.end, touched=self.touched)

    def statement(self, schemas: Schemas, position: tuple[int, int], text: str = "ALTER") -> Any:
        return schemas.statement(None, text, position=position, note={}, begin=BEGIN)


def known(*tables: Table) -> Timeline:
    timeline = Timeline()
    for one in tables:
        timeline.put(one, (0, 1))
    return timeline


def columns_of(encoder: Any) -> list[str] | None:
    return None if encoder in (None, ROWS_PARKED) else [c.name for c in encoder.plan.table.columns]


def test_a_statement_that_is_not_understood_has_its_table_read_at_once() -> None:
    world = World(now={T: table(T, "id", "new")}, changes=(Unknown((T,), "a clause"),))
    schemas = world.schemas(known(table(T, "id"), table(U, "id", "x")))

    done = world.statement(schemas, (1, 10))

    assert columns_of(schemas.resolve(b"t", (1, 11), BEGIN)) == ["id", "new"]
    assert columns_of(schemas.resolve(b"u", (1, 11), BEGIN)) == ["id", "x"]
    assert (done.touched, list(done.rewritten), schemas.parked) == ((T,), [T], {})


def test_a_table_altered_again_is_parked_to_where_the_server_is_and_no_other() -> None:
    world = World(now={T: table(T, "id", "late")}, touched=True, changes=(Unknown((T,), "a clause"),))
    schemas = world.schemas(known(table(T, "id"), table(U, "id", "x")))
    world.statement(schemas, (1, 10))

    assert schemas.resolve(b"t", (1, 50), BEGIN) is ROWS_PARKED
    assert columns_of(schemas.resolve(b"u", (1, 50), BEGIN)) == ["id", "x"]
    assert list(schemas.parked) == [T]
    assert schemas.take_ended((1, 99)) == {}
    assert list(schemas.take_ended((1, 100))) == [T]
    assert columns_of(schemas.resolve(b"t", (1, 100), BEGIN)) == ["id", "late"]
    assert (schemas.parked, schemas.waits_for_end) == ({}, False)


def test_where_nothing_is_dumped_rows_are_not_passed_over_either() -> None:
    world = World(now={T: table(T, "id", "late")}, touched=True, changes=(Unknown((T,), "a clause"),))
    schemas = world.schemas(known(table(T, "id")), dumps=lambda _: False)

    with pytest.raises(DefiniteError, match=r"rows of d\.t in the log cannot be decoded: .*binlog_row_metadata"):
        world.statement(schemas, (1, 10))


def test_a_parking_comes_back_with_the_history_unless_its_end_was_passed() -> None:
    world = World(now={T: table(T, "id", "late")}, touched=True, changes=(Unknown((T,), "a clause"),))
    world.statement(world.schemas(known(table(T, "id"))), (1, 10))

    for at, ends in (((1, 20), [T]), ((1, 100), [])):
        timeline = Timeline()
        SchemaHistory(world.log, server="s").recover(timeline)
        again = world.schemas(timeline)
        again.resume_parkings(at)
        assert list(again.take_ended((1, 200))) == ends


def test_what_does_not_fit_the_log_though_nothing_happened_stays_parked() -> None:
    world = World(now={T: table(T, "only one")})
    schemas = world.schemas(known(table(T, "one", "two", "three")))

    assert schemas.resolve(b"t", (1, 50), BEGIN) is ROWS_PARKED

    assert isinstance(schemas.timeline.current(T), Parked)
    assert "binlog_row_metadata=FULL" in schemas.parked[T]
    assert schemas.resolve(b"t", (1, 60), BEGIN) is ROWS_PARKED
    assert world.readings == 1


def test_a_table_that_is_gone_is_passed_over_without_an_alarm() -> None:
    world = World(now={})
    schemas = world.schemas(known(table(T, "one")))

    assert schemas.resolve(b"t", (1, 50), BEGIN) is None
    assert schemas.parked == {}


def test_a_statement_that_names_nothing_spoils_the_tables_whose_names_stand_in_it() -> None:
    world = World(now={T: table(T, "a", "b")}, changes=(Unknown((), "an unknown statement"),))
    schemas = world.schemas(known(table(T, "a"), table(TableId("d", "elsewhere"), "x")))

    done = world.statement(schemas, (1, 10), "TRANSMOGRIFY T")

    assert done.touched == (T,)
    assert isinstance(schemas.timeline.current(T), Known)


def test_the_next_statement_that_is_understood_ends_a_parking() -> None:
    world = World(now={T: table(T, "only one")})
    schemas = world.schemas(known(table(T, "one", "two", "three")))
    schemas.resolve(b"t", (1, 50), BEGIN)
    world.changes = (AlterTable(T, table(T, "x", "y")),)

    done = world.statement(schemas, (1, 60))

    assert schemas.parked == {}
    assert list(done.unparked) == [T]  # the rows in between were passed over: it has to be dumped
    assert columns_of(schemas.resolve(b"t", (1, 61), BEGIN)) == ["x", "y"]


def test_a_parked_table_that_a_statement_has_read_again_has_its_rows_dumped_whatever_is_redumped() -> None:
    world = World(now={T: table(T, "only one")})
    schemas = world.schemas(known(table(T, "one", "two", "three")))
    schemas.resolve(b"t", (1, 50), BEGIN)
    world.now, world.changes = {T: table(T, "a", "b")}, (Unknown((T,), "a clause"),)

    done = world.statement(schemas, (1, 60))

    assert (list(done.unparked), done.rewritten, schemas.parked) == ([T], {}, {})


@pytest.mark.parametrize("goes_on", [False, True])
def test_whether_rows_may_be_passed_over_is_decided_table_by_table(goes_on: bool) -> None:
    world = World(now={T: table(T, "late"), U: table(U, "late")}, touched=True)
    schemas = world.schemas(known(table(T, "id"), table(U, "id")), dumps=lambda id_: id_ == U, goes_on=goes_on)

    assert schemas.resolve(b"u", (1, 50), BEGIN) is ROWS_PARKED
    if not goes_on:
        with pytest.raises(
            DefiniteError, match=r"rows of d\.t .*snapshot\.include\.collection\.list.*inconsistent\.schema\.handling\.mode=warn"
        ):
            schemas.resolve(b"t", (1, 51), BEGIN)
        return
    encoder: Any = schemas.resolve(b"t", (1, 51), BEGIN)
    encoder.encode_rows("c", b"", SimpleNamespace(file="log.000001", pos=10))
    assert schemas.passed_over.total == 1


def test_statements_that_change_captured_rows_are_refused() -> None:
    schemas = World().schemas(known(table(T, "one")))

    with pytest.raises(DefiniteError, match="binlog_format"):
        World().statement(schemas, (1, 5), "UPDATE t SET one = 1")


def test_a_statement_that_changes_rows_of_another_table_passes_though_it_has_the_captured_one_s_name_somewhere() -> None:
    schemas = World().schemas(known(table(T, "one")))

    World().statement(schemas, (1, 5), "REPLACE INTO percona.heartbeat (t) VALUES ('to t')")


def named(*columns: Column, complete: bool = True) -> Seen:
    return Seen(columns=columns, named=True, complete=complete)


def test_a_log_that_contradicts_has_the_table_read_and_the_server_believed() -> None:
    other = Column(name="id", type="date", type_text="date", nullable=True, comment="of the server")
    world = World(
        now={T: Table(id=T, columns=(other,), key=())}, seen=named(Column(name="id", type="date", type_text="date", nullable=True))
    )
    schemas = world.schemas(known(table(T, "id")))

    encoder = schemas.resolve(b"t", (1, 50), BEGIN)

    assert (encoder.plan.table.columns, world.readings) == ((other,), 1)
    assert schemas.resolve(b"t", (1, 60), BEGIN) is encoder
    assert world.readings == 1


def test_a_log_that_contradicts_statements_and_server_parks_its_table_alone() -> None:
    world = World(now={T: table(T, "id")}, seen=named(Column(name="id", type="date", type_text="date", nullable=True)))
    schemas = world.schemas(known(table(T, "id")))

    assert schemas.resolve(b"t", (1, 50), BEGIN) is ROWS_PARKED
    assert "d.t: column id is date" in schemas.parked[T]
    assert schemas.resolve(b"t", (1, 60), BEGIN) is ROWS_PARKED
    assert world.readings == 1
    with pytest.raises(DefiniteError, match="the log contradicts the schema of d.t"):
        world.schemas(known(table(T, "id")), dumps=lambda _: False).resolve(b"t", (1, 50), BEGIN)


@pytest.mark.parametrize("gone", [True, False])
def test_where_nobody_else_can_state_any_more_the_log_stands_alone_if_it_shows_all(gone: bool) -> None:
    columns = (Column(name="id", type="date", type_text="date", nullable=True),)
    for complete in (True, False):
        world = World(now={} if gone else {T: table(T, "later")}, touched=True, seen=named(*columns, complete=complete))
        schemas = world.schemas(known(table(T, "id")))

        assert columns_of(schemas.resolve(b"t", (1, 50), BEGIN)) == (["id"] if complete else None)


FIRST, LATER = TableId("a.b", "c"), TableId("a", "b.c")
"""Two tables of one topic."""


@pytest.mark.parametrize("dumps", [True, False])
@pytest.mark.parametrize("by", ["a statement", "its first row"])
def test_a_table_whose_topic_another_one_has_is_parked_where_it_comes_and_the_other_one_goes_on(by: str, dumps: bool) -> None:
    warnings = StandingWarnings()
    topics = SharedTopicWarnings(parse_connector(MYSQL_OPTIONS, connector_config(name="a")), warnings)
    world = World(ids=(FIRST, LATER), now={LATER: table(LATER, "id")}, seen=Seen(columns=table(T, "").columns, named=False))
    schemas = world.schemas(known(table(FIRST, "id")), topics=topics, dumps=lambda _: dumps)
    if by == "a statement":
        world.changes = (CreateTable(table(LATER, "id")),)
        world.statement(schemas, (1, 10), "CREATE TABLE")

    rows = schemas.resolve(b"u", (1, 11), BEGIN)

    assert rows is ROWS_PARKED if dumps else isinstance(rows, PassedOver)
    assert columns_of(schemas.resolve(b"t", (1, 12), BEGIN)) == ["id"]
    assert (list(schemas.parked), schemas.encoder(LATER)) == ([LATER], None)
    (text,) = warnings.texts()
    assert '"a"."b.c" came last and is parked' in text

    again = world.schemas(
        schemas.timeline, topics=SharedTopicWarnings(parse_connector(MYSQL_OPTIONS, connector_config(name="a")), warnings)
    )
    assert list(again.parked) == [LATER], "also after a restart, before its first row"
    world.changes = (DropTable((LATER,)),)
    world.statement(schemas, (1, 20), "DROP TABLE")
    assert (schemas.parked, warnings.texts()) == ({}, ())
