"""Differences between servers in turning DDL text into columns, as data.

MySQL and MariaDB share one parser; this table holds the differences between them and their
versions. mariadb/flavor.py has MariaDB's values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_COLLATIONS: Mapping[str, str] = {
    "armscii8": "armscii8_general_ci",
    "ascii": "ascii_general_ci",
    "big5": "big5_chinese_ci",
    "binary": "binary",
    "cp1250": "cp1250_general_ci",
    "cp1251": "cp1251_general_ci",
    "cp1256": "cp1256_general_ci",
    "cp1257": "cp1257_general_ci",
    "cp850": "cp850_general_ci",
    "cp852": "cp852_general_ci",
    "cp866": "cp866_general_ci",
    "cp932": "cp932_japanese_ci",
    "dec8": "dec8_swedish_ci",
    "eucjpms": "eucjpms_japanese_ci",
    "euckr": "euckr_korean_ci",
    "gb18030": "gb18030_chinese_ci",
    "gb2312": "gb2312_chinese_ci",
    "gbk": "gbk_chinese_ci",
    "geostd8": "geostd8_general_ci",
    "greek": "greek_general_ci",
    "hebrew": "hebrew_general_ci",
    "hp8": "hp8_english_ci",
    "keybcs2": "keybcs2_general_ci",
    "koi8r": "koi8r_general_ci",
    "koi8u": "koi8u_general_ci",
    "latin1": "latin1_swedish_ci",
    "latin2": "latin2_general_ci",
    "latin5": "latin5_turkish_ci",
    "latin7": "latin7_general_ci",
    "macce": "macce_general_ci",
    "macroman": "macroman_general_ci",
    "sjis": "sjis_japanese_ci",
    "swe7": "swe7_swedish_ci",
    "tis620": "tis620_thai_ci",
    "ucs2": "ucs2_general_ci",
    "ujis": "ujis_japanese_ci",
    "utf16": "utf16_general_ci",
    "utf16le": "utf16le_general_ci",
    "utf32": "utf32_general_ci",
    "utf8mb3": "utf8mb3_general_ci",
    "utf8mb4": "utf8mb4_general_ci",
}
"""Default collations of ``SHOW CHARACTER SET``; a flavor overrides utf8mb4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """Rules by which one server prints types and defaults. ``version`` is (major, minor, patch)."""

    mariadb: bool
    version: tuple[int, int, int]
    integer_width_shown: bool
    """True if types print as ``int(11)``: in every server except MySQL 8.0.19 and later."""
    year_text: str
    geometry_collection: str
    """The DATA_TYPE of GEOMETRYCOLLECTION."""
    explicit_timestamp_defaults: bool
    """The default of explicit_defaults_for_timestamp, used if the session's value is unknown."""
    collations: Mapping[str, str] = field(default_factory=dict)
    """Default collations that differ from DEFAULT_COLLATIONS."""
    server_charset: str = "utf8mb4"
    """The default of character_set_server, used if a database's charset is unknown."""

    @property
    def comment_version(self) -> int:
        """The version as version comments write it: 80034."""
        major, minor, patch = self.version
        return major * 10000 + minor * 100 + patch

    def default_collation(self, charset: str) -> str | None:
        """Return the collation of a charset that is named without one; None for an unknown charset."""
        return self.collations.get(charset) or DEFAULT_COLLATIONS.get(charset)


def mysql_flavor(version: tuple[int, int, int] = (9, 7, 0)) -> Flavor:
    """Return the rules of a MySQL version, 5.7 or later."""
    new = version >= (8, 0, 0)
    return Flavor(
        mariadb=False,
        version=version,
        integer_width_shown=version < (8, 0, 19),
        year_text="year" if version >= (8, 0, 19) else "year(4)",
        geometry_collection="geomcollection" if version >= (8, 0, 11) else "geometrycollection",
        explicit_timestamp_defaults=new,
        collations={"utf8mb4": "utf8mb4_0900_ai_ci"} if new else {},
        server_charset="utf8mb4" if new else "latin1",
    )
