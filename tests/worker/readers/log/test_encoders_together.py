"""Encoders of several tables, whose schemas go to the registry with one request: as those that are built alone, and none where that would be an error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dblog.clock import SystemClock
from dblog.config.connector import parse_connector
from dblog.config.plugins import find_connector
from dblog.dialects.registry import kind_of
from dblog.errors import DefiniteError, TransientError
from dblog.kafka.converters import AvroConverter, JsonConverter
from dblog.model import Column, Table, TableId
from dblog.readers.log.encoders_ahead import EncodersAhead
from dblog.readers.records import Records
from support.answering_registry import AnsweringRegistry

CONFIG = {
    "name": "c",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "a:1",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "p",
    "database.hostname": "a",
    "database.user": "u",
    "database.server.id": "1",
}


def records(registry: AnsweringRegistry | None) -> Records:
    plugin = find_connector(CONFIG["connector.class"])
    assert plugin is not None
    settings = parse_connector(plugin.options, CONFIG)
    converters: Any
    if registry is None:
        converters = [JsonConverter({}, option_prefix="")] * 2
    else:
        client = registry.client(trusted=True)
        converters = [AvroConverter({}, is_key=is_key, registry=client) for is_key in (True, False)]
    return Records(
        settings=settings,
        plans=kind_of("mysql").source(settings).plans,
        key_converter=converters[0],
        value_converter=converters[1],
        clock=SystemClock(),
        task=0,
    )


def table(name: str, *, key: bool = True, column: str = "id") -> Table:
    columns = (Column(name=column, type="int", type_text="int", nullable=False),)
    return Table(id=TableId("shop", name), columns=columns, key=(column,) if key else ())


TABLES = [table("a"), table("refused"), table("without_key", key=False), table("illegal", column="not legal in Avro"), table("z")]


def test_tables_get_the_encoders_that_each_gets_alone_and_one_that_is_refused_gets_none_and_is_refused_alone() -> None:
    registry = AnsweringRegistry()
    made = records(registry)

    encoders = made.encoders(TABLES)

    assert registry.paths == ["/schemas/together"]
    assert [None if encoder is None else encoder.plan.table.id.name for encoder in encoders] == ["a", None, "without_key", None, "z"]
    for encoder, version in zip(encoders, TABLES, strict=True):
        if encoder is not None:
            assert encoder.plan == made.encoder(version).plan
    assert registry.paths == ["/schemas/together"], "what was registered together is known"
    with pytest.raises(DefiniteError, match=r"refuses the new schema of subject p\.shop\.refused-key"):
        made.encoder(TABLES[1])
    with pytest.raises(DefiniteError, match="not legal in Avro"):
        made.encoder(TABLES[3])


def test_a_registry_that_is_away_gives_none_and_whoever_takes_an_encoder_builds_it() -> None:
    registry = AnsweringRegistry()
    registry.is_away = True
    made = records(registry)
    with pytest.raises(TransientError):
        made.encoders(TABLES)

    ahead = EncodersAhead(made)
    ahead.begin(TABLES[0])

    assert ahead.take(TABLES[0]) is None
    registry.is_away = False
    assert made.encoder(TABLES[0]).plan.value_prefix == b"\0\0\0\0\2"
    ahead.stop()


def test_tables_without_a_registry_get_their_encoders_too() -> None:
    made = records(None)

    assert not made.registered_together
    assert [getattr(encoder, "plan", SimpleNamespace(table=None)).table for encoder in made.encoders(TABLES)] == TABLES
