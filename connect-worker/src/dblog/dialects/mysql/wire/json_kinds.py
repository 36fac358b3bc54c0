"""The values inside a dumped JSON document whose kind its text hides, and the document's final text
after the server has named the kinds.

The log has a JSON column in binary, with the kind of every value. A result set has the server's
text, in which a DECIMAL looks like a DOUBLE, a DATETIME like a string of its shape, a BLOB like a
string of base64. Most texts have the same final form for every possible kind (a number below 10
million, a string of any other shape). Only values with different final forms are doubtful. For
these the server is asked in the chunk's own snapshot: ``JSON_TYPE(JSON_EXTRACT(column, path))``. A
document without a doubtful value, which is nearly every one, costs one pass over its bytes
(``_fast.json_doubts``, whose reference implementation is ``doubtful_rows``).

Rule sources: Json_wrapper::to_string and Json_opaque in sql-common/json_dom.cc print (fractions
with six digits, opaque values as ``base64:type<field type>:``); binary_json.py decides the final
form of each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dblog.dialects.mysql.catalog import sql
from dblog.dialects.mysql.values import binary_json
from dblog.dialects.mysql.wire import protocol
from dblog.dialects.mysql.wire.protocol import ResultColumn
from dblog.errors import TransientError
from dblog.model import Table
from dblog.ports import ChunkRows

JSON_TYPE_CODE = 245

PATHS_MAX = 400
"""The most paths in one statement."""
_KIND = ResultColumn(name="", type_code=253, collation=45, length=0, flags=0, decimals=0)
"""The column definition of an answer: a text."""
ANSWERS_MAX = 50_000
"""The most answers (rows times paths) of one statement. Rows of similar shape are asked together,
dissimilar ones one by one.
"""

Select = Callable[[str, Sequence[Any]], ChunkRows]
"""A function that runs a statement in the chunk's snapshot."""

ColumnPath = tuple[int, str]
"""A column's index in the row, and a path inside its document."""

_TOKEN = re.compile(rb'[ \t\r\n]*(?:("(?:[^"\\]|\\.)*")|(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(true|false|null)|([{}\[\],:]))', re.DOTALL)
_DOUBTFUL_TEXT = re.compile(rb'"(?:base64:type\d.*|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}|-?\d{2,3}:\d\d:\d\d\.\d{6})"', re.DOTALL)


def doubts(text: bytes) -> dict[str, bytes]:
    """Return the doubtful values of a document: path -> token. Empty for text that is not JSON."""
    return {path: token for path, token, _ in _values(text) if _doubtful(token)}


def with_final_text(text: bytes, kinds: Mapping[str, str]) -> bytes | None:
    """Return the document's final text, marked as such, if the kind of a value is not the one that
    its text suggests; else None.
    """
    out: list[bytes] = []
    at = 0
    for path, token, start in _values(text):
        kind = kinds.get(path)
        final = None if kind is None else _final(token, kind)
        if final is not None:
            out += (binary_json.text_of_text(text[at:start]).encode() if at < start else b"", final)
            at = start + len(token)
    if not out:
        return None
    rest = binary_json.text_of_text(text[at:]).encode() if at < len(text) else b""
    return binary_json.FINAL + b"".join(out) + rest


def _doubtful(token: bytes) -> bool:
    if token[:1] == b'"':
        return _DOUBTFUL_TEXT.fullmatch(token) is not None
    return binary_json.differs_as_double(token.decode())


def _final(token: bytes, kind: str) -> bytes | None:
    """Return the final text of a value of that kind; None if it is what
    ``binary_json.text_of_text`` makes of the token.
    """
    if token[:1] != b'"':
        return token if kind == "DECIMAL" else None
    if kind in ("DATETIME", "TIMESTAMP", "TIME"):
        return token[:-1].rstrip(b"0").rstrip(b".") + b'"'
    return token if kind == "STRING" and token.startswith(b'"base64:') else None


