"""MariaDB's differences from MySQL, by name."""

from __future__ import annotations

from dblog.dialects.mariadb.flavor import mariadb_flavor
from dblog.dialects.mariadb.marks import MariaDbMarks
from dblog.dialects.mariadb.offset import MariaDbProgress
from dblog.dialects.mariadb.session import connect
from dblog.dialects.mariadb.types import column_plan
from dblog.dialects.mysql.task.dialect import BinlogDialect

MARIADB = BinlogDialect(
    name="mariadb",
    connect=connect,
    column_plan=column_plan,
    flavor_of=mariadb_flavor,
    progress=MariaDbProgress,
    marks=MariaDbMarks,
    compares_gtids=True,
)
