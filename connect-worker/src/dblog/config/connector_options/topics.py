"""Options for the names of topics, and for the topics besides those of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping

import re2

from dblog.config.connector_options.forms import LOW, TOPICS, bool_option, int_option, not_yet, option
from dblog.config.options import Value, not_negative, only, topic_name

DEFAULT_STRATEGY = "io.debezium.schema.DefaultTopicNamingStrategy"
STRATEGIES = tuple(
    f"io.debezium.schema.{parts}{form}TopicNamingStrategy" for form in ("", "Unicode", "Regex") for parts in ("Default", "Schema")
)
"""Debezium 3.6's naming strategies; ``codecs/topic_naming.py`` implements them."""


def _has_regex(everything: Mapping[str, Value]) -> bool:
    return str(everything.get("topic.naming.strategy") or "").strip().lower().endswith("regextopicnamingstrategy")


def _topic_regex(value: Value, everything: Mapping[str, Value]) -> str | None:
    if value is None or value == "":
        return "A value is required with this topic.naming.strategy" if _has_regex(everything) else None
    try:
        re2.compile(str(value))
    except re2.error as e:
        return f"A regular expression is required (RE2's, as Debezium's): {e}"
    return None


def _topic_replacement(value: Value, everything: Mapping[str, Value]) -> str | None:
    if not _has_regex(everything):
        return None
    if not value:
        return "A value is required with topic.regex"
    try:
        regex = re2.compile(str(everything.get("topic.regex") or ""))
    except re2.error:
        return None  # that option has the error
    for number, name in re.findall(r"(?<!\\)\$(?:(\d+)|\{(\w+)\})", str(value)):
        group = number or name
        if int(group) > regex.groups if group.isdigit() else group not in regex.groupindex:
            return f"topic.regex has no group {group}"
    return None


def _no_key_field(value: Value, everything: Mapping[str, Value]) -> str | None:
    if value is True and _has_regex(everything):
        return "dblog does not add a field to keys yet; set it to false, and see that keys are unique over all tables of a topic"
    return None


TOPIC_OPTIONS = (
    int_option(
        name="heartbeat.interval.ms",
        doc="How often a heartbeat is written, which moves the offset of a source whose captured tables are quiet; 0 means never.",
        default="0",
        unit="ms",
        group=TOPICS,
        label="Heartbeat interval",
        check=not_negative,
    ),
    option(
        name="topic.heartbeat.prefix",
        doc="Head of the heartbeat topic's name, before the topic prefix.",
        default="__debezium-heartbeat",
        importance=LOW,
        group=TOPICS,
        label="Heartbeat topic prefix",
        aliases=("heartbeat.topics.prefix",),
        check=topic_name,
    ),
    option(
        name="topic.heartbeat.name",
        doc="Whole name of the heartbeat topic.",
        importance=LOW,
        group=TOPICS,
        label="Heartbeat topic",
        check=topic_name,
    ),
    option(
        name="heartbeat.action.query",
        doc="SQL to run with each heartbeat.",
        group=TOPICS,
        label="Heartbeat query",
        refused=only(because=not_yet("run SQL with a heartbeat")),
    ),
    option(
        name="topic.transaction",
        doc="Tail of the transaction topic.",
        default="transaction",
        importance=LOW,
        group=TOPICS,
        label="Transaction topic",
    ),
    option(
        name="topic.delimiter",
        doc="What joins the parts of a topic name.",
        default=".",
        group=TOPICS,
        label="Topic delimiter",
        check=topic_name,
    ),
    option(
        name="topic.naming.strategy",
        doc="How the topics of tables are named. Default: <prefix>.<database>.<table>; Schema: <prefix>.<table>; their Unicode forms write illegal characters "
        "as numbers; their Regex forms rename what topic.regex matches.",
        default=DEFAULT_STRATEGY,
        group=TOPICS,
        label="Topic naming strategy",
        refused=only(*STRATEGIES, because=f"Java classes cannot run in this worker; the strategies are {', '.join(STRATEGIES)}"),
    ),
    option(
        name="topic.regex",
        doc="Regex strategies: topics whose whole name matches get the name that topic.replacement makes.",
        importance=LOW,
        group=TOPICS,
        label="Topic regex",
        check=_topic_regex,
    ),
    option(
        name="topic.replacement",
        doc="Regex strategies: the new name, with $1 for the first group.",
        importance=LOW,
        group=TOPICS,
        label="Topic replacement",
        check=_topic_replacement,
    ),
    bool_option(
        name="topic.key.enforce.uniqueness",
        doc="Regex strategies: whether a field with the table's own topic is added to keys, for tables that share a topic.",
        default="true",
        importance=LOW,
        group=TOPICS,
        label="Add source topic name into key",
        check=_no_key_field,
    ),
    *(
        option(
            name=name,
            no_effect="no field is added to keys yet: topic.key.enforce.uniqueness=false",
            doc="Regex strategies: the field that is added to keys.",
            default=default,
            importance=LOW,
            group=TOPICS,
            label=label,
        )
        for name, label, default in (
            ("topic.key.field.name", "Key field name", "__dbz__physicalTableIdentifier"),
            ("topic.key.field.regex", "Key field regex", None),
            ("topic.key.field.replacement", "Key field replacement", None),
        )
    ),
    int_option(
        name="topic.cache.size",
        no_effect="each table version has its topic name once",
        doc="Names kept; no effect here.",
        default="10000",
        importance=LOW,
        group=TOPICS,
        label="Topic cache",
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
