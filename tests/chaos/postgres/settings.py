"""What a plan sets on PostgreSQL: the server, the connector's modes, publication, converter and chunks. All are drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from chaos.converters import CONVERTERS
from chaos.postgres.tables import PostgresTable
from dblog.dialects.postgres.values.modes import BINARY_MODES, DECIMAL_MODES, HSTORE_MODES, INTERVAL_MODES, TIME_MODES, TypeModes

SERVER = {
    "wal_compression": ("off", "on"),
    "logical_decoding_work_mem": ("64MB", "64kB"),
    "synchronous_commit": ("on", "on", "off"),
    "wal_sender_timeout": ("60s", "2s"),
    "default_toast_compression": ("pglz", "lz4"),
    # The connector's sessions have texts of their own form, whatever the server's is.
    "timezone": ("UTC", "Asia/Kolkata"),
    "datestyle": ("ISO, MDY", "SQL, DMY", "German"),
    "intervalstyle": ("postgres", "sql_standard", "iso_8601"),
    "bytea_output": ("hex", "escape"),
    "extra_float_digits": ("1", "0"),
}
"""Variables that need no restart, and their values; the first is the default, and a value that stands twice is drawn twice as often."""
SERVER_OPTIONS = {"max_prepared_transactions": 20}
"""What a server is started with."""
PUBLICATION = "chaos"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One plan's settings. ``log`` are those of the server."""

    log: dict[str, str]
    modes: TypeModes
    converter: str
    chunk_rows: int
    options: dict[str, str]
    autocreate: str
    by_root: bool
    full: tuple[str, ...] = field(default=())
    """Tables that the connector gives REPLICA IDENTITY FULL."""

    @property
    def connector(self) -> dict[str, str]:
        """The connector's options, with ``{schema}`` for the run's schema."""
        identities = {"replica.identity.autoset.values": ",".join(rf"{{schema}}\.{name}:FULL" for name in self.full)} if self.full else {}
        return {
            "time.precision.mode": self.modes.time_precision_mode,
            "decimal.handling.mode": self.modes.decimal_handling_mode,
            "binary.handling.mode": self.modes.binary_handling_mode,
            "hstore.handling.mode": self.modes.hstore_handling_mode,
            "interval.handling.mode": self.modes.interval_handling_mode,
            "include.unknown.datatypes": str(self.modes.include_unknown_datatypes).lower(),
            "publication.name": PUBLICATION,
            "publication.autocreate.mode": self.autocreate,
            "publish.via.partition.root": str(self.by_root).lower(),
            "status.update.interval.ms": "500",
            "dblog.metrics.server.interval.ms": "1000",
            "dblog.chunk.rows": str(self.chunk_rows),
            # A TRUNCATE is a record, so that a fold can follow it.
            "skipped.operations": "none",
            **identities,
            **CONVERTERS[self.converter],
            **self.options,
        }


def settings_of(chance: random.Random, mask: frozenset[str], tables: list[PostgresTable]) -> Settings:
    """Draw them; ``log``, ``modes``, ``converter`` and single ``log:<variable>`` can be masked back to the defaults."""
    server = {name: chance.choice(values) for name, values in SERVER.items()}
    modes = TypeModes(
        time_precision_mode=chance.choice(TIME_MODES),
        decimal_handling_mode=chance.choice(DECIMAL_MODES),
        binary_handling_mode=chance.choice(BINARY_MODES),
        hstore_handling_mode=chance.choice(HSTORE_MODES),
        interval_handling_mode=chance.choice(INTERVAL_MODES),
        include_unknown_datatypes=chance.random() < 0.6,
    )
    converter = chance.choice(["avro", "avro", "avro", "json", "json", "json-bare"])
    chunk_rows = chance.choice([3, 17, 100, 1000])
    options = {
        "provide.transaction.metadata": chance.choice(["true", "false"]),
        "tombstones.on.delete": chance.choice(["true", "true", "false"]),
        "dblog.dump.threads": chance.choice(["1", "2", "4"]),
        "read.only": chance.choice(["true", "false", "false"]),
        "heartbeat.interval.ms": chance.choice(["0", "300"]),
    }
    autocreate = chance.choice(["all_tables", "all_tables", "filtered", "filtered", "disabled"])
    by_root = chance.random() < 0.5
    full = [t for t in tables if chance.random() < 0.15 and t.shape != "unique" and not t.parts and "options" not in mask]
    for table in full:
        table.made_with, table.identity = table.identity, "full"
    options["dblog.log.streaming"] = chance.choice(
        ["true", "false"]
    )  # large transactions, with a small logical_decoding_work_mem, while they are under way
    return Settings(
        log={name: SERVER[name][0] if mask & {"log", f"log:{name}"} else value for name, value in server.items()},
        modes=TypeModes() if "modes" in mask else modes,
        converter="avro" if "converter" in mask else converter,
        chunk_rows=1000 if "chunks" in mask else chunk_rows,
        options={} if "options" in mask else options,
        autocreate="all_tables" if "options" in mask else autocreate,
        by_root=by_root and "options" not in mask,
        full=tuple(table.name for table in full),
    )
