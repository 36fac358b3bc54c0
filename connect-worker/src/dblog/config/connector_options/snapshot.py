"""Options for what is dumped, and how."""

from __future__ import annotations

from dblog.config.connector_options.forms import (
    DUMP_THREADS,
    LOW,
    SNAPSHOT,
    bool_option,
    int_option,
    list_option,
    long_option,
    not_yet,
    option,
)
from dblog.config.options import not_negative_long, only, positive, regexes

SNAPSHOT_OPTIONS = (
    list_option(
        name="snapshot.include.collection.list",
        doc="Regular expressions, separated by commas, of the captured tables that are dumped. If absent, all are.",
        group=SNAPSHOT,
        label="Tables to dump",
        check=regexes,
    ),
    list_option(
        name="snapshot.select.statement.overrides",
        doc=(
            "Tables, as database.table and separated by commas, of which the first dump reads only the rows "
            "of a SELECT of their own: SELECT * FROM database.table WHERE condition, given in "
            "snapshot.select.statement.overrides.<database>.<table>. Changes are captured for all rows."
        ),
        group=SNAPSHOT,
        label="SELECT overrides",
    ),
    option(
        name="snapshot.query.mode",
        doc="Origin of the SELECT statements of a dump.",
        default="select_all",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot query mode",
        choices=("select_all", "custom"),
        refused=only("select_all", because="Java classes cannot run in this worker; use select_all"),
    ),
    *(
        option(
            name=name,
            doc="Java class that decides what is dumped. It cannot run in this worker.",
            importance=LOW,
            group=SNAPSHOT,
            label=name,
            refused=only(because="Java classes cannot run in this worker; remove the key"),
        )
        for name in ("snapshot.mode.custom.name", "snapshot.locking.mode.custom.name", "snapshot.query.mode.custom.name")
    ),
    *(
        bool_option(
            name=f"snapshot.mode.configuration.based.{part}",
            doc="Part of snapshot.mode=configuration_based.",
            default="false",
            importance=LOW,
            group=SNAPSHOT,
            label=f"Configuration based: {part}",
            refused=only(False, because=not_yet("build a snapshot mode from flags")),
        )
        for part in ("snapshot.data", "snapshot.schema", "start.stream", "snapshot.on.schema.error", "snapshot.on.data.error")
    ),
    int_option(
        name="snapshot.fetch.size",
        no_effect="a dump reads chunks: dblog.chunk.rows",
        doc="Number of rows that a Debezium snapshot fetches at a time. dblog reads chunks instead (dblog.chunk.rows).",
        unit="rows",
        group=SNAPSHOT,
        label="Snapshot fetch size",
        check=positive,
    ),
    int_option(
        name="snapshot.max.threads",
        doc="Number of connections that dump at the same time. dblog.dump.threads takes precedence.",
        default="1",
        group=SNAPSHOT,
        label="Snapshot maximum threads",
        check=positive,
        large=DUMP_THREADS,
    ),
    int_option(
        name="snapshot.max.threads.multiplier",
        no_effect="chunks are sized by rows and bytes: dblog.chunk.rows, dblog.chunk.bytes.max",
        doc="Number of chunks for each thread of a Debezium snapshot. dblog sizes chunks by rows.",
        default="1",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot threads multiplier",
        check=positive,
    ),
    bool_option(
        name="legacy.snapshot.max.threads",
        no_effect="each thread of a dump reads a table of its own in any case",
        doc="Dumps one table for each thread, as Debezium did before version 3.5.",
        default="false",
        importance=LOW,
        group=SNAPSHOT,
        label="Legacy snapshot threads",
    ),
    long_option(
        name="snapshot.delay.ms",
        doc="Pause before the dump begins.",
        default="0",
        unit="ms",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot delay",
        check=not_negative_long,
        refused=only(0, because=not_yet("delay a dump")),
    ),
    long_option(
        name="streaming.delay.ms",
        doc="Pause after the dump, before the log is read.",
        default="0",
        unit="ms",
        importance=LOW,
        group=SNAPSHOT,
        label="Streaming delay",
        check=not_negative_long,
        refused=only(0, because="dblog reads log and tables at once: there is no pause between them; remove the key"),
    ),
    option(
        name="snapshot.tables.order.by.row.count",
        doc="Order of tables in a dump: smallest first (ascending) or largest first (descending).",
        default="disabled",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot order",
        choices=("disabled", "ascending", "descending"),
        refused=only("disabled", because=not_yet("order a dump by table size")),
    ),
    long_option(
        name="snapshot.lock.timeout.ms",
        no_effect="a dump takes no lock",
        doc="Time limit for a table lock. dblog takes none.",
        default="10000",
        unit="ms",
        importance=LOW,
        group=SNAPSHOT,
        label="Snapshot lock timeout",
    ),
    int_option(
        name="incremental.snapshot.chunk.size",
        doc="Number of rows in one chunk of a dump that a signal requests. If absent, it adapts, up to dblog.chunk.rows.",
        default="1024",
        unit="rows",
        group=SNAPSHOT,
        label="Incremental snapshot chunk size",
        check=positive,
    ),
    option(
        name="incremental.snapshot.watermarking.strategy",
        no_effect="a watermark is one row of dblog.watermark.table, which is updated",
        doc="Way in which Debezium writes its watermarks. dblog updates one row of dblog.watermark.table.",
        default="insert_insert",
        importance=LOW,
        group=SNAPSHOT,
        label="Watermarking strategy",
        choices=("insert_insert", "insert_delete"),
    ),
)
"""Options with Debezium's names, types and defaults, in the order of the reference page."""
