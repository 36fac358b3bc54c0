"""Options for reading PostgreSQL's log: the slot, the publication, and the reports to the server.

Names, types and defaults are Debezium 3.6's, except ``plugin.name``: its default there,
decoderbufs, has to be built into the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from dblog.config.connector_options.forms import LOW, REPLICATION, bool_option, int_option, long_option, not_yet, option
from dblog.config.options import Check, Value, not_negative_long, only, positive
from dblog.config.replica_identities import identity_rules
from dblog.config.stream_params import stream_params
from dblog.errors import ConfigError

_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_NAME_BYTES_MAX = 63
"""Longest identifier. The server cuts off longer ones, which then name something else (PostgreSQL's
manual, Lexical Structure).
"""
_PLUGINS_OF_JSON = ("wal2json", "wal2json_streaming", "wal2json_rds", "wal2json_rds_streaming")
_NEW_SLOT = (
    "set plugin.name=pgoutput, which every server has, and a new slot.name, for a slot keeps the plugin that it was made with; the new "
    "slot has no changes from before it was made: snapshot.mode=when_needed dumps again where the stored offset is older"
)


def identifier(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, str) and not 0 < len(value.encode()) <= _NAME_BYTES_MAX:
        return f"A name of 1 to {_NAME_BYTES_MAX} bytes is expected"
    return None


def _refused_plugin(value: Value) -> str | None:
    match str(value).strip().lower():
        case "pgoutput":
            return None
        case "decoderbufs":
            return f"dblog does not read the messages of decoderbufs, only those of pgoutput; {_NEW_SLOT}"
        case name if name in _PLUGINS_OF_JSON:
            return f"dblog does not read the JSON of {name}, nor does Debezium since 2.0; {_NEW_SLOT}"
        case _:
            return f"Value must be one of pgoutput: dblog reads the messages of no other plugin; {_NEW_SLOT}"


def _slot_name(value: Value, _all: Mapping[str, Value]) -> str | None:
    if isinstance(value, str) and not _SLOT.fullmatch(value):
        return "Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63"
    return None


def _parsed_by(parse: Callable[[str | None], object]) -> Check:
    """Return a check that reports the errors of ``parse``."""

    def check(value: Value, _all: Mapping[str, Value]) -> str | None:
        try:
            parse(value if isinstance(value, str) else None)
        except ConfigError as e:
            return "; ".join(text for texts in e.errors.values() for text in texts)
        return None

    return check


REPLICATION_OPTIONS = (
    option(
        name="plugin.name",
        doc=(
            "Output plugin that encodes the changes of the replication slot. Debezium's default, decoderbufs, "
            "must be built into the server, and dblog cannot read it."
        ),
        default="pgoutput",
        group=REPLICATION,
        label="Plugin",
        refused=_refused_plugin,
        other_default="dblog reads pgoutput, and not decoderbufs, which Debezium takes then",
    ),
    option(
        name="slot.name",
        doc=(
            "Replication slot from which the log is read. It belongs to this connector alone, on the whole "
            "server, and is created at the first start if it is missing."
        ),
        default="debezium",
        group=REPLICATION,
        label="Slot",
        check=_slot_name,
    ),
    bool_option(
        name="slot.drop.on.stop",
        doc=(
            "If true, the slot is dropped whenever the connector stops in order. No log then keeps the "
            "changes until its next start, so that start dumps all tables again with "
            "snapshot.mode=when_needed, and fails with any other mode. Meant for tests."
        ),
        default="false",
        group=REPLICATION,
        label="Drop slot on stop",
    ),
    bool_option(
        name="slot.failover",
        doc="If true, the slot is created with failover, so that standbys take it over (PostgreSQL 17 and later).",
        default="false",
        group=REPLICATION,
        label="Failover slot",
    ),
    option(
        name="slot.stream.params",
        doc=(
            "Further options of the output plugin, as name=value, separated by semicolons. origin=none "
            "(PostgreSQL 16 and later) leaves out changes that this database received by replication; dumps "
            "still contain their rows."
        ),
        importance=LOW,
        group=REPLICATION,
        label="Plugin options",
        check=_parsed_by(stream_params),
    ),
    bool_option(
        name="dblog.log.streaming",
        doc=(
            "If true, the server sends large transactions (above its logical_decoding_work_mem) before they "
            "commit. The worker keeps them on disk, in the folder for temporary files, until they do. If "
            "false, the server keeps them."
        ),
        default="false",
        group=REPLICATION,
        label="Stream transactions under way",
    ),
    int_option(
        name="slot.max.retries",
        doc="Number of attempts to start reading the slot.",
        default="6",
        importance=LOW,
        group=REPLICATION,
        label="Slot retries",
        no_effect="a slot that cannot be read is tried again as a lost connection is: errors.max.retries",
    ),
    long_option(
        name="slot.retry.delay.ms",
        doc="Pause between two attempts.",
        default="10000",
        unit="ms",
        importance=LOW,
        group=REPLICATION,
        label="Slot retry pause",
        no_effect="a slot that cannot be read is tried again as a lost connection is: retriable.restart.connector.wait.ms",
    ),
    option(
        name="publication.name",
        doc="Publication whose tables the slot's changes come from.",
        default="dbz_publication",
        group=REPLICATION,
        label="Publication",
        check=identifier,
    ),
    option(
        name="publication.autocreate.mode",
        doc=(
            "Treatment of the publication at a start. all_tables creates a missing one for all tables; "
            "filtered creates a missing one for the captured tables and adds missing tables to an existing "
            "one; no_tables creates a missing one without tables; disabled neither creates nor changes "
            "anything."
        ),
        default="all_tables",
        group=REPLICATION,
        label="Publication made by",
        choices=("all_tables", "disabled", "filtered", "no_tables"),
    ),
    bool_option(
        name="publish.via.partition.root",
        doc="If true, a publication that the connector creates publishes rows of partitions under the name of the partitioned table.",
        default="false",
        group=REPLICATION,
        label="Publish via partition root",
    ),
    option(
        name="replica.identity.autoset.values",
        doc=(
            "REPLICA IDENTITY that tables are set to at a start: schema.table:IDENTITY, separated by commas, "
            "with a regular expression for the table and DEFAULT, FULL, NOTHING or INDEX <name> as the "
            "identity."
        ),
        group=REPLICATION,
        label="Replica identities",
        check=_parsed_by(identity_rules),
    ),
    int_option(
        name="status.update.interval.ms",
        doc="Interval at which the server is told which position is stored, so that it can remove its log up to there.",
        default="10000",
        unit="ms",
        group=REPLICATION,
        label="Status interval",
        check=positive,
    ),
    option(
        name="lsn.flush.mode",
        doc=(
            "Component that advances the slot. connector and connector_and_driver have the same effect: the "
            "stored position is confirmed to the server. manual: something else advances the slot, and the "
            "server keeps its log until then. If absent, flush.lsn.source decides."
        ),
        importance=LOW,
        group=REPLICATION,
        label="LSN flush mode",
        choices=("connector", "connector_and_driver", "manual"),
    ),
    bool_option(
        name="flush.lsn.source",
        doc="Older form of lsn.flush.mode: true for connector, false for manual.",
        default="true",
        importance=LOW,
        group=REPLICATION,
        label="Flush LSN",
    ),
    long_option(
        name="lsn.flush.timeout.ms",
        doc="Time limit for sending such a report to the server.",
        default="30000",
        unit="ms",
        importance=LOW,
        group=REPLICATION,
        label="LSN flush timeout",
        check=positive,
        no_effect="the report is sent and not waited for",
    ),
    option(
        name="lsn.flush.timeout.action",
        doc="Reaction if a report is not sent within that limit.",
        default="fail",
        importance=LOW,
        group=REPLICATION,
        label="LSN flush timeout action",
        choices=("fail", "warn", "ignore"),
        no_effect="the report is sent and not waited for",
    ),
    option(
        name="offset.mismatch.strategy",
        doc=(
            "Reaction at a start if the slot is ahead of the stored offset, so that the server no longer has "
            "the changes between. no_validation and trust_offset fail, or dump all tables again with "
            "snapshot.mode=when_needed; trust_slot and trust_greater_lsn continue from the slot, with a "
            "warning."
        ),
        default="no_validation",
        importance=LOW,
        group=REPLICATION,
        label="Offset mismatch",
        choices=("no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"),
    ),
    long_option(
        name="xmin.fetch.interval.ms",
        doc="Interval at which the slot's xmin is read for source.xmin; 0 means never.",
        default="0",
        unit="ms",
        importance=LOW,
        group=REPLICATION,
        label="Xmin interval",
        check=not_negative_long,
        refused=only(0, because=not_yet("write source.xmin")),
    ),
)
