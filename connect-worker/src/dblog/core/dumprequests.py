"""An operator's request for a dump: which tables, how, and whether it runs, pauses or stops.

A request is an immutable value. It is parsed strictly, because a misread request may read millions
of rows: an unknown field, or one that has no effect beside another, is refused with the field, the
reason and the remedy. It travels as one JSON object, to the topic of requests and to the task. Each
change gives a request with the next revision, and lower revisions are ignored. The task checks what
only the server knows: whether a table has a key, whether a predicate is SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from dblog.config.regex import REQUEST_INSTRUCTIONS_MAX, Pattern, PatternError, Room, any_of, as_written
from dblog.core.dumps import key_from_json, key_to_json
from dblog.core.table_dump import Key
from dblog.errors import DefiniteError

INITIAL = "initial"
"""Id of the connector's own dump: the first one, and that of tables that join later. It is listed
with the requested dumps, but nobody requests it.
"""

ID_DIGITS = 12

REQUEST_BYTES_MAX = 256 * 1024
"""Size of one request as JSON. A Kafka record has at most a megabyte by default, and each start of
the task passes all requests that have not ended.
"""
TABLES_MAX = 1000
KEYS_MAX = 10_000
KEY_COLUMNS_MAX = 16
COLUMNS_MAX = 4096
"""Number of columns that a MySQL table can have."""
NAME_CHARS_MAX = 64
PREDICATE_CHARS_MAX = 10_000
CHUNK_ROWS_MAX = 10_000_000
DELAY_MS_MAX = 3_600_000
PARALLELISM_MAX = 64
PRIORITY_MAX = 1000
_SHOWN_CHARS = 200


class Mode(StrEnum):
    """The purpose of a dump."""

    ROWS = "rows"
    """Send the rows."""
    REPAIR = "repair"
    """Send the rows; the sink then removes rows that did not come."""
    COLUMNS = "columns"
    """Send the key and some columns."""
    VERIFY = "verify"
    """Send no rows; the sink compares counts and digests."""


WHOLE = frozenset({Mode.REPAIR, Mode.VERIFY})
"""Modes whose dump of a table must cover all its rows: the sink takes missing rows for deleted
ones.
"""


class Order(StrEnum):
    """The order in which tables are started."""

    NAME = "name"
    SIZE = "size"
    AS_GIVEN = "as_given"


class Wanted(StrEnum):
    """The state that the operator wants for a dump, or for one of its tables."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Scope(StrEnum):
    """The part of a table that its dump covers. Only ``TABLE`` covers all rows and columns."""

    TABLE = "table"
    PREDICATE = "predicate"
    KEYS = "keys"
    COLUMNS = "columns"


class DumpStateError(DefiniteError):
    """A valid change that does not fit the state of the dump."""


class UnknownTableError(DefiniteError):
    """The table is not one of the request's tables."""


@dataclass(frozen=True, slots=True)
class SignalOrigin:
    """The signal that caused a request."""

    id: str
    """Id given in the signal; notifications carry it."""
    blocking: bool = False
    """True for a requested blocking snapshot: its notifications are those of one. It is read in
    windows like every dump.
    """


