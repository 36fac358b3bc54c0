"""The progress of a dump: its tables, how far each has been read, and the text that stores this in
the source offset.

The progress of a table is ``core/table_dump.py``'s. The text is part of the connector's offset,
which Kafka Connect keeps flat (primitives only), so a killed task continues at the chunk.

The text holds unfinished tables only: an offset is one Kafka message, it is stored again and again,
and there may be tens of thousands of tables. The names of many tables are stored once, as a list
beside the offset (``TableList``; readers/log/history.py stores it). The text then holds the
stretches of that list that no reader has started. A long text of tables in no list is compressed. A
table that is absent from the text has been dumped. Only a table in the text, or one that joined
later than the text knows (``joins``; core/timeline.py numbers the joinings in the history), is
still to be dumped.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from dblog.core.table_dump import UNREAD, CutShort, Key, KeyRange, Read, TableDump, TableState, UnderWay
from dblog.errors import LOST_REMEDY, DefiniteError, PositionLostError
from dblog.model import TableId

FORMAT = 2
"""Format of the text. Format 1 listed finished tables too."""

FORMAT_LISTED = 3
"""Format of the text of a dump whose tables are in a list."""

LISTED_FROM_TABLES = 200
"""Number of tables from which a dump gets a list. A new list is due once the text would name this
many stretches and tables.
"""

NAMED_TABLES_MAX = 20
"""Number of tables left up to which the text names them instead of using the list, so that no
offset needs the list any more.
"""

PLAIN_CHARS_MAX = 4096
"""Length of a list of tables above which the text is compressed."""

TEXT_CHARS_MAX = 500_000
"""Half of what Kafka accepts as one message by default. If the compressed list is still longer,
tables under way start again after a restart.
"""

PACKED_CHARS_MAX = 1_000_000
UNPACKED_BYTES_MAX = 16 << 20
"""Size of a list of tables that is read: a kilobyte for each of 15 000 tables. Anybody who may
write the topic or alter offsets can supply an offset, and a few kilobytes can decompress to
gigabytes.
"""
VALUES_MAX = 1_000_000
"""Number of commas in the list, which bounds its values: each becomes a Python object, and the
parser lets no other thread run. A table has between four and about fifty values.
"""


@dataclass(frozen=True)
class TableList:
    """The names of a dump's tables, in its order. Immutable: the list of an ``id`` is stored
    once.
    """

    id: str
    tables: tuple[TableId, ...]

    @cached_property
    def places(self) -> Mapping[TableId, int]:
        """Index of each table in the list."""
        return {table: at for at, table in enumerate(self.tables)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A dump of several tables. Immutable: each step returns a new value. Create one with
    ``dump_of``.

    There may be tens of thousands of tables and several steps for each, so no step and no query
    loops over all of them in Python.
    """

    id: str
    left: Mapping[TableId, TableDump]
    """Tables left to read, in reading order."""
    over: Mapping[TableId, TableDump] = field(default_factory=dict)
    """Tables that have ended."""
    finished: int = 0
    """Number of tables that earlier runs finished; they are neither in ``left`` nor in ``over``."""
    finished_rows: int = 0
    finished_bytes: int = 0
    joins: int = 0
    """Number of the last joining whose tables this dump includes."""
    table_rows: int = 0
    """Rows sent of the tables in ``left`` and ``over``."""
    table_bytes: int = 0
    """Bytes sent of the tables in ``left`` and ``over``."""
    faults: Mapping[TableId, TableDump] = field(default_factory=dict)
    """Tables of ``over`` that could not be read."""
    listed: TableList | None = None
    """List that stores the names of the tables; None for a dump of few tables."""
    arrivals: int = 0
    """Counter that rises whenever tables may have been added to ``left``."""

    @property
    def tables(self) -> tuple[TableDump, ...]:
        """All tables except those that earlier runs finished; ended ones come first."""
        return (*self.over.values(), *self.left.values())

    @property
    def done(self) -> bool:
        """True if every table has been read to its end."""
        return not self.left and not self.faults

    @property
    def ended(self) -> bool:
        """True if no table is left to read; some may have failed."""
        return not self.left

    @property
    def failed(self) -> tuple[TableDump, ...]:
        """Tables that could not be read."""
        return tuple(self.faults.values())

    @property
    def rows(self) -> int:
        """Rows sent so far."""
        return self.finished_rows + self.table_rows

    @property
    def bytes(self) -> int:
        """Bytes of the rows sent so far, as the server sent them."""
        return self.finished_bytes + self.table_bytes

    @property
    def tables_total(self) -> int:
        """Number of all tables, including those that earlier runs finished."""
        return self.finished + len(self.left) + len(self.over)

    @property
    def tables_done(self) -> int:
        """Number of tables that were read to their end."""
        return self.finished + len(self.over) - len(self.faults)

    @property
    def has_read_any(self) -> bool:
        """True if some table was really read to its end, rather than dropped or renamed."""
        return self.finished > 0 or any(t.done and not t.cut_short and t.fault is None for t in self.over.values())

    def table(self, table: TableId) -> TableDump | None:
        """Return the table's progress, or None if it is not part of this dump."""
        return self.left.get(table) or self.over.get(table)

    def started(self, table: TableId, *, key: tuple[str, ...], upto: Key | None) -> Dump:
        """Return the dump after the table's greatest key has become known. An empty table, with
        ``upto`` None, is done at once.
        """
        return self._with(table, lambda t: t.begun(key=key, upto=upto))

    def advanced(self, table: TableId, *, after: Key | None, rows: int, done: bool, behind: Key | None = None) -> Dump:
        """Return the dump after a window of the table has closed: the frontier of the range after
        ``behind`` moves to ``after``. ``done`` is True if the range ends there.
        """
        return self._with(table, lambda t: replace(t.read(behind, after, ends=done), rows=t.rows + rows, chunks=t.chunks + 1))

    def split(self, table: TableId, *, upto: Key, at: Key) -> Dump:
        """Return the dump with one range of the table split in two, for two readers."""
        return self._with(table, lambda t: t.split(upto, at))

    def weighed(self, table: TableId, size_bytes: int) -> Dump:
        """Return the dump with the size of a closed window's rows added to the table's total."""
        return self._with(table, lambda t: replace(t, bytes=t.bytes + size_bytes))

    def given_up(self, table: TableId, fault: str) -> Dump:
        """Return the dump with this table failed for the reason ``fault``. The other tables
        go on.
        """
        return self._with(table, lambda t: t.failed(fault))

    def all_given_up(self, tables: Iterable[TableId], fault: str) -> Dump:
        """Return the dump with all these tables failed, in one pass."""
        ended = {table: self.left[table].failed(fault) for table in tables if table in self.left}
        if not ended:
            return self
        left = {table: progress for table, progress in self.left.items() if table not in ended}
        return replace(self, left=left, over={**self.over, **ended}, faults={**self.faults, **ended})

    def restarted(self, table: TableId, *, waits: bool = False) -> Dump:
        """Return the dump with the table to be read from its beginning. An unfinished repair stays
        a repair, and a waiting table stays one; ``waits`` makes it wait.
        """
        return self._with(
            table, lambda t: TableDump(table=t.table, repairs=t.repairs and not t.done, waits=waits or (t.waits and not t.done))
        )

    def waiting(self, tables: Iterable[TableId]) -> Dump:
        """Return the dump with those of the tables that are left to read set to wait
        (``TableDump.waits``).
        """
        marked = {table: replace(self.left[table], waits=True) for table in tables if table in self.left and not self.left[table].waits}
        return replace(self, left={**self.left, **marked}) if marked else self

    def read_again(self, tables: Iterable[TableId], *, repairs: Container[TableId] = (), waits: Container[TableId] = ()) -> Dump:
        """Return the dump with these tables to be read from their beginning, in one step for any
        number of tables.

        An unfinished repair stays a repair, and a waiting table stays one. Tables in ``repairs``
        and ``waits`` become so.
        """
        new: dict[TableId, TableDump] = {}
        for table in tables:
            known = self.table(table)
            left = TableDump(table=table) if known is None or known.done else known.fresh
            new[table] = replace(left, repairs=left.repairs or table in repairs, waits=left.waits or table in waits)
        over = (t for t in self.over.values() if t.table not in new)
        return self._of((*over, *({**self.left, **new}.values())))

    def without_repair(self, tables: Iterable[TableId]) -> Dump:
        """Return the dump with these tables sent without removing rows: they are repairs no
        longer.
        """
        kept = {t: replace(progress, repairs=False) for t in tables if (progress := self.left.get(t)) is not None and progress.repairs}
        return replace(self, left={**self.left, **kept}) if kept else self

    def repairs_table(self, table: TableId) -> bool:
        """Return True if rows of the table that the dump does not bring must leave the lake."""
        progress = self.table(table)
        return progress is not None and progress.repairs

    def dropped(self, table: TableId) -> Dump:
        """Return the dump after the table was dropped at the source: nothing is left to read
        of it.
        """
        return self._with(table, TableDump.dropped)

    def created(self, table: TableId) -> Dump:
        """Return the dump after an empty table of that name was created: the log brings all its
        rows.
        """
        return self._with(table, TableDump.created)

    def renamed(self, pairs: Iterable[tuple[TableId, TableId]], wanted: Callable[[TableId], bool]) -> tuple[Dump, tuple[TableId, ...]]:
        """Return the dump after the renames of one statement, from left to right, and the tables to
        be read from their beginning now.

        These are the tables that took the name of an unfinished table, and unfinished tables under
        their new names. So a swap leaves neither table half read.
        """
        pairs = tuple(pairs)
        if all(self.table(table) is None for pair in pairs for table in pair):
            return self, ()
        pending: dict[TableId, bool] = {}

        def is_pending(table: TableId) -> bool:
            known = self.table(table)
            return known is not None and (not known.done or known.cut_short)

        for old, new in pairs:
            pending[new] = pending.get(old, is_pending(old)) or is_pending(new)
            pending[old] = False
        waits = {table for table in pending if (known := self.left.get(table)) is not None and known.waits}
        for old, new in pairs:
            if old in waits:
                waits.remove(old)
                waits.add(new)
        again = tuple(table for table, waits in pending.items() if waits and wanted(table))
        dump = self.with_tables(again)
        for table in pending:
            dump = dump.restarted(table, waits=table in waits) if table in again else dump.dropped(table)
        return dump, again

    def with_tables(self, tables: Iterable[TableId]) -> Dump:
        """Return the dump with more tables at its end. Tables that it has already stay as
        they are.
        """
        return self._of((*self.tables, *(TableDump(table=t) for t in dict.fromkeys(tables) if self.table(t) is None)))

    def with_new(self, tables: Iterable[TableId], *, repairs: Container[TableId] = ()) -> Dump:
        """Return the dump with more tables at its end, each to be read from its beginning.
        ``repairs`` are those that may have lost rows.
        """
        new = dict.fromkeys(tables)
        fresh = (TableDump(table=t) if (known := self.left.get(t)) is None else known.fresh for t in new)
        added = (replace(t, repairs=True) if t.table in repairs else t for t in fresh)
        return self._of((*(t for t in self.tables if t.table not in new), *added))

    def with_progress(self, tables: Iterable[TableDump]) -> Dump:
        """Return the dump with more tables, each with its own progress."""
        new = {t.table: t for t in tables}
        return self._of((*(t for t in self.tables if t.table not in new), *new.values()))

    def with_join(self, number: int) -> Dump:
        """Return the dump with the tables of all joinings up to ``number`` marked as included."""
        return self if number <= self.joins else replace(self, joins=number)

    @property
    def list_is_due(self) -> bool:
        """True if a list of the tables left would make the text shorter."""
        if len(self.left) < LISTED_FROM_TABLES:
            return False
        stretches, others = _stretches(self, self.left.values())
        return sum(map(len, stretches.values())) + len(others) >= LISTED_FROM_TABLES

    @property
    def unlisted(self) -> int:
        """Number of tables that a new list would have and the dump's current list does not."""
        places = {} if self.listed is None else self.listed.places
        return sum(not (t.started or t.chunks or t.chosen or t.table in places) for t in self.left.values())

    def with_list(self, identity: str) -> Dump:
        """Return the dump with a new list of the tables left. Store the list before any text of
        this dump.
        """
        return replace(self, listed=TableList(identity, tuple(self.left)))

    def only(self, captured: Callable[[TableId], bool]) -> Dump:
        """Return the dump without tables that are captured no longer. One that comes back has
        missed rows, and is dumped like a new table.
        """
        return self._of(t for t in self.tables if captured(t.table))

    def _of(self, tables: Iterable[TableDump]) -> Dump:
        of = dump_of(self.id, tables)
        return replace(
            self,
            left=of.left,
            over=of.over,
            faults=of.faults,
            table_rows=of.table_rows,
            table_bytes=of.table_bytes,
            arrivals=self.arrivals + 1,
        )

    def _with(self, table: TableId, change: Callable[[TableDump], TableDump]) -> Dump:
        before = self.table(table)
        if before is None:
            return self
        after = change(before)
        left, over, faults = self.left, self.over, self.faults
        if not after.ended:
            # A table that had ended comes last; any other keeps its place.
            left = {**left, table: after}
        elif not before.ended:
            left = {**left}
            del left[table]
        if after.ended:
            over = {**over, table: after}
        elif before.ended:
            over = {**over}
            del over[table]
        if before.fault is not None or after.fault is not None:
            faults = {t: progress for t, progress in over.items() if progress.fault is not None}
        return replace(
            self,
            left=left,
            over=over,
            faults=faults,
            table_rows=self.table_rows + after.rows - before.rows,
            table_bytes=self.table_bytes + after.bytes - before.bytes,
            arrivals=self.arrivals + (before.ended and not after.ended),
        )


