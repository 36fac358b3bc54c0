"""Rows of a result set as MySQL and MariaDB send them: packets with their headers."""

from __future__ import annotations

from dblog.dialects.mysql.wire import protocol


def row_count(rows: bytes) -> int:
    """By walking the packets; a walk that ends elsewhere than at their end is a broken answer."""
    complete, count, _, end = protocol.walk_rows(rows)
    assert not complete
    assert end == len(rows)
    return count
