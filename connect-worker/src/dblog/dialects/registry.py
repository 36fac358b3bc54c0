"""The database kind of each flavor of connector plugin. A kind's modules are imported on demand, so
that a worker without MySQL loads nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dblog.readers.contract import DatabaseKind

FLAVORS = ("mysql", "mariadb", "postgres")


def kind_of(flavor: str) -> DatabaseKind:
    """Return the kind of a flavor (``config/plugins.py``). Raise KeyError for an unknown flavor."""
    match flavor:
        case "mysql":
            from dblog.dialects.mysql.task.dialect import MYSQL  # noqa: PLC0415
            from dblog.dialects.mysql.task.kind import BinlogKind  # noqa: PLC0415

            return BinlogKind(MYSQL)
        case "mariadb":
            from dblog.dialects.mariadb.dialect import MARIADB  # noqa: PLC0415
            from dblog.dialects.mysql.task.kind import BinlogKind  # noqa: PLC0415

            return BinlogKind(MARIADB)
        case "postgres":
            from dblog.dialects.postgres.task.kind import PostgresKind  # noqa: PLC0415

            return PostgresKind()
    raise KeyError(flavor)
