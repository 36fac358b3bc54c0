"""Options of the schema history."""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.connector_options.forms import HIGH, HISTORY, LOW, bool_option, int_option, option
from dblog.config.options import Kind, Value, all_of, only, positive, topic_name


def _history_topic(value: Value, everything: Mapping[str, Value]) -> str | None:
    # Debezium's check: with both streams in one topic, DDL events would reach the history reader.
    if value == everything.get("topic.prefix"):
        return "Kafka topic name and topic prefix must be different: the latter names the topic of schema changes"
    return None


HISTORY_OPTIONS = (
    option(
        name="schema.history.internal",
        doc="Java class of the storage of the schema history. dblog keeps it in a Kafka topic.",
        kind=Kind.CLASS,
        default="io.debezium.storage.kafka.history.KafkaSchemaHistory",
        importance=LOW,
        group=HISTORY,
        label="Schema history class",
        refused=only(
            "io.debezium.storage.kafka.history.KafkaSchemaHistory",
            because="dblog keeps the schema history in a Kafka topic only; remove the key",
        ),
    ),
    option(
        name="schema.history.internal.kafka.topic",
        doc="Topic of the schema history.",
        required=True,
        importance=HIGH,
        group=HISTORY,
        label="History topic",
        check=all_of(topic_name, _history_topic),
    ),
    option(
        name="schema.history.internal.kafka.bootstrap.servers",
        doc="Brokers (host:port, separated by commas) of the topic of the schema history.",
        required=True,
        importance=HIGH,
        group=HISTORY,
        label="History brokers",
    ),
    *(
        int_option(
            name=f"schema.history.internal.kafka.{tail}",
            doc=doc,
            default=default,
            unit=unit,
            importance=LOW,
            group=HISTORY,
            label=tail,
            check=positive,
            no_effect=reason,
        )
        for tail, doc, default, unit, reason in (
            (
                "recovery.poll.interval.ms",
                "Time limit of one poll while the schema history is read.",
                "100",
                "ms",
                "reading the history gives up when nothing comes for 30 s",
            ),
            (
                "recovery.attempts",
                "Number of polls without a record after which reading the schema history fails.",
                "100",
                None,
                "reading the history gives up when nothing comes for 30 s",
            ),
            (
                "query.timeout.ms",
                "Longest wait for the cluster's answer.",
                "3000",
                "ms",
                "each request of the history waits 30 s for its answer",
            ),
            (
                "create.timeout.ms",
                "Longest wait for the topic's creation.",
                "30000",
                "ms",
                "each request of the history waits 30 s for its answer",
            ),
            (
                "buffer.batch.size",
                "Records written at a time.",
                "1024",
                "records",
                "each record of the history is written and acknowledged at once",
            ),
        )
    ),
    bool_option(
        name="schema.history.internal.skip.unparseable.ddl",
        no_effect="a statement that cannot be understood never stops the connector: the table it names is read again",
        doc=(
            "Skips statements that cannot be parsed. dblog does not need it: it reads the schema of the table "
            "that such a statement names from the server."
        ),
        default="false",
        importance=LOW,
        group=HISTORY,
        label="Skip DDL that cannot be understood",
    ),
    bool_option(
        name="schema.history.internal.store.only.captured.tables.ddl",
        doc=(
            "If true, the schema-change topic has captured tables only, otherwise all tables of the server. "
            "The schema history has captured tables only in either case."
        ),
        default="false",
        importance=LOW,
        group=HISTORY,
        label="History of captured tables only",
    ),
    bool_option(
        name="schema.history.internal.store.only.captured.databases.ddl",
        doc="If true, the schema-change topic has captured databases only. The schema history has captured tables only in either case.",
        default="false",
        importance=LOW,
        group=HISTORY,
        label="History of captured databases only",
    ),
    bool_option(
        name="schema.history.internal.prefer.ddl",
        doc="Recovers the schema history from statements instead of schemas.",
        default="false",
        importance=LOW,
        group=HISTORY,
        label="Prefer DDL",
        refused=only(False, because="dblog recovers from full table schemas; remove the key"),
    ),
    option(
        name="schema.history.internal.ddl.filter",
        doc=(
            "Regular expressions, separated by commas, of statements whose text is left out of the schema "
            "history and the schema-change topic. Their effect is still followed."
        ),
        importance=LOW,
        group=HISTORY,
        label="DDL filter",
    ),
    option(
        name="schema.history.internal.memory.optimization",
        no_effect="the history holds captured tables only",
        doc="Way in which Debezium saves memory. dblog keeps captured tables only.",
        default="off",
        importance=LOW,
        group=HISTORY,
        label="History memory",
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""

OWN_HISTORY_OPTIONS = (
    option(
        name="dblog.history.topic",
        doc=(
            "Topic of the schema history, which Debezium's connector for this database does not have. If "
            "absent, it is __dblog-history.<topic.prefix>."
        ),
        importance=LOW,
        group=HISTORY,
        label="History topic",
        check=topic_name,
    ),
)
"""Options of a connector that has no schema history in Debezium."""
