"""What the tables of a connector lie in: databases (MySQL, MariaDB), or the schemas of the one database that it reads (PostgreSQL).

It is the first part of a table's name in filters, signals and topics, ``model.TableId.database``, and the first word of the keys that
choose it: ``database.include.list`` or ``schema.include.list``. A connector has the one of them that its options declare.
"""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum


class Namespace(StrEnum):
    """By the word that names it in keys and messages."""

    DATABASE = "database"
    SCHEMA = "schema"

    @property
    def include(self) -> str:
        """The key of those that are captured."""
        return f"{self}.include.list"

    @property
    def exclude(self) -> str:
        """The key of those that are not."""
        return f"{self}.exclude.list"


def namespace_of(declared: Container[object]) -> Namespace:
    """By the names of a connector's options; parsed ``Settings`` are such names."""
    return Namespace.SCHEMA if Namespace.SCHEMA.include in declared else Namespace.DATABASE
