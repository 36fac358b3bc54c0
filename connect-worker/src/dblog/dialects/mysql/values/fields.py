"""The conversion of one field's bytes to a value in Connect's value space, for row images of the
log and for binary result sets.

The caller has cut the field out of its row (binlog/row_image.py), without its length prefix. None
stands for an impossible date such as 0000-00-00 or the 31st of February. Rule sources: MySQL's
Field_*::pack and my_*_from_binary (sql/field.cc, mysys), "Binary Protocol Value" of the client
protocol, MariaDB's sql_type_uuid.h and sql_type_inet.cc. The extension repeats the common
conversions in C and calls these for the rest.
"""

from __future__ import annotations

import calendar
import re
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Context, Decimal
from struct import unpack, unpack_from
from typing import Any, NamedTuple

from dblog.codecs.plan import ColumnPlan, Form, Source
from dblog.dialects.mysql.values import binary_json, charsets
from dblog.dialects.mysql.values.decimals import packed_decimal, unscaled_bytes
from dblog.dialects.mysql.values.types import canonical_type
from dblog.errors import DefiniteError
from dblog.model import Column

Read = Callable[[bytes], Any]

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROS_PER_DAY = 86_400_000_000
_EXACT = Context(prec=100)
"""Arithmetic that keeps all 65 digits; the default context rounds at 28."""
_THREE_DIGITS = 100
_FIRST_OF_1900 = 70
"""The first two-digit year of the 1900s: 70 is 1970, 69 is 2069 (MySQL manual, 2-Digit Years in
Dates).
"""
_INTEGERS = frozenset({Source.INT8, Source.INT16, Source.INT24, Source.INT32, Source.INT64})


class Moment(NamedTuple):
    """A calendar date, and the microseconds of its day."""

    year: int
    month: int
    day: int
    micros: int = 0

    @property
    def possible(self) -> bool:
        """True if the calendar has this day; year 0 counts as a year."""
        if not 1 <= self.month <= 12 or self.day < 1 or self.year > 9999:  # noqa: PLR2004 - months; the server's last year
            return False
        return self.day <= _days_in_month(self.year, self.month)

    @property
    def days(self) -> int:
        """Days since 1970-01-01 in the proleptic Gregorian calendar."""
        # Python's calendar starts with year 1; year 0 is a leap year of 366 days before it.
        if self.year == 0:
            return date(4, self.month, self.day).toordinal() - date(4, 1, 1).toordinal() + 1 - 366 - _EPOCH_DAY
        return date(self.year, self.month, self.day).toordinal() - _EPOCH_DAY


def _days_in_month(year: int, month: int) -> int:
    return 29 if month == 2 and year == 0 else calendar.monthrange(year or 4, month)[1]  # noqa: PLR2004 - February


def log_value(column: ColumnPlan, declared: Column, *, where: str) -> Read:
    """Return the reader of the column's field in a row image. Raise DefiniteError for a charset
    that cannot be decoded.
    """
    if column.compressed:
        inflated = log_value(replace(column, compressed=False), declared, where=where)
        return lambda raw: inflated(inflate(raw, where))
    convert = _form(column, where)
    if column.adjust_years:
        unadjusted = convert
        convert = lambda moment: unadjusted(_year_adjusted(moment))  # noqa: E731
    match column.source:
        case source if source in _INTEGERS:
            unsigned = column.unsigned
            return lambda raw: convert(int.from_bytes(raw, "little", signed=not unsigned))
        case Source.FLOAT:
            return lambda raw: unpack("<f", raw)[0]
        case Source.DOUBLE:
            return lambda raw: unpack("<d", raw)[0]
        case Source.DECIMAL:
            precision, scale = column.length, column.scale
            return lambda raw: convert(packed_decimal(raw, precision, scale))
        case Source.YEAR:
            return lambda raw: convert(raw[0] + 1900 if raw[0] else 0)
        case Source.DATE:
            return lambda raw: _dated(_date3(raw), convert)
        case Source.TIME:
            return lambda raw: convert(_time2(raw))
        case Source.TIME_OLD:
            return lambda raw: convert(_time_old(raw))
        case Source.DATETIME:
            return lambda raw: _dated(_datetime2(raw), convert)
        case Source.DATETIME_OLD:
            return lambda raw: _dated(_datetime_old(raw), convert)
        case Source.TIMESTAMP:
            return lambda raw: _dated(_timestamp2(raw), convert)
        case Source.TIMESTAMP_OLD:
            return lambda raw: _dated(_epoch(int.from_bytes(raw, "little"), 0), convert)
        case Source.BIT:
            return convert
        case Source.TEXT:
            decode = charsets.decoder(column.charset, where=where)
            if canonical_type(declared) == "char":
                return lambda raw: decode(raw).rstrip(" ")
            return decode
        case Source.BINARY:
            width = padded_width(declared)
            return lambda raw: convert(raw.ljust(width, b"\x00"))
        case Source.ENUM:
            members = ("", *column.members)
            return lambda raw: _member(members, int.from_bytes(raw, "little"), where)
        case Source.SET:
            return lambda raw: _set_text(column.members, int.from_bytes(raw, "little"), where)
        case Source.JSON:
            return binary_json.text_of_binary
        case Source.UUID:
            return lambda raw: uuid_text(raw.ljust(16, b"\x00"))
        case Source.INET4:
            return lambda raw: ".".join(map(str, raw.ljust(4, b"\x00")))
        case Source.INET6:
            return lambda raw: inet6_text(raw.ljust(16, b"\x00"))
        case _:  # GEOMETRY, VECTOR
            return convert