@dataclass(frozen=True, kw_only=True)
class DumpRequest:
    """A request for a dump. Create it with ``parse_request`` or ``request_from_json``, which
    check the fields.

    The class has no slots, so that values computed from its patterns are cached on the instance.
    """

    id: str
    connector: str
    revision: int = 1
    created_ms: int
    requested_by: str
    mode: Mode
    tables: tuple[str, ...]
    """Patterns that match the whole of ``database.table`` without regard to case, as in
    table.include.list. Only captured tables count.
    """
    predicate: Mapping[str, str] = field(default_factory=dict)
    """SQL conditions by pattern of the tables."""
    keys: tuple[Key, ...] | None = None
    """Keys of one table, each with its values in key order; ``core/dumps.py::key_to_json`` writes
    them as JSON.
    """
    columns: tuple[str, ...] | None = None
    surrogate_key: str | None = None
    """Column by which tables are read instead of by their keys (``core/surrogate.py``); None to use
    the keys.
    """
    chunk_rows: int | None = None
    """Rows of a chunk; None if the size adapts."""
    delay_ms: int = 0
    parallelism: int = 1
    priority: int = 0
    """Priority of the dump; a higher one goes first."""
    order: Order = Order.NAME
    wanted: Wanted = Wanted.RUNNING
    tables_wanted: Mapping[str, Wanted] = field(default_factory=dict)
    """PAUSED and STOPPED tables by name."""
    tables_stopped: tuple[str, ...] = ()
    """Patterns of tables that signals have stopped. A few patterns replace what may be thousands of
    names.
    """
    signal: SignalOrigin | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the request as a JSON object with every field. ``tables_stopped`` and ``signal``
        are left out if they are empty.
        """
        return {
            "id": self.id,
            "connector": self.connector,
            "revision": self.revision,
            "created_ms": self.created_ms,
            "requested_by": self.requested_by,
            "mode": self.mode.value,
            "tables": list(self.tables),
            "predicate": dict(self.predicate),
            "keys": None if self.keys is None else [key_to_json(key) for key in self.keys],
            "columns": None if self.columns is None else list(self.columns),
            "surrogate_key": self.surrogate_key,
            "chunk_rows": self.chunk_rows,
            "delay_ms": self.delay_ms,
            "parallelism": self.parallelism,
            "priority": self.priority,
            "order": self.order.value,
            "wanted": self.wanted.value,
            "tables_wanted": {table: wanted.value for table, wanted in self.tables_wanted.items()},
            **({"tables_stopped": list(self.tables_stopped)} if self.tables_stopped else {}),
            **({} if self.signal is None else {"signal": {"id": self.signal.id, "blocking": self.signal.blocking}}),
        }

    @cached_property
    def predicate_of(self) -> Callable[[str], str | None]:
        """Function that returns the SQL condition for a table, given as ``database.table``. The
        first matching pattern decides; None if none matches. Results are cached, because it is
        called for each chunk.
        """
        known = [(Pattern(pattern, ignore_case=True), sql) for pattern, sql in self.predicate.items()]
        return lru_cache(maxsize=TABLES_MAX)(lambda table: next((sql for pattern, sql in known if pattern.fullmatch(table)), None))

    @cached_property
    def stops(self) -> Callable[[str], bool]:
        """Function that returns True if a signal's pattern has stopped a table, given as
        ``database.table``.
        """
        return lru_cache(maxsize=TABLES_MAX)(any_of(self.tables_stopped, ignore_case=True)) if self.tables_stopped else lambda _: False

    def wanted_of(self, table: str) -> Wanted:
        """Return the wanted state of one table, or the state of the whole dump if that is further
        from running.
        """
        of_table = Wanted.STOPPED if self.stops(table) else self.tables_wanted.get(table, Wanted.RUNNING)
        return max(self.wanted, of_table, key=list(Wanted).index)


# ---- making one


def parse_request(body: object, *, id: str, connector: str, created_ms: int, requested_by: str) -> DumpRequest:  # noqa: A002  its name in JSON
    """Parse an operator's JSON body into a request. Raise DefiniteError that names each wrong
    field, the reason and the remedy.
    """
    read = _Reader(body, _ASKED, owner="the worker")
    request = _read(read, id=id, connector=connector, revision=1, created_ms=created_ms, requested_by=requested_by, tables_wanted={})
    if request.wanted is Wanted.STOPPED:
        read.wrong("wanted", "a new dump is RUNNING or PAUSED; do not ask for one that is to be stopped")
    read.end("A dump cannot be requested so")
    size = len(json.dumps(request.to_json(), ensure_ascii=False, separators=(",", ":")).encode())
    if size > REQUEST_BYTES_MAX:
        raise DefiniteError(
            f"The request has {size} bytes, and at most {REQUEST_BYTES_MAX} are allowed; ask for its keys or tables in several dumps"
        )
    return request


def request_from_json(value: object) -> DumpRequest:
    """Read a request that ``to_json`` wrote; ignore fields of later versions. Raise DefiniteError
    if it is not a request.
    """
    read = _Reader(value, None, owner="")
    request = _read(
        read,
        id=read.text("id"),
        connector=read.text("connector"),
        revision=read.number("revision", 1, 1 << 53, 1),
        created_ms=read.number("created_ms", 0, 1 << 53, 0),
        requested_by=read.text("requested_by"),
        tables_wanted=read.tables_wanted(),
    )
    request = replace(request, signal=read.signal(), tables_stopped=read.tables_stopped())
    read.end("The request of a dump cannot be read")
    return request


def changed(request: DumpRequest, body: object) -> DumpRequest:
    """Return the request with another chunk size, delay, parallelism or priority, or the request
    itself if nothing differs. Raise DefiniteError as ``parse_request`` does.
    """
    _require_open(request)
    read = _Reader(body, _CHANGED, owner="")
    if not read.body:
        read.wrong("body", f"there is nothing to change; give one or more of {', '.join(sorted(_CHANGED))}")
    after = replace(request, **{name: value for name, value in _steering(read, request).items() if name in read.body})
    read.end("A dump cannot be changed so")
    return _next(request, after)


def with_wanted(request: DumpRequest, wanted: Wanted) -> DumpRequest:
    """Return the request with another wanted state of the whole dump. Raise DumpStateError if the
    dump is being stopped.
    """
    if wanted is request.wanted:
        return request
    _require_open(request)
    return _next(request, replace(request, wanted=wanted))


def with_table_wanted(request: DumpRequest, table: str, wanted: Wanted, *, tables: Collection[str] | None = None) -> DumpRequest:
    """Return the request with another wanted state of one table.

    One of the request's patterns must match the table. If ``tables`` is given, the table must be
    one of them, either as written or as the only one that differs in case alone, since patterns
    ignore case. Raise UnknownTableError otherwise, and DumpStateError if the dump or the table is
    stopped.
    """
    if tables is not None and table not in tables and selects(request)(table):
        alike = [each for each in tables if each.lower() == table.lower()]
        if len(alike) != 1:
            raise UnknownTableError(
                f"The dump {request.id} has no table {table[:_SHOWN_CHARS]}; GET /connectors/{request.connector}/dumps/{request.id} lists its "
                "tables, each as database.table"
            )
        table = alike[0]
    known = request.tables_wanted.get(table, Wanted.RUNNING)
    if table not in request.tables_wanted and not selects(request)(table):
        raise UnknownTableError(
            f"The dump {request.id} has no table {table[:_SHOWN_CHARS]}: none of its patterns matches that name, which is written database.table "
            f"({listed(request.tables)})"
        )
    if wanted is known:
        return request
    _require_open(request)
    if known is Wanted.STOPPED:
        raise DumpStateError(
            f"The table {table} of the dump {request.id} is stopped, which cannot be taken back; request another dump of it"
        )
    others = {name: each for name, each in request.tables_wanted.items() if name != table}
    return _next(request, replace(request, tables_wanted=others if wanted is Wanted.RUNNING else {**others, table: wanted}))


def with_tables_stopped(request: DumpRequest, patterns: Sequence[str]) -> DumpRequest:
    """Return the request without the tables that match these patterns, or the request itself if it
    has the patterns already.
    """
    added = [each for each in dict.fromkeys(patterns) if each not in request.tables_stopped]
    return _next(request, replace(request, tables_stopped=(*request.tables_stopped, *added))) if added else request


def supersedes(new: DumpRequest, known: DumpRequest | None) -> bool:
    """Return True if the request that arrives replaces the known one."""
    return known is None or new.revision > known.revision


def _require_open(request: DumpRequest) -> None:
    if request.wanted is Wanted.STOPPED:
        raise DumpStateError(f"The dump {request.id} is being stopped, which cannot be taken back; request another one")


def _next(before: DumpRequest, after: DumpRequest) -> DumpRequest:
    return before if after == before else replace(after, revision=before.revision + 1)


# ---- what it means for a table


def selects(request: DumpRequest) -> Callable[[str], bool]:
    """Return a function that tells if a table, given as ``database.table``, is one of the
    request's. Call this once and keep the result: it compiles the patterns.
    """
    return any_of(request.tables, ignore_case=True)


def scope_of(request: DumpRequest, predicate: str | None) -> Scope:
    """Return the part of a table that its dump covers. ``predicate`` is the table's SQL condition,
    or None.
    """
    if request.mode is Mode.COLUMNS:
        return Scope.COLUMNS
    if request.keys is not None:
        return Scope.KEYS
    return Scope.TABLE if predicate is None else Scope.PREDICATE


# ---- reading JSON

_WORKERS = frozenset({"id", "connector", "revision", "created_ms", "requested_by", "tables_wanted", "tables_stopped", "signal"})
"""Fields that the worker sets and no operator may write."""
_CHANGED = frozenset({"chunk_rows", "delay_ms", "parallelism", "priority"})
_ASKED = frozenset(each.name for each in fields(DumpRequest)) - _WORKERS


class _Reader:
    """Reads the fields of one JSON object and collects all errors, so that one answer names them
    all.
    """

    def __init__(self, body: object, known: frozenset[str] | None, *, owner: str) -> None:
        """Check the names of the fields. ``known`` are the allowed ones; None allows all others,
        which are ignored.
        """
        self._errors: dict[str, str] = {}
        self.body: Mapping[str, Any] = body if isinstance(body, dict) else {}
        if not isinstance(body, dict):
            self.wrong("body", 'it must be a JSON object, such as {"tables": ["inventory\\\\.orders"]}')
        for name in sorted(self.body.keys() - known) if known is not None else ():
            if owner and name in _WORKERS:
                self.wrong(name, f"it is set by {owner}; leave it out")
            elif name in _ASKED:
                self.wrong(name, _UNCHANGED.get(name, "it stays as it is while the dump runs; stop this one and request another"))
            else:
                self.wrong(str(name)[:NAME_CHARS_MAX], f"there is no such field; there are {', '.join(sorted(known or ()))}")

    def wrong(self, name: str, text: str) -> None:
        if "body" not in self._errors:
            self._errors.setdefault(name, text)

    def end(self, prefix: str) -> None:
        if self._errors:
            raise DefiniteError(f"{prefix}. {'. '.join(f'{name}: {text}' for name, text in self._errors.items())}")

    def text(self, name: str) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            self.wrong(name, "it must be a text")
            return ""
        return value

    def number(self, name: str, low: int, high: int, default: int) -> int:
        value = self.body.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.wrong(name, f"it must be a whole number from {low} to {high}")
            return default
        return value

    def choice(self, name: str, choices: type[StrEnum], default: Any) -> Any:
        value = self.body.get(name, default.value)
        if not isinstance(value, str) or value not in set(choices):
            self.wrong(name, f"it must be one of {', '.join(choices)}")
            return default
        return choices(value)

    def texts(self, name: str, *, most: int, chars: int, what: str, example: str = "") -> tuple[str, ...]:
        """Return a non-empty list of texts, stripped. Note an error and return () if the field is
        wrong.
        """
        value = self.body.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(each, str) and each.strip() for each in value):
            self.wrong(name, f"it must be a list of {what}, at least one{example and f', such as {example}'}")
            return ()
        if len(value) > most:
            self.wrong(name, f"it has {len(value)} {what}, and at most {most} are allowed")
            return ()
        if any(len(each) > chars for each in value):
            self.wrong(name, f"one of its {what} has more than {chars} characters")
            return ()
        return tuple(each.strip() for each in value)

    def patterns(self, name: str) -> tuple[str, ...]:
        texts = self.texts(name, most=TABLES_MAX, chars=PREDICATE_CHARS_MAX, what="patterns", example='["inventory\\\\.orders"]')
        return texts if self._usable(name, texts) else ()

    def predicate(self) -> dict[str, str]:
        value = self.body.get("predicate", {})
        if not isinstance(value, dict) or not all(isinstance(sql, str) and sql.strip() for sql in value.values()):
            self.wrong("predicate", 'it must be a JSON object of SQL by pattern, such as {"inventory\\\\.orders": "status = \'open\'"}')
            return {}
        if len(value) > TABLES_MAX or any(len(sql) > PREDICATE_CHARS_MAX for sql in value.values()):
            self.wrong("predicate", f"at most {TABLES_MAX} of them are allowed, with {PREDICATE_CHARS_MAX} characters each")
            return {}
        if any("\0" in sql for sql in value.values()):
            self.wrong("predicate", "one has a NUL character, which no SQL can have; leave it out")
            return {}
        stripped = {pattern.strip(): sql for pattern, sql in value.items()}
        if len(stripped) < len(value):
            self.wrong("predicate", "two of its patterns are the same but for blanks; leave one out")
            return {}
        return stripped if self._usable("predicate", stripped) else {}

    def _usable(self, name: str, patterns: Iterable[str]) -> bool:
        try:
            any_of(patterns, ignore_case=True, room=Room(REQUEST_INSTRUCTIONS_MAX))
        except PatternError as e:
            self.wrong(name, str(e))
            return False
        return True

    def keys(self) -> tuple[Key, ...] | None:
        value = self.body.get("keys")
        if value is None:
            return None
        if not isinstance(value, list) or not value or not all(isinstance(key, list) and key for key in value):
            self.wrong("keys", "it must be a list of keys, each a list of values in the order of the table's key, such as [[1], [2]]")
            return None
        if len(value) > KEYS_MAX:
            self.wrong("keys", f"it has {len(value)} keys, and at most {KEYS_MAX} are allowed; request several dumps, or use a predicate")
            return None
        if len({len(key) for key in value}) > 1 or len(value[0]) > KEY_COLUMNS_MAX:
            self.wrong(
                "keys", f"each key must have a value for each column of the table's key, of which there are at most {KEY_COLUMNS_MAX}"
            )
            return None
        keys = tuple(_key(key) for key in value)
        if any(key is None for key in keys):
            self.wrong(
                "keys",
                f'each value must be a number or a text, or for other types an object with one member: {", ".join(_KEY_KINDS)} ({{"bytes": "q80="}})',
            )
            return None
        return tuple(key for key in keys if key is not None)

    def column(self, name: str) -> str | None:
        """Return the name of one column, or None if the field is absent or wrong."""
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or len(value.strip()) > NAME_CHARS_MAX:
            self.wrong(name, f"it must be the name of a column, of at most {NAME_CHARS_MAX} characters")
            return None
        return value.strip()

    def tables_wanted(self) -> dict[str, Wanted]:
        value = self.body.get("tables_wanted", {})
        if not isinstance(value, dict) or not all(isinstance(each, str) and each in set(Wanted) for each in value.values()):
            self.wrong("tables_wanted", "it must be a JSON object of states by table")
            return {}
        return {table: Wanted(each) for table, each in value.items() if each != Wanted.RUNNING}

    def tables_stopped(self) -> tuple[str, ...]:
        value = self.body.get("tables_stopped", [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.wrong("tables_stopped", "it must be a list of patterns")
            return ()
        try:
            any_of(value, ignore_case=True, room=Room(REQUEST_INSTRUCTIONS_MAX))
        except PatternError as e:
            self.wrong("tables_stopped", str(e))
            return ()
        return tuple(value)

    def signal(self) -> SignalOrigin | None:
        match self.body.get("signal"):
            case None:
                return None
            case {"id": str(identity), "blocking": bool(blocking)}:
                return SignalOrigin(identity, blocking)
            case _:
                self.wrong("signal", "it must have the id of a signal, and whether it is a blocking one")
                return None


_UNCHANGED = {"wanted": "it is not changed so; use pause, resume or stop"}
_KEY_KINDS = ("bytes", "decimal", "datetime", "date", "micros")


def _key(values: Sequence[object]) -> Key | None:
    """Return the key of a list of JSON values. Return None if one of them cannot be a key value;
    NULL cannot, since no column of a usable key allows it.
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | str | dict):
            return None
        if isinstance(value, dict) and (len(value) != 1 or next(iter(value)) not in _KEY_KINDS):
            return None
    try:
        return key_from_json(list(values))
    except (ValueError, TypeError, ArithmeticError):
        return None


