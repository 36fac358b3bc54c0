"""PostgreSQL's chunk connections keep the contract, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from contracts.dump_connection import DumpConnectionContract, Given
from dblog.dialects.postgres.catalog import chunk_sql, sql
from dblog.dialects.postgres.catalog.places import by_place
from dblog.dialects.postgres.wire.connect import ConnectSettings, ReadOnlyError, Wire
from dblog.dialects.postgres.wire.dump import DumpConnection
from dblog.dialects.postgres.wire.session import Session, connect
from dblog.errors import DefiniteError
from dblog.model import TableId
from stack import Postgres
from support.postgres import connected, execute


def settings_of(server: Postgres, database: str) -> ConnectSettings:
    return ConnectSettings(host=server.host, port=server.port, user=server.user, password=server.password, database=database)


def identity_of(wire: Wire) -> str:
    return Session(wire, by_root=False).identity


class TestDumpConnection(DumpConnectionContract):
    @pytest.fixture
    def given(self, postgres: Postgres, postgres_database: str) -> Iterator[Given]:
        execute(postgres, "CREATE TABLE t (a BIGINT, b VARCHAR(10), v VARCHAR(2000), PRIMARY KEY (a, b))", database=postgres_database)
        settings = settings_of(postgres, postgres_database)
        session = connect(settings, by_root=False)
        (table,) = session.read_tables(lambda table: table == TableId("public", "t")).values()
        with connected(postgres, database=postgres_database) as connection:

            def insert(rows: Sequence[tuple[int, str, str | None]]) -> None:
                with connection.cursor() as cursor:
                    values = b", ".join(cursor.mogrify("(%s, %s, %s)", row) for row in rows)
                    cursor.execute(b"INSERT INTO t VALUES " + values)

            yield Given(
                table=table,
                sql=sql,
                connect=lambda: DumpConnection.open(settings, settings, identity=identity_of, server=session.identity, read_only=False),
                insert=insert,
                row_count=lambda rows: rows.count(b"\n"),
            )
        session.close()

    # number 33 of the worker's safety
    def test_a_function_that_writes_is_refused_for_good(
        self, postgres, postgres_database, given, connection
    ):  # also one that a standby refuses
        execute(
            postgres,
            "CREATE FUNCTION writes() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE made (a int); RETURN true; END $$",
            database=postgres_database,
        )
        given.insert([(1, "a", "x")])
        connection.begin_snapshot()

        text, parameters = given.sql.chunk_select(given.table, None, None, 10, where="writes()")
        with pytest.raises(ReadOnlyError, match="writes, and chunks are read in a transaction that is READ ONLY"):
            connection.select(text, parameters, table=given.table.id)

        assert self.chunk(given, connection, None, None, 10).row_count == 1, "the snapshot goes on"
        connection.end_snapshot()
        with pytest.raises(ReadOnlyError):
            connection.select(text, parameters, table=given.table.id)

    @pytest.mark.parametrize("extension", [False, True])
    def test_no_operator_or_function_that_somebody_else_puts_into_a_schema_runs(self, postgres, postgres_database, given, extension):
        signatures = [
            *((operator, "varchar", "varchar") for operator in (">", "<=", "=")),
            ("=", "oid", "regclass"), ("/", "float8", "int4"), ("/", "int4", "float8"), ("*", "numeric", "int4"), ("=", "numeric", "int4"),
            ("=", "float8", "int4"),
        ]  # fmt: skip
        execute(
            postgres,
            "GRANT CREATE ON SCHEMA public TO PUBLIC",
            *(["CREATE EXTENSION citext"] if extension else []),
            "CREATE FUNCTION mod(numeric, int4) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN RAISE 'another mod'; END $$",
            *(
                f"CREATE FUNCTION f{number}({left}, {right}) RETURNS {left if operator in '*/' else 'boolean'} LANGUAGE plpgsql AS $$ BEGIN RAISE 'another'; "
                f"END $$; CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = f{number})"
                for number, (operator, left, right) in enumerate(signatures)
            ),
            database=postgres_database,
        )
        given.insert([(1, "a", "x"), (2, "b", "x"), (3, "c", "y")])
        where = "v = 'x'" if not extension else "v::text = 'x'"
        connection = given.connect()
        try:
            connection.limit_locks(1000)
            assert connection.log_end() > 0
            connection.begin_snapshot()

            text, parameters = chunk_sql.chunk_select(given.table, (1, "a"), (3, "c"), 10, where=where)
            assert connection.select(text, parameters).row_count == 1
            assert connection.select(*chunk_sql.rows_by_key(given.table, [(1, "a"), (3, "c")])).row_count == 2
            assert connection.select(*chunk_sql.key_lookup(given.table, (2, "b"), (1, "a"))).row_count == 1
            placed = by_place(given.table)
            assert connection.select(*chunk_sql.max_key(placed)).row_count == 1
            assert connection.select(*chunk_sql.last_key(placed, None, (1, 0), 2)).row_count == 1
        finally:
            connection.close()

    @pytest.mark.parametrize("inside", [False, True])
    def test_a_text_with_more_than_one_statement_runs_none(self, postgres, postgres_database, given, connection, inside):
        if inside:
            connection.begin_snapshot()

        for more in ("COMMIT; CREATE TABLE made (a int)", "SELECT 1"):
            with pytest.raises(DefiniteError, match="42601|multiple commands"):
                connection.select(f"SELECT 1) TO STDOUT; {more}; COPY (SELECT 2", (), table=given.table.id)

        assert execute(postgres, "SELECT pg_catalog.to_regclass('made')", database=postgres_database) == [(None,)]
        if inside:
            connection.end_snapshot()
        else:
            session = connect(settings_of(postgres, postgres_database), by_root=False)
            with pytest.raises(DefiniteError, match="42601|multiple commands"):
                session.try_condition("SELECT 1) TO STDOUT; COMMIT; CREATE TABLE made (a int); COPY (SELECT 2", doing="trying")
            session.close()
            assert execute(postgres, "SELECT pg_catalog.to_regclass('made')", database=postgres_database) == [(None,)]
