"""What every ``ports.DumpConnection`` with its statements must do: servers, the fake session, and the database in memory run this same suite.

A subclass has the fixture ``given``: a ``Given`` whose table has the columns (a BIGINT, b VARCHAR, v VARCHAR), key (a, b).
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from dblog.errors import TransientError
from dblog.model import Table
from dblog.ports import ChunkRows, DumpConnection


@dataclass(frozen=True)
class Given:
    """A database with one table; ``connect`` opens connections, ``insert`` commits rows, ``sql`` makes the statements.

    ``row_count`` walks the bytes of ``ChunkRows.rows``, and fails where they do not end with a row.
    """

    table: Table
    sql: Any
    connect: Callable[[], DumpConnection]
    insert: Callable[[Sequence[tuple[int, str, str | None]]], None]
    row_count: Callable[[bytes], int]


def token() -> str:
    return uuid.uuid4().hex


class DumpConnectionContract:
    @pytest.fixture
    def connection(self, given):
        connection = given.connect()
        yield connection
        connection.close()

    def chunk(self, given: Given, connection: DumpConnection, after, upto, rows_max: int, *, bytes_max: int = 0) -> ChunkRows:
        statement, parameters = given.sql.chunk_select(given.table, after, upto, rows_max)
        return connection.select(statement, parameters, bytes_max=bytes_max, key=given.sql.key_indexes(given.table))

    def keys_by_chunks(self, given: Given, connection: DumpConnection, upto, rows_max: int) -> list[tuple[Any, ...]]:
        """The last key of every chunk of one row, or of ``rows_max`` rows."""
        out, after = [], None
        for _ in range(1000):
            found = self.chunk(given, connection, after, upto, rows_max)
            assert given.row_count(found.rows) == found.row_count <= rows_max
            if found.last_key is None:
                return out
            out.append(found.last_key)
            after = found.last_key
        raise AssertionError("the chunks do not end")

    def test_a_watermark_is_seen_by_a_snapshot_that_begins_after_it_and_not_by_one_that_began_before(self, given, connection):
        name, first, second = f"slot {token()}", token(), token()

        connection.write_watermark(name, first)
        connection.begin_snapshot()
        connection.write_watermark(name, second)
        seen_within = connection.read_watermark(name)
        connection.end_snapshot()
        connection.begin_snapshot()
        seen_afterwards = connection.read_watermark(name)
        connection.end_snapshot()

        assert (seen_within, seen_afterwards) == (first, second)

    def test_selects_within_their_limit_are_answered_and_the_limit_can_be_taken_back(self, given, connection):
        given.insert([(1, "a", "x")])

        connection.begin_snapshot()
        connection.limit_selects(30.0)
        limited = self.chunk(given, connection, None, None, 10)
        connection.limit_selects(0)
        unlimited = self.chunk(given, connection, None, None, 10)

        assert (limited.row_count, unlimited.row_count) == (1, 1)

    def test_a_watermark_that_nobody_wrote_is_none(self, connection):
        connection.begin_snapshot()

        assert connection.read_watermark(f"nobody {token()}") is None

    def test_rows_committed_after_the_snapshot_began_are_not_in_it(self, given, connection):
        given.insert([(1, "a", "x")])

        connection.begin_snapshot()
        given.insert([(2, "b", "y")])
        within = self.chunk(given, connection, None, None, 10)
        connection.end_snapshot()
        connection.begin_snapshot()
        afterwards = self.chunk(given, connection, None, None, 10)

        assert (within.row_count, afterwards.row_count) == (1, 2)

    @pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
    def test_chunks_read_every_row_once_in_key_order(self, given, connection, rows_max):
        rows = [(a, b, f"{a}{b}" if a else None) for a, b in itertools.product(range(-2, 4), ["a", "b", "bb", "c"])]
        given.insert(rows)

        connection.begin_snapshot()
        seen = self.keys_by_chunks(given, connection, None, rows_max)

        keys = sorted((a, b) for a, b, _ in rows)
        assert seen == [*keys[rows_max - 1 :: rows_max], *([keys[-1]] if len(keys) % rows_max else [])]

    def test_every_range_of_two_bounds_holds_the_keys_behind_the_first_up_to_the_second(self, given, connection):
        keys = [(a, b) for a in (1, 2, 3) for b in ("a", "b")]
        given.insert([(a, b, None) for a, b in keys])

        connection.begin_snapshot()
        for after, upto in itertools.product([None, *keys], repeat=2):
            found = self.chunk(given, connection, after, upto, 100)

            wanted = [key for key in keys if (after is None or key > after) and (upto is None or key <= upto)]
            assert found.row_count == len(wanted), (after, upto)
            assert found.last_key == (wanted[-1] if wanted else None), (after, upto)

    def test_the_greatest_key_is_that_of_the_last_row_and_none_for_an_empty_table(self, given, connection):
        statement, parameters = given.sql.max_key(given.table)
        key = (0, 1)

        empty = connection.select(statement, parameters, key=key)
        given.insert([(1, "z", None), (2, "a", None), (2, "b", None)])
        found = connection.select(statement, parameters, key=key)

        assert (empty.row_count, empty.last_key) == (0, None)
        assert found.row_count == 1
        assert found.last_key in ((2, "b"), (2, b"b"))

    def test_rows_beyond_the_byte_limit_are_let_go_and_at_least_one_is_kept(self, given, connection):
        given.insert([(n, "k", "x" * 1000) for n in range(2000)])

        found = self.chunk(given, connection, None, None, 2000, bytes_max=1)
        everything = self.chunk(given, connection, None, None, 2000, bytes_max=1 << 30)
        half = self.chunk(given, connection, None, None, 2000, bytes_max=1 << 20)

        assert 1 <= found.row_count < 2000
        assert found.row_count <= half.row_count < 2000
        assert everything.row_count == 2000
        for chunk in (found, half, everything):
            assert given.row_count(chunk.rows) == chunk.row_count
            assert chunk.last_key == (chunk.row_count - 1, "k")

    def test_the_connection_goes_on_after_a_chunk_that_was_cut(self, given, connection):
        given.insert([(n, "k", "x" * 1000) for n in range(2000)])

        self.chunk(given, connection, None, None, 2000, bytes_max=1)

        assert self.chunk(given, connection, (5, "k"), (7, "k"), 10).last_key == (7, "k")

    def test_a_full_scan_reads_all_rows_up_to_its_limit(self, given, connection):
        given.insert([(n, "k", None) for n in range(5)])

        counts = [connection.select(*given.sql.full_scan(given.table, rows_max)).row_count for rows_max in (4, 5, 6)]

        assert counts == [4, 5, 5]

    def test_a_closed_connection_raises_a_transient_error(self, given):
        connection = given.connect()

        connection.close()

        with pytest.raises(TransientError):
            connection.begin_snapshot()
        with pytest.raises(TransientError):
            connection.write_watermark("m", token())

    def test_closing_twice_or_from_another_thread_is_harmless(self, given):
        connection = given.connect()

        thread = threading.Thread(target=connection.close)
        thread.start()
        thread.join(10)
        connection.close()
