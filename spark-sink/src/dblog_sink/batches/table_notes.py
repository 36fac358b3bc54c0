"""Makes control-table notes about tables that were written."""

from __future__ import annotations

from collections.abc import Iterable

from dblog_sink.state.notes import AppendPosition, HistoryChecked, Note, TableWritten
from dblog_sink.tables.modes.work import Applied


def notes_of(applied: Iterable[Applied]) -> list[Note]:
    """Return the notes of these writes."""
    notes: list[Note] = []
    for one in applied:
        if one.table_id is not None:
            notes.append(TableWritten(one.topic, one.table_id, one.appending))
            notes += [AppendPosition(one.topic, partition, position) for partition, position in one.positions.items()]
            if one.version is not None:
                notes.append(HistoryChecked(one.topic, one.table_id, one.version))
    return notes


def must_be_written(notes: Iterable[Note]) -> bool:
    """Return True if the notes must be written at once.

    That is so if a table has no other guard against records that are sent again.
    """
    return any(isinstance(note, AppendPosition) for note in notes)
