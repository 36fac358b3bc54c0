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
        doc="Plugin that writes the slot's messages. Debezium's default, decoderbufs, has to be built into the server, and dblog does "
        "not read it.",
        default="pgoutput",
        group=REPLICATION,
        label="Plugin",
        refused=_refused_plugin,
        other_default="dblog reads pgoutput, and not decoderbufs, which Debezium takes then",
    ),
    option(
        name="slot.name",
        doc="Replication slot that the log is read from: the connector's own, on the whole server. It is made at the first start where "
        "it is missing.",
        default="debezium",
        group=REPLICATION,
        label="Slot",
        check=_slot_name,
    ),
    bool_option(
        name="slot.drop.on.stop",
        doc="Whether the slot is dropped whenever the connector stops in order: what is changed until its next start is in no log then, so "
        "that start dumps all again with snapshot.mode=when_needed, and stops with any other. For tests and trials.",
        default="false",
        group=REPLICATION,
        label="Drop slot on stop",
    ),
    bool_option(
        name="slot.failover",
        doc="Whether the slot is made as one that standbys take over (PostgreSQL 17 and later).",
        default="false",
        group=REPLICATION,
        label="Failover slot",
    ),
    option(
        name="slot.stream.params",
        doc="Further options of the plugin, as name=value;name=value: origin=none (PostgreSQL 16 and later) leaves out what this database "
        "has got from another one by replication. Dumps have such rows too.",
        importance=LOW,
        group=REPLICATION,
        label="Plugin options",
        check=_parsed_by(stream_params),
    ),
    bool_option(
        name="dblog.log.streaming",
        doc="Whether the server sends large transactions (beyond its logical_decoding_work_mem) while they are under way: they are kept on the "
        "worker's disk, in the directory for temporary files, until they commit. Else the server keeps them on its own.",
        default="false",
        group=REPLICATION,
        label="Stream transactions under way",
    ),
    int_option(
        name="slot.max.retries",
        doc="Tries to begin reading the slot.",
        default="6",
        importance=LOW,
        group=REPLICATION,
        label="Slot retries",
        no_effect="a slot that cannot be read is tried again as a lost connection is: errors.max.retries",
    ),
    long_option(
        name="slot.retry.delay.ms",
        doc="Pause between them.",
        default="10000",
        unit="ms",
        importance=LOW,
        group=REPLICATION,
        label="Slot retry pause",
        no_effect="a slot that cannot be read is tried again as a lost connection is: retriable.restart.connector.wait.ms",
    ),
    option(
        name="publication.name",
        doc="Publication whose tables the slot's messages are of.",
        default="dbz_publication",
        group=REPLICATION,
        label="Publication",
        check=identifier,
    ),
    option(
        name="publication.autocreate.mode",
        doc="What is done about the publication at a start: all_tables makes a missing one for all tables; filtered makes a missing one "
        "for the captured tables, and adds those that are missing to one that is there; no_tables makes a missing one without tables; "
        "disabled makes and changes nothing.",
        default="all_tables",
        group=REPLICATION,
        label="Publication made by",
        choices=("all_tables", "disabled", "filtered", "no_tables"),
    ),
    bool_option(
        name="publish.via.partition.root",
        doc="Whether a publication that is made here has the rows of partitions under the name of the partitioned table.",
        default="false",
        group=REPLICATION,
        label="Publish via partition root",
    ),
    option(
        name="replica.identity.autoset.values",
        doc="REPLICA IDENTITY that tables get at a start, as schema.table:FULL, with a regular expression for the table; DEFAULT, FULL, "
        "NOTHING or INDEX <name>, parted by commas.",
        group=REPLICATION,
        label="Replica identities",
        check=_parsed_by(identity_rules),
    ),
    int_option(
        name="status.update.interval.ms",
        doc="How often the server gets a report of what is stored.",
        default="10000",
        unit="ms",
        group=REPLICATION,
        label="Status interval",
        check=positive,
    ),
    option(
        name="lsn.flush.mode",
        doc="Who moves the slot on: connector and connector_and_driver are alike here, what is stored is confirmed; manual: something "
        "else does, and the server keeps its log until then. Absent: as flush.lsn.source.",
        importance=LOW,
        group=REPLICATION,
        label="LSN flush mode",
        choices=("connector", "connector_and_driver", "manual"),
    ),
    bool_option(
        name="flush.lsn.source",
        doc="The older form of lsn.flush.mode: true for connector, false for manual.",
        default="true",
        importance=LOW,
        group=REPLICATION,
        label="Flush LSN",
    ),
    long_option(
        name="lsn.flush.timeout.ms",
        doc="Longest wait until the server has taken such a report.",
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
        doc="What happens behind it.",
        default="fail",
        importance=LOW,
        group=REPLICATION,
        label="LSN flush timeout action",
        choices=("fail", "warn", "ignore"),
        no_effect="the report is sent and not waited for",
    ),
    option(
        name="offset.mismatch.strategy",
        doc="What happens where the slot is ahead of the stored offset, so that the server has let go of what lies between: no_validation "
        "and trust_offset fail, or dump again with snapshot.mode=when_needed; trust_slot and trust_greater_lsn go on at the slot, with a "
        "warning.",
        default="no_validation",
        importance=LOW,
        group=REPLICATION,
        label="Offset mismatch",
        choices=("no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"),
    ),
    long_option(
        name="xmin.fetch.interval.ms",
        doc="How often the slot's xmin is read for source.xmin; 0 means never.",
        default="0",
        unit="ms",
        importance=LOW,
        group=REPLICATION,
        label="Xmin interval",
        check=not_negative_long,
        refused=only(0, because=not_yet("write source.xmin")),
    ),
)