def stored_bytes(text: str) -> int:
    """Return the size of a text as a JSON field of an offset: a name may contain letters of four
    bytes and quotation marks.
    """
    return len(_json(text).encode())


def dump_of(
    identity: str,
    tables: Iterable[TableId | TableDump],
    *,
    finished: int = 0,
    finished_rows: int = 0,
    finished_bytes: int = 0,
    joins: int = 0,
) -> Dump:
    """Return a dump of these tables, each new or with its known progress."""
    known = [t if isinstance(t, TableDump) else TableDump(table=t) for t in tables]
    over = {t.table: t for t in known if t.ended}
    return Dump(
        id=identity,
        left={t.table: t for t in known if not t.ended},
        over=over,
        finished=finished,
        finished_rows=finished_rows,
        finished_bytes=finished_bytes,
        joins=joins,
        table_rows=sum(t.rows for t in known),
        table_bytes=sum(t.bytes for t in known),
        faults={table: t for table, t in over.items() if t.fault is not None},
    )


def dump_to_text(dump: Dump) -> str:
    """Return the dump as one line of JSON. The text has only the number of finished tables, except
    for those cut short.
    """
    kept = [*dump.left.values(), *(t for t in dump.over.values() if not t.done or t.cut_short)]
    value: dict[str, Any] = {
        "format": FORMAT,
        "id": dump.id,
        "finished": dump.tables_total - len(kept),
        "finished_rows": dump.rows - sum(t.rows for t in kept),
        "finished_bytes": dump.bytes - sum(t.bytes for t in kept),
        "joins": dump.joins,
    }
    if all(t.repairs or t.done for t in kept) and not all(t.done for t in kept):
        # Written once for all tables that are left; a version that does not know the field per
        # table understands this form too.
        value["repairs"] = True
        kept = [replace(t, repairs=False) for t in kept]
    if dump.listed is not None and len(kept) > NAMED_TABLES_MAX:
        stretches, kept = _stretches(dump, kept)
        value |= {"format": FORMAT_LISTED, "list": dump.listed.id, **stretches}
    tables: list[Any] | str = [_table_to_json(t) for t in kept]
    text = _json(tables)
    if len(text) > PLAIN_CHARS_MAX:
        tables = _packed(text)
        if len(tables) > TEXT_CHARS_MAX or len(text.encode()) > UNPACKED_BYTES_MAX or text.count(",") > VALUES_MAX:
            tables = _packed(_json([_table_to_json(t if t.done else replace(t.fresh, chosen=t.chosen)) for t in kept]))
    return _json({**value, "tables": tables})


