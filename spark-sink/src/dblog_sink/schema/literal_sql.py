"""Recognizes SQL of literals, as ``types.sql_literal`` writes a column's default. Pure.

The SQL of a default is kept in a property of its Delta table and is part of later statements.
Anybody who may write the lake's folder can put any property there, and SQL of Spark calls Java and
reads files with the sink's rights. So only this SQL is taken back: texts, numbers, and the
functions with which the sink converts them. It names no column, table or file, and no function
beside these.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\s+"
    r"|[rR]'[^']*'"  # a raw text ends at the next quote, whatever precedes it
    r"|'(?:[^'\\]|\\.)*'"
    r"|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?[LD]?(?![A-Za-z0-9_])"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|->|<=>|<=|>=|<>|-(?!-)|/(?!\*)|[+%*(),.\[\]=<>]",
    re.DOTALL,
)
"""A token of Spark's SQL. It has no comments, names in quotes, variables or semicolons."""

_KEYWORDS = "AND AS BETWEEN CASE CAST DIV ELSE END IF IS NOT NULL OR RLIKE THEN WHEN X FALSE TRUE"
_TYPES = "ARRAY BIGINT BINARY DATE DECIMAL DOUBLE FLOAT INT SMALLINT STRING TIMESTAMP TIMESTAMP_NTZ TINYINT"
_FUNCTIONS = """
abs aggregate array array_join array_repeat ceil coalesce concat conv date_from_unix_date exists from_avro get greatest hex left length lpad ltrim
named_struct regexp_extract_all regexp_replace reverse right rtrim sequence substring startswith timestamp_micros timestamp_millis transform
try_cast try_parse_json unhex
"""
_VARIABLES = "a carry d done i j n s t w x"
"""Variables of the functions above, and the fields of their structs."""
_WORDS = frozenset(f"{_KEYWORDS} {_TYPES} {_FUNCTIONS} {_VARIABLES}".lower().split())


def is_literal(sql: str) -> bool:
    """Return True if the SQL consists of literals and of the sink's own conversions of them."""
    at = 0
    while at < len(sql):
        token = _TOKEN.match(sql, at)
        if token is None or ((word := token["word"]) is not None and word.lower() not in _WORDS):
            return False
        at = token.end()
    return True
