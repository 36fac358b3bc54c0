"""Statements in Debezium's form, in a topic that Debezium made: none is missing, none comes twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from dblog.core.timeline import Timeline
from dblog.errors import TransientError
from dblog.readers.log.debezium_history import LoggedStatement
from dblog.readers.log.history import SchemaHistory
from support.history import FakeHistoryLog

SWAP = "ALTER TABLE t CHANGE a b INT, CHANGE b a INT"


@dataclass
class At:
    """A position."""

    map: dict[str, Any]

    def to_map(self) -> dict[str, Any]:
        return self.map


@dataclass
class World:
    """A topic, and the histories of the runs that use it."""

    log: FakeHistoryLog = field(default_factory=FakeHistoryLog)

    def run(self, server: str = "shop") -> SchemaHistory:
        history = SchemaHistory(self.log, server=server)
        history.recover(Timeline())
        return history

    def debeziums(self, server: str = "shop") -> None:
        record = {
            "source": {"server": server},
            "position": {"file": "f.1", "pos": 4},
            "databaseName": "d",
            "ddl": "CREATE TABLE t (a INT, b INT)",
        }
        self.log.records.append((None, json.dumps(record).encode()))

    @property
    def statements(self) -> list[dict[str, Any]]:
        """The statements that a start of Debezium's would find."""
        values = [json.loads(value) for _, value in self.log.read() if value is not None]
        return [value for value in values if "ddl" in value]


@pytest.fixture
def world() -> World:
    return World()


def swap(**position: Any) -> LoggedStatement:
    return LoggedStatement(text=SWAP, database="d", after=At({"file": "f.1", "pos": 900, "dblog_epoch": 7, **position}), ts_ms=5)


def test_a_statement_follows_debeziums_own_with_the_offset_after_it_and_none_of_our_keys(world: World) -> None:
    world.debeziums()

    world.run().save(Timeline(), [], statement=swap(gtids="u:1-9", server_id=3))

    assert world.statements[-1] == {
        "source": {"server": "shop"},
        "position": {"file": "f.1", "pos": 900, "gtids": "u:1-9", "server_id": 3},
        "ts_ms": 5,
        "databaseName": "d",
        "ddl": SWAP,
    }


def test_a_topic_that_debezium_never_wrote_to_or_only_for_another_connector_gets_none(world: World) -> None:
    world.debeziums("other")

    world.run().save(Timeline(), [], statement=swap())

    assert [record["source"]["server"] for record in world.statements] == ["other"]


@pytest.mark.parametrize(
    "moved", [{}, {"file": "g.7", "pos": 70, "server_id": 4}], ids=["same server", "another server of the same transactions"]
)
def test_a_statement_that_is_followed_again_after_a_restart_is_written_once(world: World, moved: dict[str, Any]) -> None:
    world.debeziums()
    world.run().save(Timeline(), [], statement=swap(gtids="u:1-9", server_id=3))

    world.run().save(Timeline(), [], statement=swap(gtids="u:1-9", **({"server_id": 3} | moved)))

    assert len(world.statements) == 2


def test_the_same_text_at_another_place_is_another_statement(world: World) -> None:
    world.debeziums()
    history = world.run()

    history.save(Timeline(), [], statement=swap(server_id=3))
    history.save(Timeline(), [], statement=swap(server_id=3, pos=1900))

    assert [record["position"]["pos"] for record in world.statements] == [4, 900, 1900]


@pytest.mark.parametrize("arrived", [True, False])
def test_a_write_whose_answer_is_lost_is_looked_up_before_it_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    world.debeziums()
    history = world.run()
    write = world.log.write

    def fails(records: list[tuple[bytes, bytes | None]]) -> None:
        if arrived:
            write(records)
        raise TransientError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.log, "write", fails)
        with pytest.raises(TransientError):
            history.save(Timeline(), [], statement=swap())

    history.save(Timeline(), [], statement=swap())

    assert [record["ddl"] for record in world.statements][1:] == [SWAP]