def _stretches(dump: Dump, tables: Iterable[TableDump]) -> tuple[dict[str, list[list[int]]], list[TableDump]]:
    """Split these tables into those of the dump's list that no reader has started, and all others.

    The first are returned by name (``fresh``) as stretches of the list: first index and count.
    Those of them that are repairs or wait have stretches of their own in addition; versions that do
    not know these ignore them.
    """
    places = {} if dump.listed is None else dump.listed.places
    fresh: list[int] = []
    repaired: list[int] = []
    waiting: list[int] = []
    others: list[TableDump] = []
    for t in tables:
        at = None if t.started or t.chunks or t.done or t.chosen else places.get(t.table)
        if at is None:
            others.append(t)
            continue
        fresh.append(at)
        if t.repairs:
            repaired.append(at)
        if t.waits:
            waiting.append(at)
    found = {"fresh": _as_stretches(fresh)}
    found |= {name: _as_stretches(places_of) for name, places_of in (("repaired", repaired), ("waiting", waiting)) if places_of}
    return found, others


def _as_stretches(places: list[int]) -> list[list[int]]:
    stretches: list[list[int]] = []
    for at in sorted(places):
        if stretches and sum(stretches[-1]) == at:
            stretches[-1][1] += 1
        else:
            stretches.append([at, 1])
    return stretches


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _packed(text: str) -> str:
    return base64.b85encode(zlib.compress(text.encode(), 6)).decode()


