"""A server that is none, or lies, cannot fill the memory of the worker: every answer is bounded, whatever it is made of."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from dblog.dialects.answer_budget import AnswerBudget
from dblog.dialects.postgres.wire import answers
from dblog.dialects.postgres.wire.connect import ConnectSettings, open_wire
from dblog.errors import DefiniteError, TransientError
from support.false_postgres import COLUMN, DONE, AnsweringPostgres, message, row, setting

LIMIT = 8 << 20
MORE = 1 << 30
"""What the server would send if it were let."""
SENT_MAX = 150 << 20
"""Above the limit, what comes between two looks at a busy machine, and what the kernel keeps of it."""


def settings_for(server: AnsweringPostgres, **more: object) -> ConnectSettings:
    known = ConnectSettings(host="127.0.0.1", port=server.port, user="u", database="d", ssl_mode="disable", connect_timeout_s=30.0)
    return replace(known, **more)  # type: ignore[arg-type]


def to_select(pieces: Iterable[bytes]):
    return lambda statement: pieces if statement.startswith(b"SELECT") else None


def many(piece: bytes) -> Iterator[bytes]:
    block = piece * max(1, (1 << 18) // len(piece))
    return itertools.repeat(block, MORE // len(block))


def one(kind: bytes, start: bytes) -> Iterator[bytes]:
    """A single message."""
    return itertools.chain([kind + struct.pack(">I", 4 + MORE) + start], itertools.repeat(bytes(1 << 18), MORE >> 18))


@pytest.mark.parametrize(
    "pieces",
    [
        lambda: itertools.chain([COLUMN], many(row(b"x" * 100))),
        lambda: itertools.chain([COLUMN], one(b"D", struct.pack(">Hi", 1, MORE - 6))),
        lambda: one(b"E", b"SERROR\0VERROR\0CXX000\0M"),
        lambda: many(message(b"N", b"SWARNING\0VWARNING\0C01000\0M" + b"x" * 20_000 + b"\0\0")),
        lambda: (setting(b"s%d" % number, b"x" * 20_000) for number in range(MORE // 20_000)),
        lambda: itertools.chain([COLUMN, message(b"C", b"SELECT 0\0"), COLUMN], many(row(b"x" * 100))),
    ],
    ids=["rows", "one row", "an error", "notices", "settings", "a second answer"],
)
@pytest.mark.parametrize("budget", [None, AnswerBudget(1 << 30)], ids=["of a task", "of a check"])
def test_an_answer_beyond_its_limit_cuts_the_connection(pieces, budget: AnswerBudget | None) -> None:  # number 32 of the worker's safety
    with AnsweringPostgres(to_select(pieces())) as server:
        wire = open_wire(settings_for(server, budget=budget))
        with pytest.raises(DefiniteError, match=r"answers a statement with more than 8 MiB.*lead to a PostgreSQL server"):
            wire.query("SELECT 1", bytes_max=LIMIT)
        wire.close()

    assert server.sent_bytes < SENT_MAX


@pytest.mark.parametrize(
    "greeting",
    [
        lambda: (setting(b"s%d" % number, b"x" * 20_000) for number in range(MORE // 20_000)),
        lambda: many(message(b"N", b"SWARNING\0VWARNING\0C01000\0M" + b"x" * 20_000 + b"\0\0")),
        lambda: one(b"N", b"SWARNING\0VWARNING\0C01000\0M"),
        lambda: one(b"E", b"SFATAL\0VFATAL\0CXX000\0M"),
    ],
    ids=["settings", "notices", "one notice", "an error"],
)
def test_a_login_that_does_not_end_is_given_up_by_a_check(greeting) -> None:
    with AnsweringPostgres(lambda _: None, greets=greeting()) as server, pytest.raises(DefiniteError, match="sends more than 1 MiB before"):
        open_wire(settings_for(server, budget=AnswerBudget(1 << 30)))

    assert server.sent_bytes < SENT_MAX


def test_a_server_that_says_nothing_is_given_up_in_time_by_a_check() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ConnectSettings(host="localhost", port=silent.getsockname()[1], user="u", database="d", connect_timeout_s=2.0)
        with pytest.raises(TransientError, match="cannot be reached"):
            open_wire(replace(settings, budget=AnswerBudget(1 << 30)))


def test_rows_that_are_small_on_the_wire_are_weighed_before_they_become_objects() -> None:
    with AnsweringPostgres(to_select([COLUMN, row(None) * 400_000, DONE])) as server:
        wire = open_wire(settings_for(server))
        with pytest.raises(DefiniteError, match="more than 8 MiB"):
            wire.query("SELECT 1", bytes_max=LIMIT)
        wire.close()


@pytest.mark.parametrize("budget", [None, AnswerBudget(1 << 30)], ids=["of a task", "of a check"])
def test_copied_rows_beyond_their_limit_cut_the_connection(budget: AnswerBudget | None) -> None:
    rows = itertools.chain([message(b"H", b"\0" + struct.pack(">Hh", 1, 0))], many(message(b"d", b"x" * 100)))
    with AnsweringPostgres(lambda statement: rows if statement.startswith(b"COPY") else None, syncs=rows) as server:
        wire = open_wire(settings_for(server, budget=budget))
        with pytest.raises(DefiniteError, match="more than 8 MiB"):
            wire.copied("COPY (SELECT 1) TO STDOUT", doing="copying", bytes_max=LIMIT)
        wire.close()

    assert server.sent_bytes < SENT_MAX


def test_an_answer_within_its_limit_is_given_whole_and_the_connection_goes_on() -> None:
    with AnsweringPostgres(to_select([COLUMN, row(b"x" * 1000) * 4000, DONE])) as server:
        wire = open_wire(settings_for(server))
        for _ in range(5):
            assert len(wire.query("SELECT 1", bytes_max=LIMIT)) == 4000
        wire.close()


def test_what_several_servers_answer_is_bounded_together_until_their_connections_close() -> None:
    budget = AnswerBudget(12 << 20)
    two_mebibytes = to_select([COLUMN, row(b"x" * (2 << 20)), DONE])
    with AnsweringPostgres(two_mebibytes) as server, AnsweringPostgres(two_mebibytes) as another:
        first, second = (open_wire(settings_for(one, budget=budget)) for one in (server, another))
        assert len(first.query("SELECT 1")) == 1
        with pytest.raises(TransientError, match=rf"the check of 127\.0\.0\.1:{another.port} was given up; try again"):
            second.query("SELECT 1")
        second.close()
        first.close()
        first.close()
        third = open_wire(settings_for(server, budget=budget))
        assert len(third.query("SELECT 1")) == 1
        third.close()

    assert budget.take(12 << 20)


def test_a_catalog_of_15000_tables_with_100_columns_is_within_its_limit() -> None:
    values = (
        b"123456",
        b"a_column_with_a_long_name_01",
        b"1043",
        b"character varying(255)",
        b"t",
        b"f",
        b"now()",
        b"",
        b"what the column is for",
        b"17",
        b"f",
    )
    rows = 15_000 * 100

    assert rows * len(row(*values)) < answers.CATALOG_BYTES_MAX
    assert rows * (64 + 48 * len(values)) < answers.CATALOG_BYTES_MAX * answers.MEMORY_PER_BYTE
