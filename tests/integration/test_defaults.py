"""Default values: the same text whether the catalog or a statement of the log tells of them, with the server as oracle, and none stops a connector."""

from __future__ import annotations

from stack.database import Database
from support.ddl_truth import Follower as Statements
from support.follower import Follower
from support.servers import connected, execute, new_database

BINARY_DEFAULTS = (
    ("VARBINARY(4)", "x'00ff'", "00FF"),
    ("VARBINARY(4)", "x'6100'", "6100"),
    ("VARBINARY(4)", "x'610062'", "610062"),
    ("VARBINARY(9)", "x'c3a9ff27'", "C3A9FF27"),
    ("BINARY(4)", "x'00ff'", "00FF"),
    ("BINARY(4)", "x'80'", "80"),
    ("BINARY(4)", "'ab'", "6162"),
)


def test_a_binary_default_anywhere_on_the_server_stops_no_connector(source: Database) -> None:
    database, other = new_database(source, "plain"), new_database(source, "other")
    execute(source, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database)
    columns = ", ".join(f"c{n} {type_} DEFAULT {literal}" for n, (type_, literal, _) in enumerate(BINARY_DEFAULTS))
    execute(source, f"CREATE TABLE b ({columns})", database=other)
    follower = Follower(source, database)

    follower.start()
    try:
        follower.until_dumped()
        follower.until_equal("t")
        follower.until(lambda: any(told["source"]["db"] == other and "`b`" in told["ddl"] for told in follower.told))
    finally:
        follower.task.stop()
        execute(source, f"DROP DATABASE {other}")


def test_a_binary_default_is_read_byte_by_byte(source: Database) -> None:
    with connected(source) as connection, connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS binary_defaults")
        follower = Statements(cursor, source.flavor, "binary_defaults")
        columns = ", ".join(f"c{n} {type_} DEFAULT {literal}" for n, (type_, literal, _) in enumerate(BINARY_DEFAULTS))
        follower.run(f"CREATE TABLE b ({columns})")
        (truth,), (ours,) = follower.truth().values(), follower.ours().values()
        cursor.execute("DROP DATABASE binary_defaults")

    expected = ["0x" + digits for _, _, digits in BINARY_DEFAULTS]
    assert [column.default for column in truth.columns] == expected
    assert [column.default for column in ours.columns] == expected