def _unpacked(tables: str) -> bytes:
    if len(tables) > PACKED_CHARS_MAX:
        raise DefiniteError(_TOO_LARGE)
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(base64.b85decode(tables), UNPACKED_BYTES_MAX + 1)
    if len(text) <= UNPACKED_BYTES_MAX and not unpacking.eof:
        raise ValueError("the packed list of tables ends too early")
    return text


def _loaded(text: bytes) -> Any:
    if len(text) > UNPACKED_BYTES_MAX or text.count(b",") > VALUES_MAX:
        raise DefiniteError(_TOO_LARGE)
    value = json.loads(text)
    if b"\\u" in text:
        # Half of a surrogate pair can only be written with \u, and this state could not be written
        # again.
        _json(value).encode()
    return value


_TOO_LARGE = (
    f"the offset's field dblog_dump is larger than any dump state that this version writes ({PACKED_CHARS_MAX} characters packed, "
    f"{UNPACKED_BYTES_MAX >> 20} MiB or {VALUES_MAX} values unpacked); reset the connector's offsets to dump again"
)


def list_of_text(text: object) -> str | None:
    """Return the id of the list that a text refers to. Return None if it refers to none or is not a
    dump state.
    """
    try:
        value = _loaded(text.encode()) if isinstance(text, str) else None
    except (ValueError, RecursionError, DefiniteError):
        return None
    return value.get("list") if isinstance(value, dict) and isinstance(value.get("list"), str) else None


