"""MariaDB's rules for turning DDL text into columns; see mysql/ddl/flavor.py."""

from __future__ import annotations

from dblog.dialects.mysql.ddl.flavor import Flavor

UNICODE_CHARSETS = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32")


def mariadb_flavor(version: tuple[int, int, int] = (10, 11, 0)) -> Flavor:
    """Return the rules of a MariaDB version, 10.5 or later. Since 11.5 the variable
    character_set_collations maps the Unicode character sets to uca1400 (MDEV-25829).
    """
    uca = version >= (11, 5, 0)
    return Flavor(
        mariadb=True,
        version=version,
        integer_width_shown=True,
        year_text="year(4)",
        geometry_collection="geometrycollection",
        explicit_timestamp_defaults=version >= (10, 10, 0),
        collations={charset: f"{charset}_uca1400_ai_ci" for charset in UNICODE_CHARSETS} if uca else {},
        server_charset="utf8mb4" if version >= (11, 6, 0) else "latin1",
    )
