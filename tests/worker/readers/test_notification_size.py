"""A notification fits into what Kafka takes, whatever a signal named and however long the keys of rows are; the END of a transaction is never cut."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from dblog.clock import SystemClock
from dblog.codecs.transactions import TransactionBorder
from dblog.config.connector import MYSQL_OPTIONS, parse_connector
from dblog.core.notices import Notice
from dblog.dialects.registry import kind_of
from dblog.kafka.converters import JsonConverter
from dblog.readers.records import Records
from support.worker import connector_config

IN_PROGRESS = Notice(id="s1", aggregate="Incremental Snapshot", type="IN_PROGRESS", data={"last_processed_key": "7"})


def records_of(limit: int | None) -> Records:
    """A connector's records, whose producer takes so many bytes."""
    settings = parse_connector(MYSQL_OPTIONS, connector_config(name="a", notification_sink_topic_name="n"))
    converter = JsonConverter({}, option_prefix="")
    return Records(
        settings=settings,
        plans=kind_of("mysql").source(settings).plans,
        key_converter=converter,
        value_converter=converter,
        clock=SystemClock(),
        task=0,
        record_bytes_max=limit,
    )


def sent(notice: Notice, limit: int | None) -> tuple[int, Any]:
    """The size of its value, and what it says."""
    (value,) = records_of(limit).notification(notice).values
    assert value is not None
    return len(value), json.loads(value)["payload"]


@pytest.mark.parametrize("limit", [None, 1_000_000, 50_000_000, 20_000])
@pytest.mark.parametrize("text", ["x" * 400_000, "\x01" * 200_000, "é" * 300_000])
def test_a_long_key_or_pattern_is_cut_at_a_marked_place(limit: int | None, text: str) -> None:
    fields = ("data_collections", "scanned_collection", "maximum_key", "last_processed_key")

    size, said = sent(replace(IN_PROGRESS, data=dict.fromkeys(fields, text)), limit)

    assert size < (limit or 1_000_000)
    assert (said["id"], said["type"]) == ("s1", "IN_PROGRESS")
    for field in fields:
        assert said["additional_data"][field].startswith(text[:64])
        assert said["additional_data"][field].endswith(f"of {len(text)} characters are left out)")


def test_what_fits_is_sent_whole() -> None:
    assert sent(IN_PROGRESS, None)[1]["additional_data"] == {"last_processed_key": "7", "connector_name": "shop"}


def test_the_end_of_a_transaction_counts_every_table_however_large_it_becomes_and_names_what_leaves_it_out() -> None:
    """Consistent snapshots of the lake wait for the rows that it counts: one that is cut would publish a part of a transaction."""
    tables = {f"shop.{'t' * 50}{n}": 1 for n in range(20_000)}

    segment = records_of(None).borders([TransactionBorder("1", 0), TransactionBorder("1", 0, tables)])

    assert len(segment.values[1] or b"") > 1_000_000
    assert json.loads(segment.values[1] or b"")["payload"]["event_count"] == len(tables)
    assert len(json.loads(segment.values[1] or b"")["payload"]["data_collections"]) == len(tables)
    assert segment.way_out == "set provide.transaction.metadata=false"