def dump_from_text(text: str, lists: Mapping[str, Sequence[TableId]] | None = None) -> Dump:
    """Read a dump from the text of ``dump_to_text``. Raise DefiniteError that names the offset
    field for any other text.

    ``lists`` are the stored lists by id. Raise PositionLostError if the list that the text refers
    to is missing. Without ``lists`` the text is only checked, and the result lacks the tables of a
    list.
    """
    try:
        value = _loaded(text.encode())
        tables = value["tables"]
        if value["format"] not in (FORMAT, FORMAT_LISTED):
            message = (
                f"the offset's field dblog_dump has format {value['format']}, this version reads {FORMAT} and {FORMAT_LISTED}; "
                "use the version that wrote it"
            )
            raise DefiniteError(message)
        if isinstance(tables, str):
            tables = _loaded(_unpacked(tables))
        known = [_table_from_json(t) for t in tables]
        listed = None
        if value["format"] == FORMAT_LISTED:
            listed, fresh = _listed(str(value["list"]), value["fresh"], lists)
            repaired, waiting = (set(_listed(str(value["list"]), value.get(name, []), lists)[1]) for name in ("repaired", "waiting"))
            known += [TableDump(table=table, repairs=table in repaired, waits=table in waiting) for table in fresh]
        if value.get("repairs") is True:
            known = [t if t.done else replace(t, repairs=True) for t in known]
        dump = dump_of(
            value["id"],
            known,
            finished=value["finished"],
            finished_rows=value["finished_rows"],
            finished_bytes=value.get("finished_bytes", 0),
            joins=value["joins"],
        )
        return replace(dump, listed=listed)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error) as e:
        message = "the offset's field dblog_dump is not a dump state; reset the connector's offsets to dump again"
        raise DefiniteError(message) from e


