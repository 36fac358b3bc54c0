"""A fresh dump of a table, and the server's own text of every value, from which follows what the record has (``support.generated_tables``)."""

from __future__ import annotations

import contextlib
from typing import Any

import pymysql
from chaos.check import Folded, Problem, Row, equal, few, json_value, shown
from chaos.mysql.tables import ChaosTable
from dblog.dialects.mysql.values.types import TypeModes
from stack.database import Database


def compare_select(
    source: Database, database: str, table: ChaosTable, modes: TypeModes, fresh: Folded, *, as_json: bool = False
) -> list[Problem]:
    """A fresh dump, and the server's own text of every value; ``as_json``: in the form of Kafka's JsonConverter."""
    names = columns_of(source, database, table.name)
    known = [c for c in table.columns if c.name in names]
    unknown = [c.name for c in table.columns if c.name not in names]
    problems = [Problem("model", table.name, f"the server has no column {unknown}: a fault of the test")] if unknown else []
    wanted = ", ".join(["`id`", *(c.kind.select.format(c=f"`{c.name}`") for c in known)])
    login = {**source.login, "database": database, "charset": "utf8mb4", "conv": dict(pymysql.converters.encoders)}
    with contextlib.closing(pymysql.connect(**login)) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone='+00:00'")
        cursor.execute(f"SELECT {wanted} FROM `{table.name}`")
        selected = list(cursor.fetchall())
    dumped = list(fresh.rows.values()) or fresh.unkeyed
    if len(dumped) != len(selected):
        problems.append(Problem("dump", table.name, f"{len(selected)} rows by SELECT, {len(dumped)} in a fresh dump"))
    by_id: dict[int, list[Row]] = {}
    for row in dumped:
        by_id.setdefault(row["id"], []).append(row)
    found: list[str] = []
    for cells in selected:
        expected = {c.name: _expected(c, cell, modes) for c, cell in zip(known, cells[1:], strict=True)}
        candidates = by_id.get(int(cells[0]), [])
        if as_json:
            expected = {name: json_value(value) for name, value in expected.items()}
        same = next((row for row in candidates if all(equal(value, row.get(name)) for name, value in expected.items())), None)
        if same is not None:
            candidates.remove(same)
            continue
        nearest = candidates[0] if candidates else {}
        wrong = {name: (value, nearest.get(name)) for name, value in expected.items() if not equal(value, nearest.get(name))}
        found.append(f"id {int(cells[0])}: selected and dumped {shown(wrong)}" if candidates else f"id {int(cells[0])} was not dumped")
    return problems + few("dump", table.name, found)


def columns_of(source: Database, database: str, table: str) -> list[str]:
    with contextlib.closing(pymysql.connect(**source.login)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (database, table),
        )
        return [str(name) for (name,) in cursor.fetchall()]


def _expected(column: Any, cell: Any, modes: TypeModes) -> Any:
    text = cell.decode() if isinstance(cell, bytes) else None if cell is None else str(cell)
    value = None if text is None else column.kind.record(text, modes)
    return column.kind.zero(modes) if value is None and not column.nullable else value
