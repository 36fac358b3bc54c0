"""A fresh dump of a table, and the server's rows: what the records have is put into a table of the server, which says where it differs.

The way back of each type is that of ``support.postgres_generated``. Records in JSON are brought into the form of Avro by their schemas before; without
schemas only the number of rows is compared.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from chaos.check import Folded, Form, Problem, few, shown
from chaos.postgres.tables import Column, PostgresTable
from dblog.dialects.postgres.values.modes import TypeModes

BATCH_ROWS = 200


def compare_select(cursor: Any, table: PostgresTable, name: str, modes: TypeModes, fresh: Folded, *, converter: str) -> list[Problem]:
    """``name``: of the table or of one of its partitions."""
    dumped = list(fresh.rows.values()) or fresh.unkeyed
    cursor.execute(f'SELECT count(*) FROM "{name}"')
    ((count,),) = cursor.fetchall()
    problems = [] if count == len(dumped) else [Problem("dump", name, f"{count} rows by SELECT, {len(dumped)} in a fresh dump")]
    if converter == "json-bare" or not dumped:
        return problems
    there = _columns(cursor, name)
    known = [c for c in table.compared if c.kind.known(modes) and c.name in there]
    unknown = [c.name for c in table.compared if c.name not in there]
    if unknown:
        problems.append(Problem("model", name, f"the server has no column {unknown}: a fault of the test"))
    recorded = {column for row in dumped for column in row}
    if lacking := [c.name for c in known if c.name not in recorded]:
        return [*problems, Problem("dump", name, f"records have no column {lacking}")]
    kept = {c.name: (c.kind.ddl, "{c}") if c.kind.kept is None else c.kind.kept(modes) for c in known}
    cursor.execute("DROP TABLE IF EXISTS back")
    cursor.execute("CREATE TEMPORARY TABLE back (" + ", ".join(f'"{c.name}" {kept[c.name][0]}' for c in known) + ")")
    forms = [fresh.forms[key] for key in fresh.rows] or fresh.unkeyed_forms
    values = [f"({', '.join(_back(c, row, of, modes) for c in known)})" for row, of in zip(dumped, forms, strict=True)]
    for first in range(0, len(values), BATCH_ROWS):
        cursor.execute("INSERT INTO back VALUES " + ", ".join(values[first : first + BATCH_ROWS]))
    held = ", ".join(_held(c, kept[c.name], modes) for c in known)
    back = ", ".join(f'"{c.name}"::text COLLATE "C"' for c in known)
    selected, given_back = f'SELECT {held} FROM "{name}"', f"SELECT {back} FROM back"
    cursor.execute(f"({given_back}) EXCEPT ALL ({selected})")
    others = {row[0]: row for row in cursor.fetchall()}
    cursor.execute(f"({selected}) EXCEPT ALL ({given_back}) ORDER BY 1")
    found = []
    for row in cursor.fetchall():
        mine = others.get(row[0], (None,) * len(known))
        wrong = {c.name: (one, other) for c, one, other in zip(known, row, mine, strict=True) if one != other}
        found.append(f"id {row[0]}: selected and dumped {shown(wrong)}")
    return problems + few("dump", name, found)


def _columns(cursor: Any, name: str) -> list[str]:
    cursor.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        (f'"{name}"',),
    )
    return [str(found) for (found,) in cursor.fetchall()]


def _held(column: Column, kept: tuple[str, str], modes: TypeModes) -> str:
    """What a record holds of a column, as text."""
    of, expression = kept
    name = f'"{column.name}"'
    condition = column.kind.unfit(modes)
    unfit = "false" if condition is None else f"coalesce({condition.format(c=name)}, false)"
    return f'(CASE WHEN NOT {unfit} THEN ({expression.format(c=name)})::{of}::text END) COLLATE "C"'


def _back(column: Column, row: dict[str, Any], forms: dict[str, Form], modes: TypeModes) -> str:
    value = avro_value(row[column.name], forms.get(column.name))
    return "NULL" if value is None else column.kind.back(value, modes)


def avro_value(value: Any, form: Form | None) -> Any:
    """A value of JSON as Avro has it: bytes are no text in base64, and NaN is a number."""
    if form is None or value is None:
        return value
    if isinstance(value, list):
        return [avro_value(one, form) for one in value]
    if isinstance(value, str) and form.kind == "bytes":
        return b64decode(value)
    if isinstance(value, str) and form.kind in ("float", "double"):
        return float(value)
    if isinstance(value, dict) and form.kind == "struct":
        return {name: b64decode(one) if name in ("wkb", "value") and isinstance(one, str) else one for name, one in value.items()}
    return value
