"""A SET with an empty member has one text on every path: Debezium's of the log, each member's name behind a comma but for the first, empty or not.

The server's own text does not distinguish them: SET('','a','b') shows 'a' for the values 2 and 3 alike, which as a key would be one row.
"""

from __future__ import annotations

import pytest
from dblog.codecs.rowplan import ReferencePlan
from dblog.dialects.mysql.binlog import _fast, row_image
from dblog.dialects.mysql.binlog.source_block import BinlogContext
from dblog.dialects.mysql.values.types import TypeModes
from integration.test_types_differential import SENTINEL, Decoder, by_log, dumped, named_table, opened, plan_of, read_log
from reference_decoders.mysql.decoder_reference import ReferenceLogDecoder
from stack.database import Database
from support.follower import Follower
from support.servers import connected, execute, new_database

WIDE = ["", *(f"m{number}" for number in range(1, 64))]
TABLES = {
    "first": (["", "a", "b"], range(8)),
    "middle": (["a", "", "b'\\?"], range(8)),
    "alone": ([""], range(2)),
    "plain": (["a", "b"], range(4)),
    "wide": (WIDE, [0, 1, 3, 1 << 63, (1 << 63) + 1, (1 << 53) + 1, (1 << 64) - 1]),
}


def text_of(members: list[str], value: int) -> str:
    return ",".join(member for index, member in enumerate(members) if value >> index & 1)


def literals(members: list[str]) -> str:
    return ",".join("'" + m.replace("\\", "\\\\").replace("'", "''") + "'" for m in members)


def test_a_set_with_an_empty_member_has_one_text_on_all_paths(source: Database) -> None:
    database = new_database(source, "sets")
    with opened(source) as session:
        with connected(source, database=database) as connection, connection.cursor() as cursor:
            for name, (members, _) in TABLES.items():
                cursor.execute(f"CREATE TABLE {name} (id BIGINT UNSIGNED, s SET({literals(members)}), tail INT, PRIMARY KEY (id))")
            file, pos, _ = session.current_position()
            for name, (_, values) in TABLES.items():
                for value in values:
                    cursor.execute(f"INSERT INTO {name} VALUES ({value}, {value}, 77)")
            cursor.execute(f"CREATE TABLE {SENTINEL} (id int)")
            cursor.execute(f"INSERT INTO {SENTINEL} VALUES (1)")
        catalog = session.read_catalog(lambda t: t.database == database and t.name in TABLES)
        modes = TypeModes(bigint_unsigned_handling_mode="precise")
        plans = {table.id: plan_of(source, table, modes) for table in catalog}
        raw = read_log(session, file, pos)
        packets = dumped(session, plans)
    fast = {table: _fast.FastPlan(plan, row_image) for table, plan in plans.items()}
    slow = {table: ReferencePlan(plan, row_image) for table, plan in plans.items()}
    context = BinlogContext(
        file=file, pos=pos, server_id=0, source_ts_us=0, now_us=0, sequence_high=0, sequence_low=0, snapshot="incremental"
    )

    in_log = by_log(_fast.LogDecoder(flavor=source.flavor, resolve=lambda body, _p: fast.get(named_table(body))), raw, file, pos)
    in_slow_log = by_log(ReferenceLogDecoder(flavor=source.flavor, resolve=lambda body, _p: slow.get(named_table(body))), raw, file, pos)

    assert in_log == in_slow_log
    for table, plan in plans.items():
        members, values = TABLES[table.name]
        wanted = {value: (text_of(members, value), 77) for value in values}
        decode = Decoder(plan).after
        chunk = fast[table].encode_chunk(packets[table][0], context, frozenset())
        assert chunk == slow[table].encode_chunk(packets[table][0], context, frozenset())
        for records in ([value for _, value in in_log[table]], chunk[1]):
            rows = [decode(value) for value in records]
            assert {int(row["id"]): (row["s"], row["tail"]) for row in rows} == wanted


@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL"])
def test_a_set_with_an_empty_member_is_a_key_in_chunks_and_rows_that_are_read_again(source: Database, row_image: str) -> None:
    database = new_database(source, "setkey")
    values = ", ".join(f"({value}, {value})" for value in range(1, 8))
    execute(
        source,
        "CREATE TABLE k (s SET('','a','b') NOT NULL, v INT, w INT, PRIMARY KEY (s))",
        f"INSERT INTO k (s, v) VALUES {values}",
        database=database,
    )
    execute(source, f"SET GLOBAL binlog_row_image = '{row_image}'")
    follower = Follower(source, database, **{"dblog.chunk.rows": "3", "dblog.row.image.missing": "reread"})
    try:
        follower.start()
        follower.until_dumped()
        dumped_keys = sorted(follower.rows["k"])
        follower.sql("UPDATE k SET v = v + 10 WHERE s IN (2, 3)")
        follower.until(lambda: sorted(row["v"] for row in follower.rows["k"].values()) == [1, 4, 5, 6, 7, 12, 13])
    finally:
        execute(source, "SET GLOBAL binlog_row_image = 'FULL'")
        follower.task.stop()

    # Value 0 would have the text of value 1, in Debezium too.
    assert len(dumped_keys) == 7
    assert {row["s"]: row["v"] for row in follower.rows["k"].values()} == {
        "": 1, "a": 12, ",a": 13, "b": 4, ",b": 5, "a,b": 6, ",a,b": 7,
    }  # fmt: skip