def _values(text: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Yield (path, token, start) of every scalar. A member's name is the same in path and text,
    since both are JSON strings.
    """
    stack: list[tuple[str, int]] = []
    """The path of each open container, and the index of its next element (-1 in an object)."""
    at, end = 0, len(text.rstrip(b" \t\r\n"))
    name: str | None = None
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            return
        at = match.end()
        string, number, literal, sign = match.groups()
        if sign is None and string is not None and name is None and stack and stack[-1][1] < 0:
            name = string.decode()
        elif sign in (None, b"{", b"["):
            path = "$"
            if stack:
                above, index = stack[-1]
                path = f"{above}.{name}" if index < 0 else f"{above}[{index}]"
            name = None
            if sign is None:
                token = string or number or literal
                yield path, token, at - len(token)
            else:
                stack.append((path, -1 if sign == b"{" else 0))
        elif sign == b"," and stack and stack[-1][1] >= 0:
            above, index = stack[-1]
            stack[-1] = above, index + 1
        elif sign in (b"}", b"]") and stack:
            stack.pop()


# -- rows of a chunk -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """A row with doubtful values."""

    number: int
    start: int
    payload: bytes
    documents: tuple[tuple[int, int, int, int], ...]
    """The documents of the row: of each its column, the offset of its length, its start and end."""
    doubts: tuple[ColumnPath, ...]


def doubtful_rows(rows: bytes, types: bytes) -> list[tuple[int, int]]:
    """Return number and offset of each row whose documents may hold doubtful values; ``types`` are
    the wire types of the columns.
    """
    found = []
    number = at = 0
    while at < len(rows):
        payload = protocol.join_row(rows, at)
        if any(doubts(payload[start:end]) for _, _, start, end in _documents(payload, types)):
            found.append((number, at))
        at = _row_end(rows, at)
        number += 1
    return found


def chunk_with_final_texts(
    chunk: ChunkRows,
    table: Table,
    after: Sequence[Any] | None,
    *,
    columns: Sequence[ResultColumn],
    doubtful: Callable[[bytes, bytes], list[tuple[int, int]]],
    select: Select,
    where: str | None = None,
) -> ChunkRows:
    """Return a chunk in which documents with doubtful values have their final text. Raise the
    errors of ``select``.

    The chunk was read after the key ``after``, from the rows that meet ``where``.
    """
    types = bytes(column.type_code for column in columns)
    if JSON_TYPE_CODE not in types:
        return chunk
    candidates = (_row(chunk.rows, number, at, types) for number, at in doubtful(chunk.rows, types))
    rows = [row for row in candidates if row.doubts]
    if not rows:
        return chunk
    # Without a key that can be bound again a range cannot begin in the middle, so rows are counted
    # from the chunk's start.
    key = sql.key_indexes(table) if table.key and sql.row_has_bound(table) else ()

    def key_before(number: int) -> Sequence[Any] | None:
        if number == 0:
            return after
        at = 0
        for _ in range(number - 1):
            at = _row_end(chunk.rows, at)
        return protocol.row_values(protocol.join_row(chunk.rows, at), columns, key)

    kinds: dict[int, dict[ColumnPath, str]] = {}
    for first, count, column_paths in _questions(rows, keyed=bool(key)):
        if key:
            statement, parameters = sql.json_kinds(table, column_paths, key_before(first), count, where=where)
        else:
            statement, parameters = sql.json_kinds(table, column_paths, after, first + count, where=where)
        answer = select(statement, parameters)
        _take(answer, rows, column_paths, first if key else 0, kinds)
    return _rewritten(chunk, rows, kinds)


def rows_with_final_texts(
    chunk: ChunkRows,
    table: Table,
    keys: Sequence[Sequence[Any]],
    *,
    columns: Sequence[ResultColumn],
    doubtful: Callable[[bytes, bytes], list[tuple[int, int]]],
    select: Select,
) -> ChunkRows:
    """Return the rows of some keys (``sql.rows_by_key``) with the final text of every document.
    Raise the errors of ``select``.
    """
    types = bytes(column.type_code for column in columns)
    if JSON_TYPE_CODE not in types:
        return chunk
    candidates = (_row(chunk.rows, number, at, types) for number, at in doubtful(chunk.rows, types))
    rows = [row for row in candidates if row.doubts]
    if not rows:
        return chunk
    kinds: dict[int, dict[ColumnPath, str]] = {}
    for _, _, column_paths in _cut(0, 0, tuple(dict.fromkeys(column_path for row in rows for column_path in row.doubts))):
        statement, parameters = sql.json_kinds_by_key(table, column_paths, keys)
        _take(select(statement, parameters), rows, column_paths, 0, kinds)
    return _rewritten(chunk, rows, kinds)


def _questions(rows: Sequence[_Row], *, keyed: bool) -> Iterator[tuple[int, int, tuple[ColumnPath, ...]]]:
    """Yield (number of the first row, count of rows, column paths) of each statement. Without a key
    there is no range, so rows count from the table's start.
    """
    first, last, column_paths = 0, -1, dict.fromkeys(rows[0].doubts)
    for row in rows:
        more = column_paths | dict.fromkeys(row.doubts)
        span = row.number - (first if keyed else 0) + 1
        if last >= 0 and (len(more) > PATHS_MAX or len(more) * span > ANSWERS_MAX):
            yield from _cut(first, last - first + 1, tuple(column_paths))
            first, more = row.number, dict.fromkeys(row.doubts)
        elif last < 0:
            first = row.number
        last, column_paths = row.number, more
    yield from _cut(first, last - first + 1, tuple(column_paths))


def _cut(first: int, count: int, column_paths: tuple[ColumnPath, ...]) -> Iterator[tuple[int, int, tuple[ColumnPath, ...]]]:
    for start in range(0, len(column_paths), PATHS_MAX):
        yield first, count, column_paths[start : start + PATHS_MAX]


def _take(
    answer: ChunkRows, rows: Sequence[_Row], column_paths: Sequence[ColumnPath], first: int, kinds: dict[int, dict[ColumnPath, str]]
) -> None:
    """Note the kinds for the rows that asked for them."""
    asking = {row.number: row for row in rows}
    columns, number, at = [_KIND] * len(column_paths), first, 0
    index = {column_path: i for i, column_path in enumerate(column_paths)}
    while at < len(answer.rows):
        row = asking.get(number)
        if row is not None:
            named = protocol.row_values(protocol.join_row(answer.rows, at), columns, range(len(column_paths)))
            own = kinds.setdefault(number, {})
            for column_path in row.doubts:
                if column_path in index:
                    kind = named[index[column_path]]
                    if kind is None:
                        message = "a JSON document has no value where its text has one: a chunk was not read twice alike"
                        raise TransientError(message)
                    own[column_path] = kind
        at = _row_end(answer.rows, at)
        number += 1


def _rewritten(chunk: ChunkRows, rows: Sequence[_Row], kinds: Mapping[int, Mapping[ColumnPath, str]]) -> ChunkRows:
    out: list[bytes] = []
    at = 0
    for row in rows:
        own = kinds.get(row.number, {})
        if any(column_path not in own for column_path in row.doubts):
            message = "a chunk's rows were fewer when the kinds of their JSON values were asked for"
            raise TransientError(message)
        payload = _with_final_texts(row, own)
        if payload is not None:
            out += (chunk.rows[at : row.start], protocol.packets(payload))
            at = _row_end(chunk.rows, row.start)
    if not out:
        return chunk
    out.append(chunk.rows[at:])
    return ChunkRows(rows=b"".join(out), row_count=chunk.row_count, last_key=chunk.last_key)


def _with_final_texts(row: _Row, kinds: Mapping[ColumnPath, str]) -> bytes | None:
    out: list[bytes] = []
    at = 0
    for column, length_at, start, end in row.documents:
        final = with_final_text(row.payload[start:end], {path: kind for (c, path), kind in kinds.items() if c == column})
        if final is not None:
            out += (row.payload[at:length_at], protocol.length_encoded(final))
            at = end
    return b"".join([*out, row.payload[at:]]) if out else None


def _row(rows: bytes, number: int, start: int, types: bytes) -> _Row:
    payload = protocol.join_row(rows, start)
    documents = tuple(_documents(payload, types))
    found = tuple((column, path) for column, _, begin, end in documents for path in doubts(payload[begin:end]))
    return _Row(number, start, payload, documents, found)


def _documents(payload: bytes, types: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the documents of a row packet; see ``_Row.documents``."""
    at = 1 + (len(types) + 9) // 8
    for column, code in enumerate(types):
        if payload[1 + ((column + 2) >> 3)] >> ((column + 2) & 7) & 1:
            continue
        width = protocol.FIXED_BYTES.get(code)
        if width is not None:
            at += width
            continue
        length_at = at
        n, at = protocol.read_length(payload, at)
        if code == JSON_TYPE_CODE:
            yield column, length_at, at, at + n
        at += n


def _row_end(rows: bytes, at: int) -> int:
    while True:
        n = int.from_bytes(rows[at : at + 3], "little")
        at += 4 + n
        if n < protocol.PACKET_BYTES_MAX:
            return at
