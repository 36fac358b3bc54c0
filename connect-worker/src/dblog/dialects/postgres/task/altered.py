"""Checks that a connector can start from offsets that a user gives it (PATCH
/connectors/{name}/offsets), before they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dblog.config.nearest import nearest
from dblog.core.dumps import dump_from_text
from dblog.core.requested import requests_from_text
from dblog.core.takeover import PREFIX
from dblog.dialects.postgres.pgoutput.offset import LSN_FIELDS, TABLE_COUNT, TRANSACTION_ID, PostgresProgress
from dblog.errors import DblogError, DefiniteError
from dblog.model import OffsetMap
from dblog.readers.run.offset import UNREPORTED, WINDOWS

_NUMBERS = (
    *LSN_FIELDS, "txId", "ts_usec", "xmin", "lsn_events_processed",
    "dblog_commit", "dblog_event", "dblog_change_lsn", "dblog_change", "dblog_epoch", "dblog_standby_started", WINDOWS,
)  # fmt: skip
_TEXTS = ("messageType", "dblog_server", "dblog_dump", "dblog_dumps", TRANSACTION_ID)
_OTHERS = ("snapshot", "snapshot_completed", "last_snapshot_record", UNREPORTED)
FIELDS = frozenset({*_TEXTS, *_NUMBERS, *_OTHERS})
_FAMILIES = (TABLE_COUNT, PREFIX)
_MAX = 1 << 63
_NAME_CHARS_SHOWN = 100


def check_altered(server: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
    """Raise DefiniteError with the wrong field and the remedy. ``server`` is the connector's
    topic.prefix. Any partition may be removed (offset None).
    """
    for partition, offset in changes:
        if offset is None:
            continue
        if dict(partition) != {"server": server}:
            message = (
                f'The connector has one source partition, {{"server": "{server}"}} (its topic.prefix); another cannot be given an offset'
            )
            raise DefiniteError(message)
        _check(offset)


def _check(offset: OffsetMap) -> None:
    known = sorted(FIELDS)
    for name in offset:
        if name in known or name.startswith(_FAMILIES):
            continue
        meant = nearest(name, known)
        message = (
            f"The offset has a field {name[:_NAME_CHARS_SHOWN]!r}, which the connector does not know. {f'Is {meant} meant? ' if meant else ''}"
            f"The fields are {', '.join(known)}, and those that begin with {' or '.join(_FAMILIES)}"
        )
        raise DefiniteError(message)
    for name in _TEXTS:
        if not isinstance(offset.get(name, ""), str | None):
            message = f"The offset's field {name} must be a text"
            raise DefiniteError(message)
    for name in _NUMBERS:
        number = offset.get(name, 0)
        if isinstance(number, bool) or not isinstance(number, int | None) or not 0 <= (number or 0) < _MAX:
            message = f"The offset's field {name} must be a whole number, 0 or larger"
            raise DefiniteError(message)
    if not any(isinstance(offset.get(name), int) for name in LSN_FIELDS):
        message = "The offset needs lsn, a position of the log as a whole number of bytes (SELECT pg_current_wal_lsn() - '0/0' shows the log's end so)"
        raise DefiniteError(message)
    try:
        PostgresProgress.of_offset(offset, database="")
        if isinstance(dump := offset.get("dblog_dump"), str):
            dump_from_text(dump)
        if isinstance(dumps := offset.get("dblog_dumps"), str):
            requests_from_text(dumps)
    except (DblogError, ValueError, TypeError, KeyError) as e:
        message = f"The connector cannot start from this offset: {e}"
        raise DefiniteError(message) from e
