"""The namespace of a connector's tables: a database (MySQL, MariaDB), or a schema of the one
database that the connector reads (PostgreSQL).

It is the first part of a table's name in filters, signals and topics, ``model.TableId.database``,
and the first word of the options that select it: ``database.include.list`` or
``schema.include.list``. A connector has the namespace whose option it declares.
"""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum


class Namespace(StrEnum):
    """The word for the namespace in options and messages."""

    DATABASE = "database"
    SCHEMA = "schema"

    @property
    def include(self) -> str:
        """The option for the captured namespaces."""
        return f"{self}.include.list"

    @property
    def exclude(self) -> str:
        """The option for the excluded namespaces."""
        return f"{self}.exclude.list"


def namespace_of(declared: Container[object]) -> Namespace:
    """Return a connector's namespace, from its options' names or its parsed ``Settings``."""
    return Namespace.SCHEMA if Namespace.SCHEMA.include in declared else Namespace.DATABASE
