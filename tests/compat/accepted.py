"""Differences from Debezium that are meant, each with its reason. A rule names what both wrote, so that another difference in the same place is still seen."""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress
from datetime import date
from typing import Any

from rules import Rule


def _same_json(ours: Any, peer: Any) -> bool:
    """The log's text against the server's."""
    try:
        return _alike(json.loads(ours), json.loads(peer))
    except (ValueError, TypeError):
        return False


def _alike(ours: Any, peer: Any) -> bool:
    if isinstance(ours, dict) and isinstance(peer, dict):
        return list(ours) == list(peer) and all(_alike(ours[name], peer[name]) for name in ours)
    if isinstance(ours, list) and isinstance(peer, list):
        return len(ours) == len(peer) and all(map(_alike, ours, peer))
    if isinstance(ours, str) and isinstance(peer, str):
        if opaque := re.fullmatch(r"base64:type\d+:(.*)", peer, re.DOTALL):
            return ours == opaque[1].replace("\n", "")
        if re.fullmatch(r"(\d{4}-\d\d-\d\d |-?)\d\d+:\d\d:\d\d\.\d{6}", peer):
            return ours in (peer, peer.rstrip("0").rstrip("."))
    return bool(ours == peer)


def _near(ours: Any, peer: Any) -> bool:
    return isinstance(ours, float) and isinstance(peer, float) and abs(ours - peer) <= abs(ours) * 1e-5


def _bare_fraction(moment: str) -> str:
    """Without the zeros at the end of the fraction, and without a fraction of zeros."""
    return re.sub(r"(\.\d*?)0*Z$", r"\1Z", moment).replace(".Z", "Z")


def _julian(ours: Any, peer: Any) -> bool:
    """A multiple of a day apart, at most two weeks."""
    if isinstance(ours, str) and isinstance(peer, str):
        return ours[:10] < "1582-10-15" and ours[10:] == peer[10:] and 0 < abs(_day(ours) - _day(peer)) < 14
    if not isinstance(ours, int) or not isinstance(peer, int):
        return False
    day = next(
        (day for day in (1, 86_400_000, 86_400_000_000, 86_400_000_000_000) if abs(peer - ours) in {n * day for n in range(1, 14)}), None
    )
    return day is not None


def _day(text: str) -> int:
    return date.fromisoformat(text[:10]).toordinal()


def _with_escaped_zeros(ours: Any, peer: Any) -> bool:
    """The peer has a backslash and a nought for each zero byte, whatever binary.handling.mode makes text of."""
    if not isinstance(ours, str) or not isinstance(peer, str):
        return False
    if peer == f"{ours}\\0\\0":
        return True
    for decode in (bytes.fromhex, base64.b64decode, base64.urlsafe_b64decode):
        with suppress(ValueError):
            if decode(peer) == decode(ours) + b"\\0\\0":
                return True
    return False


def _length(text: Any) -> bool:
    return text == "(absent)" or (isinstance(text, str) and text.isdigit())


DUMP, LOG, VALUE, DEFAULT = " dump$", " log$", r"^value\.(before|after)\.", r"(\.default|\.defaultValueExpression)$"

