"""``snapshot.select.statement.overrides``: tables with a SELECT of their own in the connector's
first dump, and the keys with the statements.

As in Debezium, the list names tables as ``database.table`` (or ``schema.table``), and a key below
it has the SELECT of each. Debezium silently dumps the whole table if a listed one has no SELECT, or
if a SELECT's table is not listed; both are errors here. The dialect decides which statements are
valid.
"""

from __future__ import annotations

from collections.abc import Mapping

from dblog.config.namespaces import Namespace

LIST = "snapshot.select.statement.overrides"
PREFIX = f"{LIST}."


def key_of(table: str) -> str:
    """Return the key of a table's SELECT."""
    return f"{PREFIX}{table}"


def select_overrides(
    properties: Mapping[str, str | None], *, namespace: Namespace = Namespace.DATABASE
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the statements by listed table, and the errors by key."""
    listed = [part.strip() for part in (properties.get(LIST) or "").split(",") if part.strip()]
    given = {
        name.removeprefix(PREFIX): statement for name, statement in properties.items() if name.startswith(PREFIX) and statement is not None
    }
    errors: dict[str, list[str]] = {}
    for table in listed:
        database, dot, name = table.partition(".")
        if not (dot and database and name):
            errors.setdefault(LIST, []).append(f"{table} is not a table; write it as {namespace}.table")
        elif not (given.get(table) or "").strip():
            errors.setdefault(LIST, []).append(
                f"{table} has no SELECT; give it in {key_of(table)}, such as SELECT * FROM {table} WHERE status = 'open', or take it out of the list"
            )
    for table in given:
        if table not in listed:
            errors[key_of(table)] = [f"{LIST} does not name {table}, so its SELECT would not be used; add it there, or remove the key"]
    # MySQL may ignore the case of names; in PostgreSQL names that differ in case are different
    # tables.
    if len({table if namespace is Namespace.SCHEMA else table.lower() for table in listed}) < len(listed):
        errors.setdefault(LIST, []).append("a table is named twice; name each once")
    return {table: given[table] for table in listed if given.get(table)}, errors
