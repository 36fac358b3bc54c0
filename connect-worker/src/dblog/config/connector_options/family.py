"""Options whose choices differ between MySQL and MariaDB."""

from __future__ import annotations

from dblog.config.connector_options.forms import CONNECTION, EVENTS, LOW, SNAPSHOT, bool_option, option
from dblog.config.options import Option, Value

_MODES = ("initial", "initial_only", "always", "no_data", "schema_only", "when_needed", "never")
_MODES_REFUSED = ("recovery", "schema_only_recovery", "configuration_based", "custom")
_TIME_MODES = ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")


def _refuse_mode(value: Value) -> str | None:
    match value:
        case str() if value.strip().lower() in ("recovery", "schema_only_recovery"):
            return "dblog does not rebuild a lost schema history yet; use no_data with a new topic.prefix, or when_needed"
        case str() if value.strip().lower() == "configuration_based":
            return "dblog does not build a snapshot mode from flags yet; use initial, no_data or when_needed"
        case str() if value.strip().lower() == "custom":
            return "Java classes cannot run in this worker; use initial, no_data or when_needed"
        case _:
            return None


def family_options(*, ssl_modes: tuple[str, ...], ssl_default: str, locking: tuple[str, ...]) -> tuple[Option, ...]:
    return (
        option(
            name="snapshot.mode",
            doc="Dumps at the first start and while the log is read. They run beside the log and take no locks.",
            default="initial",
            group=SNAPSHOT,
            label="Snapshot mode",
            choices=_MODES + _MODES_REFUSED,
            refused=_refuse_mode,
        ),
        option(
            name="snapshot.locking.mode",
            doc="Locks that a Debezium snapshot takes. dblog takes none in any mode.",
            default="minimal",
            importance=LOW,
            group=SNAPSHOT,
            label="Snapshot locking mode",
            choices=(*locking, "custom"),
            refused=lambda value: "Java classes cannot run in this worker; use none" if value == "custom" else None,
            no_effect="dblog takes no locks in any mode",
        ),
        option(
            name="database.ssl.mode",
            doc="Encryption of the connection, and verification of the server's certificate.",
            default=ssl_default,
            group=CONNECTION,
            label="SSL mode",
            choices=ssl_modes,
        ),
        bool_option(
            name="driver.allowPublicKeyRetrieval",
            doc=(
                "If true, the client may encrypt the password with a key that the server sends over a connection "
                "without TLS (caching_sha2_password). Somebody between them could send a key of his own."
            ),
            default="false",
            importance=LOW,
            group=CONNECTION,
            label="Allow public key retrieval",
        ),
        option(
            name="time.precision.mode",
            doc="Form of times and dates in records. adaptive is not allowed for this source, as in Debezium.",
            default="adaptive_time_microseconds",
            group=EVENTS,
            label="Time Precision",
            choices=_TIME_MODES,
        ),
    )