RULES = (
    Rule("the peer's snapshot reads FLOAT from the server's text, which has 6 digits; its log has the value", DUMP, VALUE, _near),
    Rule(
        "the peer's snapshot cuts trailing zeros of TIMESTAMP fractions, its log writes them",
        DUMP,
        VALUE,
        lambda ours, peer: isinstance(ours, str) and isinstance(peer, str) and _bare_fraction(ours) == _bare_fraction(peer),
    ),
    Rule(
        "the peer's snapshot has the server's JSON text, with blanks, six digits of every fraction and base64:type in front of opaque values; its log has none",
        DUMP,
        VALUE,
        _same_json,
        topic="json",
    ),
    Rule("the peer's snapshot reads days before 1582-10-15 in the Julian calendar, its log in the Gregorian", DUMP, VALUE, _julian),
    Rule(
        "YEAR 0000 is 0; the peer's log reader makes 1900 of the stored byte 0, its snapshot and its defaults 2000",
        "",
        r"value|default",
        lambda ours, peer: (ours, peer) in ((0, 1900), (0, 2000)),
    ),
    Rule(
        "the peer leaves the doubled quote of a literal default as it is",
        "",
        DEFAULT,
        lambda ours, peer: (ours, peer) == ("it's", "it''s"),
    ),
    Rule(
        "the peer takes the escaped zero bytes of SHOW CREATE TABLE literally; in a table from the log it has none",
        "",
        DEFAULT,
        _with_escaped_zeros,
    ),
    Rule(
        "BOOLEAN in a statement of the log: the peer makes a boolean of it until it reads the same table from SHOW CREATE TABLE, where it is tinyint(1)",
        LOG,
        r"value",
        lambda ours, peer: (str(ours), str(peer)) in _BOOLEANS,
    ),
    Rule(
        "REAL and FLOAT(53) in a statement of the log: the peer makes a float of it until it reads the same table from SHOW CREATE TABLE, where it is double",
        LOG,
        r"value",
        lambda ours, peer: (
            (ours, peer) in (("double", "float"), ("DOUBLE", "REAL"), ("DOUBLE", "FLOAT"), (8, 7), (8, 6)) or _near(ours, peer)
        ),
        topic="real|float_53|^P$",
    ),
    Rule(
        "JSON in a statement of MariaDB's log: the peer takes it for MySQL's JSON until it reads the same table from SHOW CREATE TABLE, where it is longtext",
        LOG,
        r"schema|tableChanges\[0\]\.table\.columns\[[cn]\]",
        lambda ours, peer: (
            (ours, peer) in ((12, 1111), ("LONGTEXT", "JSON"), ("utf8mb4", None))
            or (ours == "string" and isinstance(peer, dict) and peer.get("connect.name") == "io.debezium.data.Json")
            or (ours == "(absent)" and peer in ("io.debezium.data.Json", 1))
        ),
        topic="^P$|l_json_",
    ),
    Rule(
        "the peer's snapshot reports every database that it finds, so also of ours with the watermark table",
        DUMP,
        r"^record$",
        lambda ours, peer: ours == "(absent)" and peer.endswith('{"databaseName": "dblog"}'),
        topic="^P$",
    ),
    Rule(
        "bytes of cp932: the peer's MariaDB log reader takes them for UTF-8",
        "",
        VALUE,
        lambda ours, peer: isinstance(peer, str) and peer.startswith("\ufffd"),
        topic="text_cp932",
    ),
    Rule(
        "a comma in an ENUM member: the peer's log reader leaves the escape of its own list in the value",
        "",
        VALUE,
        lambda ours, peer: isinstance(peer, str) and "\\," in peer and peer.replace("\\,", ",") == ours,
        topic="enum",
    ),
    Rule(
        "a negative TIME inside JSON: the peer's log reader writes nonsense such as 13:0-35:0-56",
        "",
        VALUE,
        lambda ours, peer: isinstance(peer, str) and ":0-" in peer,
        topic="json",
    ),
    Rule(
        "bytes that cp1252 leaves open are control characters for the server (and in the peer's snapshot); the peer's log reader replaces them",
        "",
        VALUE,
        lambda ours, peer: isinstance(peer, str) and set(peer) == {"\ufffd"},
        topic="latin1",
    ),
    Rule(
        "a delete in a table without a key has no tombstone, for there is nothing that it could compact; the peer sends a record of null and null",
        LOG,
        r"^record$",
        lambda ours, peer: (ours, peer) == ("(absent)", "tombstone null"),
    ),
    Rule(
        "the row number in the source of a DDL record: the peer shows that of the last row event before it",
        LOG,
        r"^value\.source\.row$",
        lambda ours, peer: ours == 0 and isinstance(peer, int),
        topic="^P$",
    ),
    Rule(
        "GEOMETRYCOLLECTION in a statement: the peer repeats the word; here, and in its own snapshot, stands the server's name of the type",
        LOG,
        r"\.type(Name|Expression)$",
        lambda ours, peer: (ours, peer) == ("GEOMCOLLECTION", "GEOMETRYCOLLECTION"),
        topic="^P$",
    ),
    Rule(
        "the length of column.propagate.source.type is the server's, for the schema of a table must not depend on where it was read; the peer has the statement's word (none, int(5), FLOAT(24)) until it reads SHOW CREATE TABLE",
        LOG,
        r"\.__debezium\.source\.column\.length$",
        lambda ours, peer: ours != "0" and _length(ours) and _length(peer),
    ),
    Rule(
        "CREATE TABLE ... LIKE takes the table's comment along; the peer forgets it",
        LOG,
        r"^value\.tableChanges\[0\]\.table\.comment$",
        lambda ours, peer: (ours, peer) == ("a table", None),
        topic="^P$",
    ),
    Rule(
        "ON UPDATE CURRENT_TIMESTAMP: the grammar of the peer's MySQL 3.6.1 takes it for AUTO_INCREMENT; that of MariaDB's 3.5.0 does not",
        "^mysql ",
        r"\[c4\]\.(autoIncremented|generated)$",
        lambda ours, peer: (ours, peer) == (False, True),
        topic="^P$",
    ),
    Rule(
        "comments stand in schemas and schema changes only with include.schema.comments, as documented; the peer's MariaDB 3.5.0 shows them always",
        "^mariadb (?!text)",
        r"\.comment$|connect\.doc$|type\[1\]$",
        lambda ours, peer: (
            (ours in (None, "(absent)") and isinstance(peer, str))
            or (isinstance(peer, dict) and {name: item for name, item in peer.items() if name != "connect.doc"} == {"type": ours})
        ),
    ),
    Rule(
        "a zero TIMESTAMP is null, or 1970-01-01T00:00:00Z where it may not be NULL, as documented and as the peer's MySQL 3.6.1 has it; MariaDB's 3.5.0 writes the latter always, with three digits",
        "^mariadb ",
        VALUE,
        lambda ours, peer: ours in (None, "1970-01-01T00:00:00Z") and peer == "1970-01-01T00:00:00.000Z",
        topic="zero_timestamp",
    ),
    Rule(
        "three tables renamed by one statement: the names in source.table stand in the statement's order; the peer has them from a hash set",
        LOG,
        r"^value\.source\.table$",
        lambda ours, peer: isinstance(ours, str) and isinstance(peer, str) and sorted(ours.split(",")) == sorted(peer.split(",")),
        topic="^P$",
    ),
    Rule(
        "a statement that stands alone (DDL) is no transaction, as the peer has it since 3.6; MariaDB's 3.5.0 reports a BEGIN that never ends",
        "^mariadb transactions",
        r"^record$",
        lambda ours, peer: ours == "(absent)" and isinstance(peer, str) and peer.startswith("BEGIN "),
        topic=r"^P\.transaction$",
    ),
    Rule(
        "XA PREPARE ends what its GTID event began; the peer leaves it open",
        "^mariadb transactions",
        r"^record$",
        lambda ours, peer: isinstance(ours, str) and ours.startswith("END ") and peer == "(absent)",
        topic=r"^P\.transaction$",
    ),
    Rule(
        "a table whose rows changed without row events (swapped by a rename, a partition truncated) is dumped again; the peer leaves the consumer with the rows of before",
        DUMP,
        r"^record$",
        lambda ours, peer: isinstance(ours, str) and ours.startswith("r ") and peer == "(absent)",
        topic=r"\.d_(one|other|partitioned)$",
    ),
)

_BOOLEANS = {
    ("int", "boolean"), ("1", "True"), ("0", "False"), ("int16", "(absent)"), ("{'type': 'int', 'connect.type': 'int16'}", "boolean"),
    ("5", "16"), ("TINYINT", "BOOLEAN"), ("1", "None"),
}  # fmt: skip
