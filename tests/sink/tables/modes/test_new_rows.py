"""A large batch of new rows is written as it is decoded; of any other batch nothing of that way is left behind."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dblog_sink.delta.tombstones import Tombstones
from dblog_sink.tables.modes import new_rows
from sink.harness import Record, Sink, change
from support.envelopes import TableSchema, decimal
from support.registry_server import RegistryServer


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rows are many here."""
    monkeypatch.setattr("dblog_sink.tables.modes.new_rows.MANY_ROWS", 100)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What became of each batch that was written straight: rows, or None where it was not."""
    found: list[int | None] = []
    real = new_rows.added
    monkeypatch.setattr(new_rows, "added", lambda *args, **kwargs: found.append(real(*args, **kwargs)) or found[-1])
    return found


def items(registry: RegistryServer, *, key: Any = "long") -> TableSchema:
    return TableSchema(topic="p.shop.items", columns=[("id", key), ("v", "string")], registry=registry)


def rows(table: TableSchema, ids: Iterable[int], *, op: str = "r", at: int = 10, text: str = "a") -> list[Record]:
    return [change(table, op, {"id": n, "v": text}, at=at + n) for n in ids]


def files(sink: Sink, table: TableSchema) -> int:
    return len(list(Path(sink.path(table)).glob("*.parquet")))


def test_a_dump_into_an_empty_table_and_inserts_behind_it_are_written_as_they_are_decoded(
    sink: Sink, registry: RegistryServer, ways: list[int | None]
) -> None:
    table = items(registry)
    sink.batch(*rows(table, range(200)))
    sink.batch(*rows(table, range(200, 400), op="c", at=1000))

    assert ways == [200, 200]
    assert sink.rows(table) == [{"id": n, "v": "a"} for n in range(400)]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(lambda table: change(table, "d", {"id": 3, "v": "a"}, at=900), {n: "a" for n in range(200) if n != 3}, id="a delete"),
        pytest.param(
            lambda table: change(table, "u", {"id": 3, "v": "b"}, at=900),
            dict.fromkeys(range(200), "a") | {3: "b"},
            id="a key that comes again",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda table: Record(topic=table.topic, key=table.key_bytes({"id": 500}), value=rows(table, [1])[0].value[:9]),
            dict.fromkeys(range(200), "a"),
            id="a record that does not decode",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda table: Record(topic=table.topic, key=None, value=table.value_bytes("t", pos=15)),
            dict.fromkeys(range(5, 200), "a"),
            id="a truncate",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_dump_that_holds_something_else_leaves_no_file_of_that_way(
    sink: Sink, registry: RegistryServer, ways: list[int | None], other: Any, expected: dict[int, str]
) -> None:
    table = items(registry)
    sink.batch(*rows(table, range(200)), other(table))

    assert ways in ([None], []), "keys that come again are seen before"
    assert files(sink, table) == len(sink.read(table).inputFiles())
    assert {row["id"]: row["v"] for row in sink.rows(table)} == expected


def test_rows_older_than_what_the_table_has_do_not_replace_it(sink: Sink, registry: RegistryServer, ways: list[int | None]) -> None:
    table = items(registry)
    sink.batch(*rows(table, range(200), op="c", at=1000, text="new"))
    sink.batch(*rows(table, range(100, 300), at=10, text="old"))

    assert ways == [200, None]
    assert {row["id"]: row["v"] for row in sink.rows(table)} == dict.fromkeys(range(200), "new") | dict.fromkeys(range(200, 300), "old")

    sink.batch(*rows(table, range(1000, 1100), op="c", at=5000))
    assert ways == [200, None], "what was in vain is not tried again at once"
    assert len(sink.rows(table)) == 400


def test_rows_of_before_a_delete_stay_away(sink: Sink, registry: RegistryServer, ways: list[int | None]) -> None:
    table = items(registry)
    sink.batch(change(table, "d", {"id": 7, "v": "a"}, at=500_000))
    sink.batch(*rows(table, [1000], at=600_000))  # a batch of new rows alone: the next one is tried
    sink.batch(*rows(table, range(200)))

    assert ways == [None]
    assert [row["id"] for row in sink.rows(table)] == [*(n for n in range(200) if n != 7), 1000]


@pytest.mark.long
def test_keys_that_are_decimals_lie_between_others_as_numbers_do(sink: Sink, registry: RegistryServer, ways: list[int | None]) -> None:
    table = TableSchema(
        topic="p.shop.items", columns=[("id", "int"), ("part", decimal(6, 2)), ("v", "string")], key=("id", "part"), registry=registry
    )

    def dumped(ids: Iterable[int], part: str) -> list[Record]:
        return [change(table, "r", {"id": n, "part": Decimal(part), "v": "a"}, at=10) for n in ids]

    sink.batch(*(record for n in range(100) for part in ("9.50", "10.00") for record in dumped([n], part)))
    sink.batch(*dumped(range(100), "9.25"), *dumped(range(100, 200), "9.75"))

    assert ways == [200, None], "a text of 10.00 comes before one of 9.50"
    assert len(sink.rows(table)) == 400


def test_a_fault_between_writing_and_commit_leaves_no_files(sink: Sink, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    table = items(registry)
    sink.batch(*rows(table, range(200)))
    before = files(sink, table)

    def fault(*_: object) -> bool:
        msg = "no answer"
        raise OSError(msg)

    monkeypatch.setattr(Tombstones, "none_behind", fault)
    with pytest.raises(OSError, match="no answer"):
        sink.batch(*rows(table, range(200, 400), op="c", at=1000))

    assert files(sink, table) == before
