"""Differences from Debezium that are meant where the source is PostgreSQL, each with its reason. A column's name has its type in it."""

from __future__ import annotations

import re
from typing import Any

from differences import ABSENT
from rules import Rule

DUMP, LOG, VALUE = " dump$", " log$", r"^value\.(before|after)\."

_DAY_OF_GREGORY = -141_427
"""1582-10-15."""
_LAST_DAY, _DAY_MILLIS = 2_145_031_948, 86_400_000
"""5874897-12-31, the last one that a date can have."""
_INFINITE = frozenset(
    {(1 << 63) - 1, 1 << 63, 9_223_372_036_825_200_000, 9_223_372_036_832_400_000, 9_223_372_036_825_200, 9_223_372_036_832_400}
)
_DEFAULTS = r"\.((l_)?[ds]_\d+|k_full|odd.*)$"
_TIMES = r"_(date|time|timetz|timestamp|timestamptz)(_\d|_with(out)?_time_zone)*"


def _peer_has_default(ours: Any, peer: Any) -> bool:
    return ours is None and peer not in (None, ABSENT)


def _old_or_infinite(ours: Any, peer: Any) -> bool:
    """A moment that java.sql.Date and Timestamp, through which the driver hands it out, have otherwise."""
    if isinstance(ours, str) and isinstance(peer, str):
        return ours.startswith(("-", "+")) or ours[:10] < "1582-10-15" or "infinity" in ours
    if not isinstance(ours, int) or not isinstance(peer, int):
        return False
    if -(1 << 31) < ours < 1 << 31:
        return ours < _DAY_OF_GREGORY or ours > _LAST_DAY
    return abs(ours) in _INFINITE or (ours < _DAY_OF_GREGORY * _DAY_MILLIS and (peer - ours) % _DAY_MILLIS == 0)