def _listed(identity: str, stretches: Any, lists: Mapping[str, Sequence[TableId]] | None) -> tuple[TableList | None, list[TableId]]:
    """Return the list and its tables in these stretches, which must rise and not overlap."""
    end = 0
    for first, count in stretches:
        if type(first) is not int or type(count) is not int or first < end or count < 1:
            raise ValueError(stretches)
        end = first + count
    if lists is None:
        return None, []
    if identity not in lists or len(lists[identity]) < end:
        raise PositionLostError(
            "the offset's field dblog_dump refers to a list of tables that the schema history topic does not have; "
            f"restore the topic; {LOST_REMEDY}"
        )
    listed = TableList(identity, tuple(lists[identity]))
    return listed, [table for first, count in stretches for table in listed.tables[first : first + count]]


def _table_to_json(t: TableDump) -> dict[str, Any]:
    out: dict[str, Any] = {"table": [t.table.database, t.table.name], "rows": t.rows, "chunks": t.chunks}
    if t.bytes:
        out["bytes"] = t.bytes
    if t.done:
        out["done"] = True
        if t.cut_short:
            out["cut_short"] = True
    elif t.started:
        out["key"] = list(t.key)
        out["upto"] = key_to_json(t.upto)
        if t.after is not None:
            out["after"] = key_to_json(t.after)
        if t.parts:
            out["parts"] = [[key_to_json(one.after), key_to_json(one.upto)] for one in t.parts]
    if t.chosen and not t.done:
        out["chosen"] = True
    if t.repairs and not t.done:
        out["repairs"] = True
    if t.waits and not t.done:
        out["waits"] = True
    return out


def _table_from_json(value: dict[str, Any]) -> TableDump:
    return TableDump(
        table=TableId(*value["table"]),
        state=_state_from_json(value),
        chosen=value.get("chosen", False),
        repairs=value.get("repairs", False),
        waits=value.get("waits", False),
        rows=value["rows"],
        bytes=value.get("bytes", 0),
        chunks=value["chunks"],
    )


def _state_from_json(value: dict[str, Any]) -> TableState:
    if value.get("done", False):
        return CutShort() if value.get("cut_short", False) else Read()
    upto = key_from_json(value.get("upto"))
    if upto is None:
        return UNREAD
    parts = tuple(KeyRange(key_from_json(after), tuple(_value_from_json(v) for v in end)) for after, end in value.get("parts", ()))
    return UnderWay(key=tuple(value.get("key", ())), upto=upto, ranges=parts or (KeyRange(key_from_json(value.get("after")), upto),))


def key_to_json(key: Key | None) -> list[Any] | None:
    """Return key values as JSON that keeps their types: numbers and texts as they are, the others
    as objects with one member.
    """
    return None if key is None else [_value_to_json(v) for v in key]


def key_from_json(value: list[Any] | None) -> Key | None:
    """Return the key that ``key_to_json`` wrote."""
    return None if value is None else tuple(_value_from_json(v) for v in value)


def _value_to_json(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case dt.datetime():
            return {"datetime": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case dt.timedelta():
            return {"micros": value // dt.timedelta(microseconds=1)}
        case _:
            message = f"a key value of type {type(value).__name__} cannot be kept in the dump state"
            raise AssertionError(message)


def _value_from_json(value: Any) -> object:
    if not isinstance(value, dict):
        return value
    ((kind, body),) = value.items()
    readers: dict[str, Any] = {
        "bytes": base64.b64decode,
        "decimal": Decimal,
        "datetime": dt.datetime.fromisoformat,
        "date": dt.date.fromisoformat,
        "micros": lambda n: dt.timedelta(microseconds=n),
    }
    return readers[kind](body)
