"""The command that repairs tables, as messages name it: it has to work when it is pasted from a status, an answer in JSON or a log.

JSON doubles each backslash, so a pattern has none where it can be said otherwise: a dot matches a dot, and ``[$]`` is a dollar. A name of two parts has
one dot, so no other table's name matches the pattern of its text. A name with more dots has them in brackets, as ``a.b`` with the table ``c`` would match.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from dblog.model import TableId

_SPECIAL = re.compile(r"[$+*?(){}|]|[\\\[\]^]")


def table_pattern(table: TableId) -> str:
    """Return the regular expression that matches this table alone."""
    text = str(table)
    pattern = _SPECIAL.sub(lambda found: f"\\{found[0]}" if found[0] in "\\[]^" else f"[{found[0]}]", text)
    return pattern if text.count(".") == 1 else pattern.replace(".", "[.]")


def repair_command(connector: str, tables: Iterable[TableId]) -> str:
    """Return the command that requests a dump in mode repair of these tables."""
    patterns = " ".join(shlex.quote(table_pattern(table)) for table in tables)
    return f"dblog dumps start {shlex.quote(connector)} {patterns} --mode repair"
