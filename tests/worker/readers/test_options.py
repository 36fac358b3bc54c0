"""What a connector's options mean to the reader layer."""

from __future__ import annotations

import pytest
from dblog.config.connector import MYSQL_OPTIONS, POSTGRES_OPTIONS, parse_connector
from dblog.core.pressure import Limit
from dblog.model import TableId
from dblog.readers.options import ReaderOptions, dump_threads, history_topic_of
from support.worker import postgres_config

LEAST = {
    "name": "a",
    "connector.class": "MySqlConnector",
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.server.id": "7",
    "schema.history.internal.kafka.topic": "h",
    "schema.history.internal.kafka.bootstrap.servers": "b:9092",
}


@pytest.mark.parametrize(
    ("given", "threads"),
    [({}, 1), ({"snapshot.max.threads": "4"}, 4), ({"snapshot.max.threads": "4", "dblog.dump.threads": "2"}, 2)],
)
def test_as_many_threads_dump_as_snapshot_max_threads_asks_for_unless_our_own_key_is_set(given: dict[str, str], threads: int) -> None:
    assert dump_threads(parse_connector(MYSQL_OPTIONS, LEAST | given)) == threads


def postgres_options(**config: str) -> ReaderOptions:
    return ReaderOptions.from_settings(
        parse_connector(POSTGRES_OPTIONS, postgres_config(name="a") | config),
        connector="a",
        run="r",
        watermark_table=TableId("dblog", "watermark"),
        builtin_databases=frozenset({"information_schema", "pg_*"}),
    )


def test_a_connector_without_statements_in_its_log_reports_no_schemas_and_fails_on_what_it_cannot_read() -> None:
    options = postgres_options()

    assert (options.reports_schemas, options.reports_captured_tables_only, options.reports_captured_databases_only) == (False,) * 3
    assert (options.skips_unreadable, options.skips_bad_events, options.dump.goes_on) == (False,) * 3
    assert postgres_options(**{"event.processing.failure.handling.mode": "warn"}).skips_bad_events


def test_tables_of_a_connector_that_reads_one_database_are_chosen_by_their_schemas() -> None:
    options = postgres_options(**{"schema.include.list": "shop,pg_catalog"})

    assert [options.selection.includes(TableId(schema, "orders")) for schema in ("shop", "other", "pg_catalog")] == [True, False, False]
    assert options.named == (("shop", None), ("pg_catalog", None))


def test_a_limit_of_dumps_that_a_kind_of_database_lacks_is_none() -> None:
    limits = postgres_options(**{"dblog.dump.limit.transaction.age.s": "60"}).dump_limits

    assert limits == {Limit.TRANSACTION_AGE: 60.0, Limit.LOG_LAG: 300_000.0}


def test_the_schema_history_has_a_topic_of_its_own_where_the_configuration_names_none() -> None:
    named = {"dblog.history.topic": "history"}

    assert postgres_options().history_topic == "__dblog-history.shop"
    assert postgres_options(**named).history_topic == "history"
    assert history_topic_of(parse_connector(MYSQL_OPTIONS, LEAST)) == "h"
