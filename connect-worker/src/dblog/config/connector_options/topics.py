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
        doc="Interval at which a heartbeat record is written; it advances the offset while no captured table changes. 0 means never.",
        default="0",
        unit="ms",
        group=TOPICS,
        label="Heartbeat interval",
        check=not_negative,
    ),
    option(
        name="topic.heartbeat.prefix",
        doc="First part of the heartbeat topic's name, before topic.prefix.",
        default="__debezium-heartbeat",
        importance=LOW,
        group=TOPICS,
        label="Heartbeat topic prefix",
        aliases=("heartbeat.topics.prefix",),
        check=topic_name,
    ),
    option(
        name="topic.heartbeat.name",
        doc="Full name of the heartbeat topic.",
        importance=LOW,
        group=TOPICS,
        label="Heartbeat topic",
        check=topic_name,
    ),
    option(
        name="heartbeat.action.query",
        doc="SQL statement that is executed with each heartbeat.",
        group=TOPICS,
        label="Heartbeat query",
        refused=only(because=not_yet("run SQL with a heartbeat")),
    ),
    option(
        name="topic.transaction",
        doc="Last part of the transaction topic's name, after topic.prefix.",
        default="transaction",
        importance=LOW,
        group=TOPICS,
        label="Transaction topic",
    ),
    option(
        name="topic.delimiter",
        doc="Text between the parts of a topic name.",
        default=".",
        group=TOPICS,
        label="Topic delimiter",
        check=topic_name,
    ),
    option(
        name="topic.naming.strategy",
        doc=(
            "Java class that names the topics of tables. Default: <prefix>.<database>.<table>; Schema: "
            "<prefix>.<table>. Their Unicode forms write characters that topics do not allow as numbers; "
            "their Regex forms rename the topics that topic.regex matches."
        ),
        default=DEFAULT_STRATEGY,
        group=TOPICS,
        label="Topic naming strategy",
        refused=only(*STRATEGIES, because=f"Java classes cannot run in this worker; the strategies are {', '.join(STRATEGIES)}"),
    ),
    option(
        name="topic.regex",
        doc="Regex strategies: regular expression. A topic whose whole name matches is renamed to what topic.replacement gives.",
        importance=LOW,
        group=TOPICS,
        label="Topic regex",
        check=_topic_regex,
    ),
    option(
        name="topic.replacement",
        doc="Regex strategies: the new name, in which $1 stands for the first group of topic.regex.",
        importance=LOW,
        group=TOPICS,
        label="Topic replacement",
        check=_topic_replacement,
    ),
    bool_option(
        name="topic.key.enforce.uniqueness",
        doc="Regex strategies: if true, keys get a field with the table's own topic, so that keys of tables that share a topic differ.",
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
            doc="Regex strategies: name of the field that is added to keys.",
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
        doc="Number of topic names that are cached. It has no effect in this worker.",
        default="10000",
        importance=LOW,
        group=TOPICS,
        label="Topic cache",
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
