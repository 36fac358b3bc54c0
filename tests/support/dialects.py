"""The dialects of the binlog by flavor."""

from __future__ import annotations

from dblog.dialects.mariadb.dialect import MARIADB
from dblog.dialects.mysql.task.dialect import MYSQL, BinlogDialect

_DIALECTS = {"mysql": MYSQL, "mariadb": MARIADB}


def dialect_of(flavor: str) -> BinlogDialect:
    """Return the dialect of a flavor."""
    return _DIALECTS[flavor]
