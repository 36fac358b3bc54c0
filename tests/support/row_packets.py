"""Rows of a result set as MySQL and MariaDB send them: packets with their headers."""

from __future__ import annotations

from dblog.dialects.mysql.wire import protocol


def row_count(rows: bytes) -> int:
    """Return the number of rows, counted by walking the packets.

    A walk that does not reach exactly the end means a broken response.
    """
    complete, count, _, end = protocol.walk_rows(rows)
    assert not complete
    assert end == len(rows)
    return count
