"""Builds the command that repairs tables, for messages. It must work when it is pasted from a
status, a JSON answer or a log.

JSON doubles each backslash, so patterns avoid it: a dot matches a dot, and ``[$]`` is a dollar. A
name of two parts has one dot, so no other table's name matches its text as a pattern. A name with
more dots has them in brackets, because ``a.b`` with the table ``c`` would match as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from dblog.model import TableId

_SPECIAL = re.compile(r"[$+*?(){}|]|[\\\[\]^]")


def table_pattern(table: TableId) -> str:
    """Return a regular expression that matches this table alone."""
    text = str(table)
    pattern = _SPECIAL.sub(lambda found: f"\\{found[0]}" if found[0] in "\\[]^" else f"[{found[0]}]", text)
    return pattern if text.count(".") == 1 else pattern.replace(".", "[.]")


def repair_command(connector: str, tables: Iterable[TableId]) -> str:
    """Return the command that requests a dump of these tables in mode repair."""
    patterns = " ".join(shlex.quote(table_pattern(table)) for table in tables)
    return f"dblog dumps start {shlex.quote(connector)} {patterns} --mode repair"