def statement_value(column: ColumnPlan, declared: Column, *, where: str) -> Read:
    """Return the reader of a key column's field in a row image, for use as a statement's parameter
    (see ``protocol.execute``, ``sql``).

    A text is read as its bytes in the column's charset. Raise DefiniteError for a type that no
    statement can look up.
    """
    match column.source:
        case source if source in _INTEGERS:
            return lambda raw: int.from_bytes(raw, "little", signed=not column.unsigned)
        case Source.DECIMAL:
            precision, scale = column.length, column.scale
            return lambda raw: Decimal(packed_decimal(raw, precision, scale)).scaleb(-scale, _EXACT)
        case Source.YEAR:
            return lambda raw: raw[0] + 1900 if raw[0] else 0
        case Source.BIT:
            return lambda raw: int.from_bytes(raw, "big")
        case Source.DATE:
            return lambda raw: "{:04d}-{:02d}-{:02d}".format(*_date3(raw))
        case Source.TIME:
            return lambda raw: timedelta(microseconds=_time2(raw))
        case Source.TIME_OLD:
            return lambda raw: timedelta(microseconds=_time_old(raw))
        case Source.DATETIME:
            return lambda raw: _moment_text(_datetime2(raw))
        case Source.DATETIME_OLD:
            return lambda raw: _moment_text(_datetime_old(raw))
        case Source.TIMESTAMP:
            return lambda raw: _moment_text(_timestamp2(raw))
        case Source.TIMESTAMP_OLD:
            return lambda raw: _moment_text(_epoch(int.from_bytes(raw, "little"), 0))
        case Source.TEXT:
            # Some characters do not exist in Unicode; sql.py has the server take the bytes in the
            # column's charset.
            return bytes
        case Source.BINARY:
            width = padded_width(declared)
            return lambda raw: raw.ljust(width, b"\x00")
        case Source.FLOAT | Source.DOUBLE | Source.ENUM | Source.SET | Source.UUID | Source.INET4 | Source.INET6:
            return log_value(column, declared, where=where)
        case _:
            message = f"{where}: a key of this type cannot be looked up; run SET GLOBAL binlog_row_image=FULL on the source"
            raise DefiniteError(message)


def _moment_text(moment: Moment) -> str:
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d} {_clock(moment.micros, 6)}"


