"""The check of offsets that a user gives a connector (PATCH /connectors/{name}/offsets), made
before they are stored.

Debezium accepts any map; its next start then fails, or reads from an unintended position. Kafka
Connect lets a connector refuse offsets (KIP-875, ``alterOffsets``), and this module decides what to
refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dblog.config.nearest import nearest
from dblog.core.dumps import dump_from_text
from dblog.core.requested import requests_from_text
from dblog.core.takeover import PREFIX
from dblog.dialects.mysql.binlog.offset import POSITION_BITS, TABLE_COUNT, LogProgress
from dblog.dialects.mysql.binlog.position import file_index
from dblog.errors import DblogError, DefiniteError
from dblog.model import OffsetMap
from dblog.readers.run.offset import UNREPORTED, WINDOWS

_COUNTS = ("event", "dblog_event", "row", "server_id", "ts_sec", "dblog_epoch", WINDOWS)
_TEXTS = ("file", "gtids", "dblog_server", "dblog_xa", "dblog_dump", "dblog_dumps", "transaction_id")
_OTHERS = ("pos", "snapshot", "snapshot_completed", UNREPORTED)
FIELDS = frozenset({*_TEXTS, *_COUNTS, *_OTHERS})
_FAMILIES = (TABLE_COUNT, PREFIX)
"""Prefixes of Debezium's fields that exist once per table or part of a snapshot."""
_POS_MAX = 1 << (63 - POSITION_BITS)
_COUNT_MAX = 1 << 63
_FILE_DIGITS_MAX = 9
_NAME_CHARS_SHOWN = 100


def check_altered(progress: type[LogProgress], server: str, changes: Sequence[tuple[Mapping[str, Any], OffsetMap | None]]) -> None:
    """Raise DefiniteError, with field and remedy, for an offset that the connector cannot start
    from.

    ``server`` is the connector's topic.prefix. Any partition may be removed (offset None).
    """
    for partition, offset in changes:
        if offset is None:
            continue
        if dict(partition) != {"server": server}:
            raise DefiniteError(
                f'The connector has one source partition, {{"server": "{server}"}} (its topic.prefix); another cannot be given an offset'
            )
        _check(progress, offset)


def _check(progress: type[LogProgress], offset: OffsetMap) -> None:
    _require_known(offset)
    pos = offset.get("pos")
    if not isinstance(offset.get("file"), str) or isinstance(pos, bool) or not isinstance(pos, int) or not 0 <= pos < _POS_MAX:
        raise DefiniteError(
            "The offset needs file, the name of a log file, and pos, a whole number of bytes in it (SHOW BINARY LOGS lists them)"
        )
    for name in _TEXTS:
        if not isinstance(offset.get(name, ""), str | None):
            raise DefiniteError(f"The offset's field {name} must be a text")
    for name in _COUNTS:
        count = offset.get(name, 0)
        if isinstance(count, bool) or not isinstance(count, int | None) or not 0 <= (count or 0) < _COUNT_MAX:
            raise DefiniteError(f"The offset's field {name} must be a whole number, 0 or larger")
    try:
        if len(str(offset["file"]).rpartition(".")[2]) > _FILE_DIGITS_MAX:
            raise ValueError
        file_index(str(offset["file"]))
        progress.of_offset(offset)
        if isinstance(dump := offset.get("dblog_dump"), str):
            dump_from_text(dump)
        if isinstance(dumps := offset.get("dblog_dumps"), str):
            requests_from_text(dumps)
    except DblogError as e:
        raise DefiniteError(f"The connector cannot start from this offset: {e}") from e
    except (ValueError, TypeError, KeyError) as e:
        raise DefiniteError("The connector cannot start from this offset: file or gtids is not in the form that the server writes") from e


def _require_known(offset: OffsetMap) -> None:
    """Raise DefiniteError for an unknown field. A misspelt one would be stored and ignored, and the
    connector would start from an unintended position.
    """
    known = sorted(FIELDS)
    for name in offset:
        if name in known or name.startswith(_FAMILIES):
            continue
        meant = nearest(name, known)
        raise DefiniteError(
            f"The offset has a field {name[:_NAME_CHARS_SHOWN]!r}, which the connector does not know. {f'Is {meant} meant? ' if meant else ''}"
            f"The fields are {', '.join(known)}, and those that begin with {' or '.join(_FAMILIES)}"
        )
