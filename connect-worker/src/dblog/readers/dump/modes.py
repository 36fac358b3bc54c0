"""Requirements of a dump's mode on a table, and the encoder of rows that are not whole.

``verify`` and ``columns`` concern rows that the other side already has and finds by key. So the key
has to be the table's, with one row per key. A request is checked before it is accepted, and each
version of a table before it is read: if DDL changes the table during a dump, the table ends with
the same message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from dblog.codecs.fingerprint import verified_schemas
from dblog.codecs.plan import TablePlan, distinguishes_rows
from dblog.codecs.rowplan import RowEncoder
from dblog.config.nearest import nearest
from dblog.core.dumprequests import Mode
from dblog.errors import DefiniteError
from dblog.model import Table, TableId
from dblog.readers.records import Records
from dblog.readers.topics import SharedTopicWarnings

log = structlog.get_logger(__name__)


class Modes:
    """Mode checks of one connector. Any thread may call them; they may ask the registry."""

    def __init__(self, records: Records, topics: SharedTopicWarnings) -> None:
        self._records = records
        self._topics = topics
        self._repairable: dict[TableId, tuple[Table, bool]] = {}

    def encoder(self, table: Table, mode: Mode, columns: Collection[str] | None) -> RowEncoder | None:
        """Return the encoder of a dump's rows, None for the table's own.

        Raise DefiniteError if the table cannot be dumped in this mode.
        """
        if (
            mode in (Mode.VERIFY, Mode.REPAIR, Mode.COLUMNS)
            and (fault := self._records.transforms_fault(whole=mode is not Mode.COLUMNS)) is not None
        ):
            message = f"the mode {mode} cannot be used with this connector: {fault}; use the mode rows"
            raise DefiniteError(message)
        if mode not in (Mode.VERIFY, Mode.COLUMNS):
            return None
        plan = self._records.schemas(table)
        _require_key(table, plan, mode)
        if mode is Mode.VERIFY:
            _require_key_in_row(table, plan)
            verified_schemas(plan)
            return None
        assert columns is not None, "a request without columns is refused where it is parsed"
        _require_columns(table, plan, columns)
        if (fault := self._records.converters()[1].partial_fault()) is not None:
            message = f"the mode {mode} cannot be used with this value.converter: {fault}"
            raise DefiniteError(message)
        return self._records.partial_encoder(table, columns)

    def can_be_repaired(self, table: Table) -> bool:
        """Return True if the connector's own dump of this version may remove rows that it does not
        bring.

        Called for each chunk; the key is checked once per version.
        """
        if self._records.transforms_fault(whole=True) is not None:
            return False
        known = self._repairable.get(table.id)
        if known is None or known[0] is not table:
            try:
                _require_key(table, self._records.schemas(table), Mode.REPAIR)
            except DefiniteError as e:
                log.info("the dump of a table removes no rows that the source does not have", table=str(table.id), reason=str(e))
                known = (table, False)
            else:
                known = (table, True)
            self._repairable[table.id] = known
        return known[1] and self._topics.is_alone(table.id)

    def require_own_topics(self, tables: Iterable[TableId], mode: Mode, captured: Iterable[TableId]) -> None:
        """Raise DefiniteError if rows of another captured table go to the topic of one of these
        tables.

        The sink takes all rows of a topic for rows of one table. After a ``repair`` it would remove
        those of the other table.
        """
        if mode not in (Mode.VERIFY, Mode.REPAIR):
            return
        topic_of = self._records.topic_of
        of_topic: dict[str, list[TableId]] = {}
        for table in captured:
            of_topic.setdefault(topic_of(table), []).append(table)
        for table in tables:
            others = [other for other in of_topic.get(topic_of(table), ()) if other != table]
            if others:
                message = (
                    f"rows of {table} and of {others[0]} go to one topic, {topic_of(table)}, so nobody could tell whose a row is; a {mode} is for tables "
                    "with a topic of their own, use the mode rows"
                )
                raise DefiniteError(message)


def _require_key(table: Table, plan: TablePlan, mode: Mode) -> None:
    if not table.key:
        message = f"{table.id} has no key, and the mode {mode} finds rows by their keys; add a primary key, or use the mode rows"
        raise DefiniteError(message)
    if not distinguishes_rows(plan):
        message = (
            f"message.key.columns gives several rows of {table.id} one key, and the mode {mode} finds rows by their keys; have it name "
            f"{', '.join(table.key)} too, or use the mode rows"
        )
        raise DefiniteError(message)


def _require_key_in_row(table: Table, plan: TablePlan) -> None:
    """Raise DefiniteError if the table's rows do not contain their keys unchanged.

    A comparison gets only the rows, and makes the keys from them.
    """
    for index in plan.key:
        if plan.columns[index].apart:
            how = (
                "is left out of the rows" if not plan.columns[index].included else "has other values in the rows (a mask, a hash or a cut)"
            )
            message = (
                f"{table.id}: the key column {table.columns[index].name} {how}, so the keys of its rows cannot be compared; have it sent as it is, "
                "or leave the table out of this dump"
            )
            raise DefiniteError(message)


def _require_columns(table: Table, plan: TablePlan, columns: Collection[str]) -> None:
    by_name = {column.name.lower(): index for index, column in enumerate(table.columns)}
    for name in columns:
        index = by_name.get(name.lower())
        if index is None:
            meant = nearest(name, (column.name for column in table.columns))
            message = f"{table.id} has no column {name} as far as its log has been read; {f'is {meant} meant?' if meant else 'ask for columns that it has'}"
            raise DefiniteError(message)
        if not plan.columns[index].included:
            message = (
                f"the column {table.columns[index].name} of {table.id} is not captured: column.include.list or column.exclude.list leaves it out, or it is "
                "a hidden one of the server"
            )
            raise DefiniteError(message)