def result_value(column: ColumnPlan, declared: Column, *, where: str) -> Read:
    """Return the reader of the column's field in a row of a binary result set, where text is
    utf8mb4 and times are UTC.
    """
    convert = _form(column, where)
    if column.adjust_years:
        unadjusted = convert
        convert = lambda moment: unadjusted(_year_adjusted(moment))  # noqa: E731
    match column.source:
        case source if source in _INTEGERS or source is Source.YEAR:
            unsigned = column.unsigned
            return lambda raw: convert(int.from_bytes(raw, "little", signed=not unsigned))
        case Source.FLOAT:
            return lambda raw: unpack("<f", raw)[0]
        case Source.DOUBLE:
            return lambda raw: unpack("<d", raw)[0]
        case Source.DECIMAL:
            scale = column.scale
            return lambda raw: convert(int(Decimal(_decimal_text(raw, scale)).scaleb(scale, _EXACT)))
        case Source.DATE | Source.DATETIME | Source.DATETIME_OLD | Source.TIMESTAMP | Source.TIMESTAMP_OLD:
            return lambda raw: _dated(_packed_datetime(raw), convert)
        case Source.TIME | Source.TIME_OLD:
            return lambda raw: convert(_packed_time(raw))
        case Source.TEXT:
            if canonical_type(declared) == "char":
                return lambda raw: raw.decode("utf-8", "replace").rstrip(" ")
            return lambda raw: raw.decode("utf-8", "replace")
        case Source.ENUM | Source.SET | Source.UUID | Source.INET4 | Source.INET6:
            return lambda raw: raw.decode("utf-8", "replace")
        case Source.BINARY:
            width = padded_width(declared)
            return lambda raw: convert(raw.ljust(width, b"\x00"))
        case Source.JSON:
            return binary_json.text_of_text
        case _:  # BIT, GEOMETRY, VECTOR
            return convert


_RAW, _ZLIB = 0, 8
NOT_PACKED = b"\x00"
"""The prefix of a value that a compressed column stores uncompressed."""

_WITHOUT_HEADER = 8


def inflate(raw: bytes, where: str) -> bytes:
    """Return the value of a compressed column's field (MariaDB's field.cc, compress_zlib).

    The first byte has the method in its upper half, then come the size and the data. A short value
    is stored unchanged after the first byte; an empty one has no bytes at all.
    """
    if not raw:
        return raw
    method, size_bytes = raw[0] >> 4, raw[0] & 7
    if method == _RAW:
        return raw[1:]
    size = int.from_bytes(raw[1 : 1 + size_bytes], "big")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if raw[0] & _WITHOUT_HEADER else zlib.MAX_WBITS)
    try:
        value = unpacker.decompress(raw[1 + size_bytes :], size + 1) if method == _ZLIB and size else b""
    except zlib.error as e:
        raise DefiniteError(f"{where}: a value of a compressed column is damaged") from e
    if len(value) != size or not unpacker.eof:
        raise DefiniteError(f"{where}: a value of a compressed column is damaged, or compressed by an unknown method ({method})")
    return value


def padded_width(declared: Column) -> int:
    """Return the n of BINARY(n), whose values lose trailing zero bytes in the log; 0 for types
    without padding, and for BINARY(0).
    """
    if canonical_type(declared) != "binary":
        return 0
    return 1 if declared.length is None else declared.length


# --- forms ----------------------------------------------------------------------------------------


