"""What a plan sets before it writes: the server's log, the connector's modes, converter and chunks. All are drawn from the seed."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from chaos.converters import CONVERTERS
from dblog.dialects.mysql.values.types import TypeModes
from support.generated_tables import modes

LOG = {
    "mysql": {
        "binlog_row_image": ("FULL", "FULL", "FULL", "MINIMAL", "NOBLOB"),
        "binlog_row_metadata": ("FULL", "MINIMAL"),
        "binlog_row_value_options": ("", "", "PARTIAL_JSON"),
        "binlog_transaction_compression": ("OFF", "ON"),
        "binlog_checksum": ("CRC32", "NONE"),
        "binlog_rows_query_log_events": ("OFF", "ON"),
    },
    "mariadb": {
        "binlog_row_image": ("FULL", "FULL", "FULL", "MINIMAL", "NOBLOB"),
        "binlog_row_metadata": ("FULL", "MINIMAL", "NO_LOG"),
        "log_bin_compress": ("OFF", "ON"),
        "binlog_checksum": ("CRC32", "NONE"),
        "binlog_annotate_row_events": ("OFF", "ON"),
    },
}
"""Global variables of the log and their values; a value that stands twice is drawn twice as often."""

DEFAULTS = {
    "mysql": {
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "binlog_row_value_options": "",
        "binlog_transaction_compression": "OFF",
        "binlog_checksum": "CRC32",
        "binlog_rows_query_log_events": "OFF",
    },
    "mariadb": {
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "log_bin_compress": "OFF",
        "binlog_checksum": "CRC32",
        "binlog_annotate_row_events": "ON",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One plan's settings."""

    log: dict[str, str]
    modes: TypeModes
    converter: str
    chunk_rows: int
    options: dict[str, str]

    @property
    def rereads(self) -> bool:
        """Whether the log lacks columns, so that rows are read from the table again."""
        return self.log.get("binlog_row_image", "FULL") != "FULL"

    @property
    def logs_whole_rows(self) -> bool:
        """Whether every logged change has all values of its row, also of JSON columns."""
        return not self.rereads and self.log.get("binlog_row_value_options", "") == ""

    def for_keys(self, types: Iterable[str]) -> Settings:
        """In modes that round, rows with nearly the same key would have the same: these modes are not for keys of such types."""
        made = self.modes
        for ddl in types:
            if made.time_precision_mode == "connect" and re.match(r"(time|datetime|timestamp)\([4-6]\)", ddl):
                made = dataclasses.replace(made, time_precision_mode="microseconds")
            if made.decimal_handling_mode == "double" and re.match(r"(decimal|numeric|dec|fixed)\(", ddl):
                made = dataclasses.replace(made, decimal_handling_mode="string")
        return dataclasses.replace(self, modes=made)

    @property
    def connector(self) -> dict[str, str]:
        """The connector's options."""
        return {
            "time.precision.mode": self.modes.time_precision_mode,
            "decimal.handling.mode": self.modes.decimal_handling_mode,
            "bigint.unsigned.handling.mode": self.modes.bigint_unsigned_handling_mode,
            "binary.handling.mode": self.modes.binary_handling_mode,
            "dblog.chunk.rows": str(self.chunk_rows),
            # The cases of DDL have columns that Avro could not name.
            "field.name.adjustment.mode": "avro_unicode",
            # A TRUNCATE is a record, so that a fold can follow it.
            "skipped.operations": "none",
            "dblog.row.image.missing": "reread" if self.rereads else "fail",
            **CONVERTERS[self.converter],
            **self.options,
        }


def settings_of(flavor: str, chance: random.Random, mask: frozenset[str]) -> Settings:
    """Draw them; ``log``, ``modes``, ``converter`` and single ``log:<variable>`` can be masked back to the defaults."""
    log = {name: chance.choice(values) for name, values in LOG[flavor].items()}
    drawn = modes(chance)
    converter = chance.choice(["avro", "avro", "json", "json-bare"])
    chunk_rows = chance.choice([3, 17, 100, 1000])
    options = {
        "provide.transaction.metadata": chance.choice(["true", "false"]),
        "tombstones.on.delete": chance.choice(["true", "true", "false"]),
        "dblog.dump.threads": chance.choice(["1", "2", "4"]),
    }
    return Settings(
        log={n: DEFAULTS[flavor][n] if mask & {"log", f"log:{n}"} else v for n, v in log.items()},
        modes=TypeModes() if "modes" in mask else drawn,
        converter="avro" if "converter" in mask else converter,
        chunk_rows=1000 if "chunks" in mask else chunk_rows,
        options={} if "options" in mask else options,
    )
