"""A statement of a plan, and what it does to the tables of the plan's model.

The same effects are applied twice: when the plan is made, so that later statements fit; and when it is run, for the statements that the server took.
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

Tables = dict[str, Any]
"""The model: tables as their server's file ``tables.py`` has them, by the names that they have now."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a DDL statement does to a table when the server takes it. ``column`` holds the new column for add and modify.

    ``set`` gives the table's attribute ``name`` the value ``column``, ``instead`` puts the whole table ``column`` in its place, and ``swap`` exchanges the names
    of two.
    """

    what: Literal["add", "drop", "modify", "rename_column", "rename_table", "empty", "forget", "set", "instead", "swap"]
    table: str
    name: str = ""
    to: str = ""
    column: Any = None


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL, what kind it is (masks go by it), the tables it needs by their first names, and what it does to the schema."""

    sql: str
    kind: str
    tables: tuple[str, ...] = ()
    effect: Effect | None = None


def apply(model: Tables, effect: Effect) -> None:
    """Change the model as the server has changed the table."""
    table = model[effect.table]
    at = next((i for i, c in enumerate(table.columns) if c.name == effect.name), -1)
    match effect.what:
        case "add":
            assert effect.column is not None
            table.columns.append(effect.column)
        case "drop":
            del table.columns[at]
        case "modify":
            assert effect.column is not None
            table.columns[at] = effect.column
        case "rename_column":
            table.columns[at] = dataclasses.replace(table.columns[at], name=effect.to)
        case "rename_table":
            model[effect.to] = model.pop(effect.table)
            model[effect.to].name = effect.to
        case "forget":
            del model[effect.table]
        case "set":
            setattr(table, effect.name, effect.column)
        case "instead":
            model[effect.table] = copy.deepcopy(effect.column)
        case "swap":
            model[effect.table], model[effect.to] = model[effect.to], table
            table.name, model[effect.table].name = effect.to, effect.table
        case "empty":
            pass