def _form(column: ColumnPlan, where: str) -> Callable[[Any], Any]:
    """Return the function from the intermediate value (an int, a Moment, bytes) to Connect's value."""
    scale, digits = column.scale, column.length
    timelike = column.source in (Source.TIME, Source.TIME_OLD)
    match column.form:
        case Form.INT | Form.UNSIGNED_WRAPPED:
            return _wrapped if column.source is Source.INT64 and column.unsigned else _same
        case Form.BOOLEAN:
            return lambda v: any(v) if isinstance(v, bytes) else bool(v)
        case Form.DECIMAL:
            return unscaled_bytes
        case Form.DECIMAL_TEXT:
            return lambda v: f"{Decimal(v).scaleb(-scale, _EXACT):f}"
        case Form.DECIMAL_DOUBLE:
            return lambda v: float(Decimal(v).scaleb(-scale, _EXACT))
        case Form.DAYS:
            return lambda m: m.days
        case Form.ISO_DATE:
            return lambda m: f"{m.year:04d}-{m.month:02d}-{m.day:02d}Z"
        case Form.MILLIS:
            return _of_day(lambda v: v // 1000, column, where) if timelike else (lambda m: _micros(m) // 1000)
        case Form.MICROS:
            return _same if timelike else _micros
        case Form.NANOS:
            return (lambda v: v * 1000) if timelike else (lambda m: _java_long(_micros(m) * 1000))
        case Form.ISO_TIME:
            return _of_day(iso_time, column, where)
        case Form.ISO_TIMESTAMP:
            return lambda m: iso_timestamp(m, None)
        case Form.ZONED_TIMESTAMP:
            return lambda m: iso_timestamp(m, digits)
        case Form.BITS:
            return lambda raw: raw[::-1]
        case Form.BASE64:
            return lambda raw: b64encode(raw).decode()
        case Form.BASE64_URL:
            return lambda raw: urlsafe_b64encode(raw).decode()
        case Form.HEX:
            return lambda raw: raw.hex()
        case Form.POINT:
            return lambda raw: _point(raw, where) if raw else _no_geometry(column, where)
        case Form.GEOMETRY:
            return lambda raw: _geometry(raw, where) if raw else _no_geometry(column, where)
        case Form.FLOAT_VECTOR:
            return lambda raw: list(unpack(f"<{len(raw) // 4}f", raw[: len(raw) // 4 * 4]))
        case _:
            return _same


def _of_day(convert: Callable[[int], Any], column: ColumnPlan, where: str) -> Callable[[int], Any]:
    """Wrap a conversion to a time of day. As in Debezium 24:00:00 is the last one; a TIME outside
    is NULL or an error.
    """

    def checked(micros: int) -> Any:
        if 0 <= micros <= _MICROS_PER_DAY:
            return convert(micros)
        if column.unfit == "null":
            return None
        raise beyond_day(where)

    return checked


def beyond_day(where: str) -> DefiniteError:
    """Return the error for a TIME that no time of day can express, in a column that must not become
    NULL.
    """
    return DefiniteError(
        f"{where}: a TIME below zero or above 24 hours cannot be written with time.precision.mode connect or isostring; use another mode"
        " (or, for a column that may be NULL, event.converting.failure.handling.mode=warn)"
    )


def _same(value: Any) -> Any:
    return value


def _wrapped(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _java_long(value: int) -> int:
    """Wrap nanoseconds outside the years 1677 to 2262, as Debezium does
    (io.debezium.time.NanoTimestamp).
    """
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _dated(moment: Moment, convert: Callable[[Any], Any]) -> Any:
    return convert(moment) if moment.possible else None


def _year_adjusted(moment: Moment) -> Moment:
    """Expand a year of one or two digits, as the server does for input. Debezium does it for stored
    values (AdjusterFactory, ``enable.time.adjuster``).
    """
    if moment.year >= _THREE_DIGITS:
        return moment
    return moment._replace(year=moment.year + (2000 if moment.year < _FIRST_OF_1900 else 1900))


def _micros(moment: Moment) -> int:
    return moment.days * _MICROS_PER_DAY + moment.micros


def iso_time(micros: int) -> str:
    """Return the time as ``DateTimeFormatter.ISO_OFFSET_TIME`` prints it; 24:00:00 is the next
    day's beginning.
    """
    return f"{_clock(micros % _MICROS_PER_DAY, None)}Z"


def iso_timestamp(moment: Moment, digits: int | None) -> str:
    """Return ISO-8601 in UTC with ``digits`` fraction digits; None writes as many as needed."""
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T{_clock(moment.micros, digits)}Z"


def _clock(micros: int, digits: int | None) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if digits is None:
        return f"{text}.{fraction:06d}".rstrip("0") if fraction else text
    return f"{text}.{fraction:06d}"[: len(text) + 1 + digits] if digits else text


def _member(members: tuple[str, ...], index: int, where: str) -> str:
    if index >= len(members):
        raise DefiniteError(
            f"{where}: the log has ENUM member {index}, the known schema ends at {len(members) - 1}; the schema is out of sync; "
            "reset the connector's offsets to have the table's definition read again"
        )
    return members[index]


def _set_text(members: tuple[str, ...], bits: int, where: str) -> str:
    if bits >> len(members):
        raise DefiniteError(
            f"{where}: the log has SET bits beyond the {len(members)} known members; the schema is out of sync; "
            "reset the connector's offsets to have the table's definition read again"
        )
    return ",".join(member for index, member in enumerate(members) if bits >> index & 1)


def _no_geometry(column: ColumnPlan, where: str) -> None:
    """Return None for an empty value, or raise DefiniteError: Debezium finds no SRID in it, which
    is a failed conversion.
    """
    if column.unfit == "fail":
        raise DefiniteError(
            f"{where}: an empty geometry (from an INSERT that left out a NOT NULL column) cannot be written; give the row a value"
            " (or, for any column but a NOT NULL point, set event.converting.failure.handling.mode=warn)"
        )


def _geometry(raw: bytes, where: str) -> dict[str, Any]:
    if len(raw) < 4:  # noqa: PLR2004 - the SRID
        raise DefiniteError(f"{where}: a geometry of {len(raw)} bytes has no SRID")
    srid = int.from_bytes(raw[:4], "little", signed=True)
    return {"wkb": raw[4:], "srid": srid or None}


def _point(raw: bytes, where: str) -> dict[str, Any]:
    value = _geometry(raw, where)
    wkb = value["wkb"]
    if len(wkb) != 21 or wkb[0] > 1:  # noqa: PLR2004 - byte order, type, two doubles
        raise DefiniteError(f"{where}: a value of {len(wkb)} bytes is not a WKB point")
    x, y = unpack_from("<dd" if wkb[0] else ">dd", wkb, 5)
    return {"x": x, "y": y, **value}


# --- the log's fields -----------------------------------------------------------------------------


def _date3(raw: bytes) -> Moment:
    packed = int.from_bytes(raw, "little")
    return Moment(packed >> 9, packed >> 5 & 15, packed & 31)


def _fraction(raw: bytes) -> int:
    """Return the microseconds of a big-endian fraction of 0 to 3 bytes."""
    return int.from_bytes(raw, "big") * (1, 10_000, 100, 1)[len(raw)]


def _time2(raw: bytes) -> int:
    """Return signed microseconds. The whole field with its fraction is one number with an offset,
    so a negative one borrows.
    """
    fraction_bytes = len(raw) - 3
    packed = int.from_bytes(raw, "big") - (0x800000 << 8 * fraction_bytes)
    sign, packed = (-1, -packed) if packed < 0 else (1, packed)
    seconds = packed >> 8 * fraction_bytes
    fraction = packed & (1 << 8 * fraction_bytes) - 1
    whole = (seconds >> 12 & 0x3FF) * 3600 + (seconds >> 6 & 63) * 60 + (seconds & 63)
    return sign * (whole * 1_000_000 + fraction * (1, 10_000, 100, 1)[fraction_bytes])


def _time_old(raw: bytes) -> int:
    packed = int.from_bytes(raw, "little", signed=True)
    sign, packed = (-1, -packed) if packed < 0 else (1, packed)
    return sign * (packed // 10000 * 3600 + packed // 100 % 100 * 60 + packed % 100) * 1_000_000


def _datetime2(raw: bytes) -> Moment:
    packed = int.from_bytes(raw[:5], "big") - 0x8000000000
    if packed < 0:
        return Moment(0, 0, 0)
    days, clock = packed >> 17, packed & 0x1FFFF
    months = days >> 5
    micros = ((clock >> 12) * 3600 + (clock >> 6 & 63) * 60 + (clock & 63)) * 1_000_000 + _fraction(raw[5:])
    return Moment(months // 13, months % 13, days & 31, micros)


def _datetime_old(raw: bytes) -> Moment:
    packed = int.from_bytes(raw, "little")
    day, clock = divmod(packed, 1_000_000)
    micros = (clock // 10000 * 3600 + clock // 100 % 100 * 60 + clock % 100) * 1_000_000
    return Moment(day // 10000, day // 100 % 100, day % 100, micros)


def _timestamp2(raw: bytes) -> Moment:
    # A damaged fraction must not add another second.
    return _epoch(int.from_bytes(raw[:4], "big"), min(_fraction(raw[4:]), 999_999))


def _epoch(seconds: int, micros: int) -> Moment:
    """Return the moment of a Unix time. Second 0 is the stored form of the zero date."""
    if not seconds:
        return Moment(0, 0, 0)
    days, clock = divmod(seconds, 86_400)
    day = date.fromordinal(_EPOCH_DAY + days)
    return Moment(day.year, day.month, day.day, clock * 1_000_000 + micros)


def uuid_text(raw: bytes) -> str:
    """Return the text of a UUID. MariaDB stores versions 1 to 5 with the segments in reverse order,
    so that they sort by time (sql_type_uuid.h: rec_need_swap).
    """
    if raw[6] & 0x80 and 0 < raw[8] <= 0x80:  # noqa: PLR2004 - the variant bit of a swapped one, and `-s[8] & 0x80` of a signed char
        raw = raw[12:16] + raw[10:12] + raw[8:10] + raw[6:8] + raw[0:6]
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def inet6_text(raw: bytes) -> str:
    """Return an address as MariaDB prints it: the longest run of zero groups as ``::``, mapped and
    compatible IPv4 with dots.
    """
    groups = [int.from_bytes(raw[i : i + 2], "big") for i in range(0, 16, 2)]
    start, length = _longest_zero_run(groups)
    # MariaDB 10.11, Inet6::to_string: IPv4-compatible (six zero groups) and IPv4-mapped (five and
    # ffff).
    dotted = start == 0 and (length == 6 or (length == 5 and groups[5] == 0xFFFF))  # noqa: PLR2004 - groups
    out = ""
    for index, group in enumerate(groups):
        if start <= index < start + length:
            if index == start:
                out += "::"
            continue
        if out and not out.endswith(":"):
            out += ":"
        if dotted and index == 6:  # noqa: PLR2004 - the last 32 bits
            return out + ".".join(map(str, raw[12:]))
        out += f"{group:x}"
    return out


def _longest_zero_run(groups: list[int]) -> tuple[int, int]:
    best, start = (-1, 0), 0
    while start < len(groups):
        end = start
        while end < len(groups) and groups[end] == 0:
            end += 1
        if end - start > best[1]:
            best = (start, end - start)
        start = max(end, start + 1)
    return best


# --- the result set's fields ----------------------------------------------------------------------


_DECIMAL_TEXT = re.compile(rb"[+-]?(\d*)\.?(\d*)")
_DECIMAL_TEXT_MAX = 72


def _decimal_text(raw: bytes, scale: int) -> str:
    """Return a DECIMAL's text, in the only form that servers write and the compiled reader takes.
    Python's Decimal would also accept an exponent and more.
    """
    found = _DECIMAL_TEXT.fullmatch(raw)
    if found is None or len(raw) > _DECIMAL_TEXT_MAX or not (found[1] or (scale and found[2])):
        raise ValueError(len(raw))
    return raw.decode("ascii")


def _packed_datetime(raw: bytes) -> Moment:
    """Read 0, 4, 7 or 11 bytes: nothing, then the date, the time, the microseconds."""
    if not raw:
        return Moment(0, 0, 0)
    year, month, day = unpack_from("<HBB", raw)
    if year > 9999:  # noqa: PLR2004 - no server sends this
        raise ValueError(year)
    if len(raw) < 7:  # noqa: PLR2004 - a date alone
        return Moment(year, month, day)
    hour, minute, second = unpack_from("<BBB", raw, 4)
    micros = unpack_from("<I", raw, 7)[0] if len(raw) >= 11 else 0  # noqa: PLR2004 - with microseconds
    if hour * 3600 + minute * 60 + second >= 360_000 or micros > 999_999:  # noqa: PLR2004 - no server sends this
        raise ValueError(hour)
    return Moment(year, month, day, (hour * 3600 + minute * 60 + second) * 1_000_000 + micros)


def _packed_time(raw: bytes) -> int:
    """Read 0, 8 or 12 bytes: sign, days, hours, minutes, seconds, microseconds."""
    if not raw:
        return 0
    negative, days, hours, minutes, seconds = unpack_from("<BIBBB", raw)
    micros = unpack_from("<I", raw, 8)[0] if len(raw) >= 12 else 0  # noqa: PLR2004 - with microseconds
    if days > 999 or micros > 999_999:  # noqa: PLR2004 - 838 hours are the most that a server sends
        raise ValueError(days)
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    return -total if negative else int(total)