def _steering(read: _Reader, before: DumpRequest | None) -> dict[str, Any]:
    """Read the fields that may change while a dump runs. A missing field gets its value of
    ``before``, or the default.
    """
    adapts = read.body.get("chunk_rows", None if before is None else before.chunk_rows) is None
    return {
        "chunk_rows": None if adapts else read.number("chunk_rows", 1, CHUNK_ROWS_MAX, 1 if before is None else before.chunk_rows or 1),
        "delay_ms": read.number("delay_ms", 0, DELAY_MS_MAX, 0 if before is None else before.delay_ms),
        "parallelism": read.number("parallelism", 1, PARALLELISM_MAX, 1 if before is None else before.parallelism),
        "priority": read.number("priority", -PRIORITY_MAX, PRIORITY_MAX, 0 if before is None else before.priority),
    }


def _read(
    read: _Reader,
    *,
    id: str,  # noqa: A002  its name in JSON
    connector: str,
    revision: int,
    created_ms: int,
    requested_by: str,
    tables_wanted: Mapping[str, Wanted],
) -> DumpRequest:
    columns = read.body.get("columns")
    request = DumpRequest(
        id=id,
        connector=connector,
        revision=revision,
        created_ms=created_ms,
        requested_by=requested_by,
        mode=read.choice("mode", Mode, Mode.ROWS),
        tables=read.patterns("tables"),
        predicate=read.predicate(),
        keys=read.keys(),
        columns=None if columns is None else read.texts("columns", most=COLUMNS_MAX, chars=NAME_CHARS_MAX, what="columns' names"),
        surrogate_key=read.column("surrogate_key"),
        order=read.choice("order", Order, Order.NAME),
        wanted=read.choice("wanted", Wanted, Wanted.RUNNING),
        tables_wanted=tables_wanted,
        **_steering(read, None),
    )
    _check_together(request, read)
    return request


