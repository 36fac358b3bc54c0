"""The facts besides its text that a statement's meaning depends on: the session's modes, the
server, and the tables before the statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dblog.dialects.mysql.ddl.column_types import Charset
from dblog.dialects.mysql.ddl.flavor import Flavor
from dblog.dialects.mysql.ddl.lexer import LexerMode
from dblog.model import Table, TableId

REAL_AS_FLOAT = 1 << 0
ANSI_QUOTES = 1 << 2
ORACLE = 1 << 9
NO_BACKSLASH_ESCAPES = 1 << 20
"""Bits of sql_mode in the status variables of a QUERY event (sql_class.h of both servers)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of one statement.

    ``database_charset`` returns (charset, collation) of a database, each None if unknown.
    ``lower_case_names``: the server's lower_case_table_names is 1. ``explicit_timestamps``: the
    session's explicit_defaults_for_timestamp, None if unknown. ``time_zone``: the session's, None
    for UTC. ``bytes_kept``: the UTF-8 text is byte by byte what the client sent, so a literal in it
    shows the bytes of a binary column.
    """

    flavor: Flavor
    table: Callable[[TableId], Table | None]
    default_database: str = ""
    sql_mode: int = 0
    lower_case_names: bool = False
    explicit_timestamps: bool | None = None
    time_zone: str | None = None
    bytes_kept: bool = True
    database_charset: Callable[[str], tuple[str | None, str | None]] = lambda _: (None, None)
    server_charset: str | None = None
    server_collation: str | None = None

    @property
    def lexer_mode(self) -> LexerMode:
        """The rules for splitting the text into tokens."""
        return LexerMode(
            ansi_quotes=bool(self.sql_mode & ANSI_QUOTES) or self.oracle,
            backslash_escapes=not self.sql_mode & NO_BACKSLASH_ESCAPES,
            mariadb=self.flavor.mariadb,
            version=self.flavor.comment_version,
        )

    @property
    def real_as_float(self) -> bool:
        """True if REAL means float."""
        return bool(self.sql_mode & REAL_AS_FLOAT)

    @property
    def oracle(self) -> bool:
        """True in MariaDB's sql_mode=ORACLE. MySQL 5.7 has that bit too, but not the types."""
        return self.flavor.mariadb and bool(self.sql_mode & ORACLE)

    @property
    def explicit_timestamp_defaults(self) -> bool:
        """True if a TIMESTAMP without DEFAULT is treated like any other column."""
        return self.flavor.explicit_timestamp_defaults if self.explicit_timestamps is None else self.explicit_timestamps

    def database_base(self, database: str) -> Charset:
        """Return the charset that a table without CHARSET inherits."""
        charset, collation = self.database_charset(database)
        charset = charset or (collation.split("_", 1)[0] if collation else None) or self.server_charset or self.flavor.server_charset
        if collation is None and charset == self.server_charset:
            collation = self.server_collation
        return Charset(charset, collation or self.flavor.default_collation(charset) or f"{charset}_general_ci")