def _cut(ours: Any, peer: Any) -> bool:
    """The peer's has no microseconds, or no fraction at all; and no 24:00."""
    if isinstance(ours, int) and isinstance(peer, int):
        if ours in (86_400_000, 86_400_000_000, 86_400_000_000_000):
            return peer == 0
        return any(peer == ours // unit * unit for unit in (1_000, 1_000_000, 1_000_000_000))
    return isinstance(ours, str) and isinstance(peer, str) and re.sub(r"\.\d+", "", ours) == re.sub(r"\.\d+", "", peer)


def _by_a_few(ours: Any, peer: Any) -> bool:
    return isinstance(ours, int) and isinstance(peer, int) and 0 < peer - ours <= 2


def _collections_without_messages(ours: Any, peer: Any) -> bool:
    """Counts of a transaction, without those of messages, whose name at the peer is that of a Java object, and of truncates."""
    counted = {one["data_collection"]: one["event_count"] for one in peer if "LogicalDecodingMessageId@" not in one["data_collection"]}
    return all(0 <= counted.get(one["data_collection"], -1) - one["event_count"] <= 2 for one in ours)


def _near(ours: str, peer: str) -> bool:
    """Alike but for the seconds, which are less than a microsecond apart."""
    mine, theirs = (re.fullmatch(r"(.*M)(-?[\d.]+)S", text) for text in (ours, peer))
    return mine is not None and theirs is not None and mine[1] == theirs[1] and abs(float(mine[2]) - float(theirs[2])) < 1e-6


def _of_java(ours: Any, peer: Any) -> bool:
    return ours is None and isinstance(peer, list) and all(one is None or "[L" in str(one) for one in peer)


_NOT_COUNTED = "what is counted of a transaction are the records of rows; the peer counts truncates too, and each logical message as one of a table named after a Java object"

RULES: tuple[Rule, ...] = (
    Rule(
        "NULL in a column that has a default is null; Confluent's converter, which the peer writes by, puts the default in its place",
        "",
        VALUE,
        _peer_has_default,
        topic=_DEFAULTS,
    ),
    Rule(
        "a table that comes later is dumped, for rows of before it was published are in no log; so is one whose rows have other values now. The peer has the log alone",
        DUMP,
        "^record$",
        lambda ours, peer: str(ours).startswith("r ") and peer == ABSENT,
        topic=r"\.(l_|d_)\w+$",
    ),
    Rule(
        "the rows of a partitioned table are those of its partitions, under their names, as in the log; the peer's snapshot has them under its own name once more",
        DUMP,
        "^record$",
        lambda ours, peer: ours == ABSENT and str(peer).startswith("r "),
        topic=r"\.k_parts$",
    ),
    Rule(
        "the rows of partitions are those of the partitioned table with publish.via.partition.root, as in the log; the peer's snapshot has them under both names",
        "root" + DUMP,
        "^record$",
        lambda ours, peer: ours == ABSENT and str(peer).startswith("r "),
        topic=r"\.k_parts_(low|high)$",
    ),
    Rule(
        "the key of a table with another index than its primary key as its replica identity is that index's, for the log shows no more of old rows; the peer's is the primary key",
        "",
        r"^record$|^key(\.| schema\.fields\[)",
        lambda ours, peer: ABSENT in {str(ours), str(peer)},
        topic=r"\.k_both$",
    ),
    Rule(
        "a generated column is not in the log before PostgreSQL 18, so it is in no record; the peer's snapshot has it, and its log not",
        DUMP,
        r"\[s\]|\.s$|, order",
        lambda ours, peer: ours == ABSENT or isinstance(ours, list),
        topic=r"\.k_generated$",
    ),
    Rule(
        "a numeric with a negative scale has the scale 0 and the digits that it needs; the peer takes the scale for one of 11 bits, 2046",
        "",
        "",
        lambda ours, peer: ours != peer,
        topic=r"gk_\d+_numeric_5_2$",
    ),
    Rule(
        "a numeric with a negative scale has the scale 0 and the digits that it needs; the peer takes the scale for one of 11 bits, 2046",
        "",
        "numeric_5_2",
        lambda ours, peer: ours != peer,
    ),
    Rule(
        "an Avro decimal has no fewer digits than its scale; the peer writes a schema that Avro's readers refuse",
        "",
        r"numeric_3_6.*precision$",
        lambda ours, peer: (str(ours), str(peer)) == ("6", "3"),
    ),
    Rule(
        "the peer's snapshot reads days before 1582-10-15 in the Julian calendar, those before Christ as after it, and infinite ones as any others; its log does not",
        DUMP,
        VALUE + r"c\d+" + _TIMES + "$",
        _old_or_infinite,
    ),
    Rule(
        "the peer's snapshot reads days before 1582-10-15 in the Julian calendar, those before Christ as after it, and infinite ones as any others; its log does not",
        DUMP,
        "^record$",
        lambda ours, peer: ABSENT in (ours, peer),
        topic=r"\.gk_\d+" + _TIMES + "$",
    ),
    Rule(
        "elements of arrays: the peer reads days before 1582-10-15 in the Julian calendar, those before Christ as after it, and infinite ones as any others",
        "",
        VALUE + r"c\d+" + _TIMES + r"_array\[",
        _old_or_infinite,
    ),
    Rule(
        "times in arrays have all their digits; the peer cuts them to milliseconds, those with a zone to seconds",
        "",
        VALUE + r"c\d+_time(tz)?\w*_array\[",
        _cut,
    ),
    Rule(
        "the peer's snapshot cannot read some times with a zone",
        DUMP,
        VALUE + r"c\d+_timetz",
        lambda ours, peer: isinstance(ours, str) and peer is None,
    ),
    Rule(
        "an array of more than one dimension is NULL; the peer writes NULL elements, or the names of Java's objects",
        "",
        VALUE + r"c\d+_(\w+_array|numbers)$",
        _of_java,
    ),
    Rule(
        "the peer's log reader has no value of the type name: NULL, or an empty text where that may not be; its snapshot has them",
        LOG,
        r"^(value\.(before|after)|key)\.c\d+_name$",
        lambda ours, peer: isinstance(ours, str) and peer in (None, ""),
    ),
    Rule(
        "an array of a domain is one of the domain's base type; the peer has none, or with include.unknown.datatypes the bytes of each element's text",
        "",
        r"_price_array|, order$",
        lambda ours, peer: ours != peer,
        topic=r"\.g_\d+$",
    ),
    Rule(
        "an offset of a time zone with seconds in it: the peer's log reader ends at it",
        LOG,
        r"event_count$|data_collections$",
        lambda ours, peer: (ours, peer) in ((1, 0), ([{"data_collection": "compat.k_zone", "event_count": 1}], [])),
        topic=r"\.transaction$",
    ),
    Rule(
        "an offset of a time zone with seconds in it: the peer's log reader ends at it",
        LOG,
        "^record$",
        lambda ours, peer: ours == 'c {"id": 2}' and peer == ABSENT,
        topic=r"\.k_zone$",
    ),
    Rule(
        "a large value that an update left alone has a placeholder in every type and mode; the peer has NULL in some arrays, and in bytes as Base64, as if it had been set",
        LOG,
        VALUE + "(b|ba|da|fa|bo|tsa)$",
        lambda ours, peer: isinstance(ours, list | str) and peer is None,
        topic=r"\.k_large$",
    ),
    Rule(
        "an element that 64 bits of nanoseconds do not hold makes the array NULL, as it makes a column; the peer makes the element NULL",
        "nano",
        VALUE + r"c\d+_timestamp\w*_array$",
        lambda ours, peer: ours is None and isinstance(peer, list) and None in peer,
    ),
    Rule(
        _NOT_COUNTED,
        LOG,
        r"^value\.transaction$",
        lambda ours, peer: ours is None and isinstance(peer, dict),
        topic=r"\.(message|k_identity|k_unique|k_serial|k_parts\w*)$",
    ),
    Rule(_NOT_COUNTED, LOG, r"^value\.transaction\.(total_order|data_collection_order)$", _by_a_few, topic=r"\.(k_identity|k_unique)$"),
    Rule(_NOT_COUNTED, LOG, r"event_count$", _by_a_few, topic=r"\.transaction$"),
    Rule(
        _NOT_COUNTED,
        LOG,
        r"^value\.data_collections$",
        lambda ours, peer: isinstance(ours, list) and isinstance(peer, list) and _collections_without_messages(ours, peer),
        topic=r"\.transaction$",
    ),
    Rule(
        "seconds of an interval have the digits that they have; the peer adds them up in a double",
        "text",
        VALUE + r"c\d+_interval\w*$",
        lambda ours, peer: isinstance(ours, str) and isinstance(peer, str) and _near(ours, peer),
    ),
    Rule(
        "comments are in schemas with include.schema.comments, as documented; the peer's PostgreSQL connector has none",
        "text",
        r"\[v\]\.type\[1\]$",
        lambda ours, peer: (ours, peer) == ({"type": "string", "connect.doc": "what it is"}, "string"),
        topic=r"\.k_commented$",
    ),
    Rule(
        "NaN and infinities in arrays of numeric, written as texts and doubles as a column's are; the peer has NULL for the array",
        "text|double",
        VALUE + r"c\d+_numeric\w*_array$",
        lambda ours, peer: isinstance(ours, list) and peer is None,
    ),
    Rule(
        "the source type is that of the peer's log; its snapshot calls columns with a sequence SERIAL, and has no length and scale of a numeric without them",
        DUMP,
        r"__debezium\.source\.column\.(type|length|scale)$",
        lambda ours, peer: (str(ours), str(peer)) in (("INT4", "SERIAL"), ("INT8", "BIGSERIAL"), ("131089", "0"), ("0", ABSENT)),
    ),
    Rule(
        "a delete in a table without a key has no tombstone, for there is nothing that it could compact; the peer sends a record of null and null",
        LOG,
        "^record$",
        lambda ours, peer: (ours, peer) == (ABSENT, "tombstone null"),
    ),
    Rule(
        "an ltree array with a NULL in it is written; the peer cannot",
        "",
        VALUE + r"c\d+_ltree_array$",
        lambda ours, peer: isinstance(ours, list) and None in ours and peer is None,
    ),
    Rule(
        "an array of bit(n) is no known type; the peer has a field of bits that it can put no array into, so that it is always NULL",
        "",
        r"_bit_12_array|, order$",
        lambda ours, peer: ours != peer,
        topic=r"\.g_\d+$",
    ),
    Rule(
        "members that an enum type got while the log is read are among the allowed ones; the peer reads them at its next start",
        LOG,
        r"connect\.parameters\.allowed$",
        lambda ours, peer: ours == f"{peer},new",
        topic=r"\.d_mood$",
    ),
)