def _check_together(request: DumpRequest, read: _Reader) -> None:
    """Note an error for each field that conflicts with another one."""
    if request.keys is not None and len(request.tables) > 1:
        read.wrong("keys", "keys belong to one table, and there are several patterns; name that table alone, or request a dump for each")
    if request.keys is not None and request.predicate:
        read.wrong("predicate", "rows are chosen by keys already; leave one of the two out")
    if request.surrogate_key is not None and request.keys is not None:
        read.wrong("surrogate_key", "rows are chosen by keys, and read by these; leave one of the two out")
    if request.surrogate_key is not None and request.mode is Mode.VERIFY:
        read.wrong(
            "surrogate_key", "a row whose value changes meanwhile would be compared twice; leave it out, or use the mode rows or repair"
        )
    if request.mode in (Mode.REPAIR, Mode.VERIFY):
        for name in ("predicate", "keys"):
            if getattr(request, name):
                read.wrong(
                    name,
                    f"a {request.mode} covers all rows of a table, for the sink could not know which of its rows are out of scope; leave it out, or use the "
                    "mode rows",
                )
    if request.mode is Mode.COLUMNS and request.columns is None:
        read.wrong("columns", "the mode columns sends the key and these columns; name at least one")
    if request.mode is not Mode.COLUMNS and request.columns is not None:
        read.wrong("columns", f"the mode {request.mode} is about whole rows; leave it out, or use the mode columns")
    if request.columns and len({column.lower() for column in request.columns}) < len(request.columns):
        read.wrong("columns", "a column is named twice; name each once")


def listed(patterns: Sequence[str]) -> str:
    """Return the first three patterns as they were given, and the number of the others."""
    shown = ", ".join(as_written(pattern) for pattern in patterns[:3])
    return shown + (f", and {len(patterns) - 3} more" if len(patterns) > 3 else "")  # noqa: PLR2004
