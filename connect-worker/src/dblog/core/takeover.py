"""Reads an unfinished incremental snapshot of Debezium from the offset that it left, so that the
dump continues from there. # I3

Debezium writes these keys only while such a snapshot runs
(AbstractIncrementalSnapshotContext.store): the collections that are left, beginning with the one
under way, and for that one the key of the last row sent and the greatest key when it began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dblog.core.javaarray import read_java_array
from dblog.errors import DefiniteError
from dblog.model import TableId

PREFIX = "incremental_snapshot_"
COLLECTIONS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A table that Debezium still had to read. The values are Debezium's. The caller has to check
    that they are keys of the table as it is now.
    """

    table: TableId
    sent_upto: tuple[Any, ...] | None = None
    """Key of the last row that was sent; None to begin with the first row."""
    ends_at: tuple[Any, ...] | None = None
    """Greatest key of the table when its snapshot began."""


def unfinished_snapshot(offset: Mapping[str, Any]) -> tuple[Unfinished, ...]:
    """Return the tables that are left of an incremental snapshot, in order; empty if none was
    running. Raise DefiniteError if the list of tables cannot be read.
    """
    found = sorted(key for key, value in offset.items() if key.startswith(PREFIX) and value is not None)
    if not found:
        return ()
    text = offset.get(f"{PREFIX}collections")
    try:
        listed = list(json.loads(text)) if isinstance(text, str) else []
        names = [_name_of(each) for each in listed][:COLLECTIONS_MAX]
    except (ValueError, TypeError, KeyError, RecursionError):
        listed, names = [], []
    if not names:
        message = (
            f"the stored offset is that of an incremental snapshot of Debezium's that has not ended ({', '.join(found)}), and which tables it has left cannot "
            "be read from it; let Debezium finish or stop the snapshot before taking the connector over, or reset the connector's offsets to dump again"
        )
        raise DefiniteError(message)
    tables = [Unfinished(table=name) for name in dict.fromkeys(names)]
    # With a surrogate key the stored values are not of the table's key.
    if not listed[0].get(f"{PREFIX}collections_surrogate_key"):
        sent, end = (_array_of(offset, key) for key in ("primary_key", "maximum_key"))
        if sent is not None and end is not None:
            tables[0] = Unfinished(table=tables[0].table, sent_upto=sent, ends_at=end)
    return tuple(tables)


def _name_of(collection: Mapping[str, Any]) -> TableId:
    database, dot, name = str(collection[f"{PREFIX}collections_id"]).replace("`", "").partition(".")
    if not database or not dot or not name:
        raise ValueError
    return TableId(database, name)


def _array_of(offset: Mapping[str, Any], key: str) -> tuple[Any, ...] | None:
    text = offset.get(f"{PREFIX}{key}")
    return read_java_array(text) if isinstance(text, str) else None
