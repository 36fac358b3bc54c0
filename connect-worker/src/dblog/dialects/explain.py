"""The effects of a DDL statement, computed without running it: on the records' columns, on old
rows, on the registry's subjects, and on the Delta table.

The statement is parsed like one from the log, on top of the schemas in the connector's history. The
answer is plain values for JSON. It contains names and types, but no row, no secret and no other
part of the statement's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dblog.abort import Abort
from dblog.codecs.compatibility import Level, SchemaVersion, check_level
from dblog.codecs.plan import TablePlan
from dblog.codecs.schema import Kind, Schema
from dblog.config.namespaces import namespace_of
from dblog.core.changes import (
    AlterTable,
    Change,
    CreateTable,
    DropDatabase,
    DropTable,
    Ignored,
    RenameTable,
    TruncateTable,
    Unknown,
)
from dblog.core.selection import Selection
from dblog.core.timeline import AFTER_ALL, Timeline
from dblog.dialects.registry import kind_of
from dblog.dialects.tasks import Parts, parts_of
from dblog.errors import DefiniteError
from dblog.kafka.converters import AvroConverter
from dblog.model import Column, Table, TableId
from dblog.readers.start import dumps

INTEGERS = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)
DECIMAL = "org.apache.kafka.connect.data.Decimal"
STOPS = (
    "cannot be widened: the sink stops this table; rename or drop the column in the Delta table, or move the table away and dump it again"
)


def explain(
    config: Mapping[str, str], worker: Mapping[str, str], statement: str, *, database: str | None, limit_s: float, abort: Abort
) -> dict[str, Any]:
    """Return the effects of ``statement`` on a connector's tables. Reads the history topic, and
    asks the server and the registry. ``config`` must have its secrets resolved.

    Waits for each of them at most ``limit_s``; ``abort`` ends every wait.
    """
    parts = parts_of(config, worker, task=0)
    registries = [converter.registry for converter in parts.records.converters() if converter.registry is not None]
    for registry in registries:
        registry.cut_by(abort, limit_s=limit_s)
    return _effects(parts, statement, database, limit_s, abort)


def _effects(parts: Parts, statement: str, database: str | None, limit_s: float, abort: Abort) -> dict[str, Any]:
    selection = Selection.from_settings(
        parts.settings.originals, namespace=namespace_of(parts.settings), builtin=parts.source.builtin_databases
    )
    timeline = Timeline(captured=selection.includes)
    history = parts.history.open(abort)
    try:
        history.recover(timeline)
    finally:
        history.close()
    if not timeline.tables() and not timeline.databases:
        message = "the connector has no schema history yet, so nothing is known of its tables; let it run once, then ask again"
        raise DefiniteError(message)
    default = _default_database(database, timeline)
    effects = kind_of(parts.flavor).effects(parts.settings, statement, timeline, database=default, limit_s=limit_s, abort=abort)
    changes, rewritten = effects.changes, effects.rewritten
    lookup = timeline.lookup_before(AFTER_ALL)
    redumps = parts.settings.text("dblog.ddl.redump") == "changed"
    is_dumped = dumps(parts.settings.text("snapshot.mode"), parts.settings.originals.get("snapshot.include.collection.list"))
    tables = []
    for what, old, new, before, after in _steps(changes, lookup, timeline):
        entry = _table(parts, what, old, new, before, after)
        named = new or old
        entry["captured"] = selection.includes(named)
        entry["rows"] = rewritten.get(named)
        entry["dumped_again"] = bool(entry["captured"] and redumps and is_dumped(named) and named in rewritten)
        tables.append(entry)
    return {
        "understood": not any(isinstance(change, Unknown) for change in changes),
        "tables": tables,
        "no_effect": [change.reason for change in changes if isinstance(change, Ignored)],
    }


def _default_database(given: str | None, timeline: Timeline) -> str:
    if given:
        return given
    databases = {table.id.database for table in timeline.captured_tables()}
    return databases.pop() if len(databases) == 1 else ""


Step = tuple[str, TableId, TableId | None, Table | None, Table | None]


def _steps(changes: tuple[Change, ...], lookup: Callable[[TableId], Table | None], timeline: Timeline) -> list[Step]:
    """Return (what, old name, new name, table before, table after) for each table of the statement."""
    made: dict[TableId, Table | None] = {}

    def known(id_: TableId) -> Table | None:
        return made[id_] if id_ in made else lookup(id_)

    steps: list[Step] = []
    for change in changes:
        match change:
            case AlterTable(id_, table):
                steps.append(("altered" if table.id == id_ else "altered and renamed", id_, table.id, known(id_), table))
                made |= {id_: None, table.id: table}
            case CreateTable(table, only_if_absent):
                old = known(table.id)
                if not (only_if_absent and old is not None):
                    steps.append(("created" if old is None else "replaced", table.id, table.id, old, table))
                    made[table.id] = table
            case DropTable(ids):
                steps += [("dropped", id_, None, known(id_), None) for id_ in ids]
                made |= dict.fromkeys(ids)
            case RenameTable(pairs):
                for old_id, new_id in pairs:
                    steps.append(("renamed", old_id, new_id, known(old_id), known(old_id)))
                    made |= {new_id: known(old_id), old_id: None}
            case TruncateTable(id_):
                steps.append(("truncated", id_, id_, known(id_), known(id_)))
            case DropDatabase(name):
                steps += [("dropped", t.id, None, t, None) for t in timeline.captured_tables() if t.id.database == name]
            case Unknown(ids, reason):
                steps += [
                    (
                        f"not understood ({reason}): the table is read from the server when the log reaches the statement",
                        id_,
                        id_,
                        known(id_),
                        None,
                    )
                    for id_ in ids
                ]
            case _:
                pass
    return steps


def _table(parts: Parts, what: str, old: TableId, new: TableId | None, before: Table | None, after: Table | None) -> dict[str, Any]:
    plan_before = None if before is None else parts.records.schemas(before)
    plan_after = None if after is None else parts.records.schemas(after)
    return {
        "table": str(old),
        "becomes": None if new is None else str(new),
        "what": what,
        "columns": column_changes(before, after),
        "key": {"before": list(before.key) if before else None, "after": list(after.key) if after else None},
        "topic": plan_after.topic if plan_after is not None else None if plan_before is None else plan_before.topic,
        "registry": [] if plan_after is None else _registry(parts, plan_after),
        "delta": delta_changes(plan_before, plan_after, renamed=new is not None and new != old),
    }


def column_changes(before: Table | None, after: Table | None) -> list[dict[str, Any]]:
    """Return an entry for each column that the statement adds, changes or drops, and one for a
    changed column order.
    """
    if after is None and before is not None:
        return []
    old = {c.name.lower(): c for c in (before.columns if before else ()) if not c.hidden}
    new = {c.name.lower(): c for c in (after.columns if after else ()) if not c.hidden}
    entries: list[dict[str, Any]] = []
    for name, column in new.items():
        known = old.get(name)
        if known is None:
            entries.append({"column": column.name, "change": "added", "before": None, "after": described(column)})
        elif described(known) != described(column):
            entries.append({"column": column.name, "change": "changed", "before": described(known), "after": described(column)})
    entries += [
        {"column": c.name, "change": "dropped", "before": described(c), "after": None} for name, c in old.items() if name not in new
    ]
    kept_before, kept_after = [n for n in old if n in new], [n for n in new if n in old]
    if kept_before != kept_after:
        entries.append({"column": None, "change": "order", "before": ", ".join(old), "after": ", ".join(new)})
    return entries


def described(column: Column) -> str:
    """Return the text that would declare the column, with lower-case keywords."""
    words = [column.type_text]
    if column.charset and column.type != "json":
        words.append(f"charset {column.charset}")
    if not column.nullable:
        words.append("not null")
    if column.generated:
        words.append("generated")
    elif column.auto_increment:
        words.append("auto_increment")
    elif column.default is not None:
        words.append("default (an expression)" if column.default_is_expression else f"default '{column.default}'")
    return " ".join(words)


def _registry(parts: Parts, plan: TablePlan) -> list[dict[str, Any]]:
    entries = []
    for converter, schema in zip(parts.records.converters(), (plan.key_schema, plan.value_schema), strict=True):
        if not isinstance(converter, AvroConverter) or schema is None:
            continue
        subject, text = converter.described(plan.topic, schema)
        versions, level = converter.registry.versions(subject), converter.registry.level(subject)
        problems = check_level(SchemaVersion(text), [SchemaVersion(version) for version in versions], Level(level))
        entries.append(
            {"subject": subject, "level": level, "versions": len(versions), "new_version": text not in versions, "problems": problems}
        )
    return entries


def delta_changes(before: TablePlan | None, after: TablePlan | None, *, renamed: bool = False) -> list[dict[str, str]]:
    """Return the changes that the sink makes to the Delta table. They follow from the records'
    types, as in spark-sink's evolve.py.
    """
    if after is None:
        return [] if before is None else [{"column": "", "effect": "the Delta table stays as it is; nothing more is written to it"}]
    if before is None:
        return [{"column": "", "effect": "a Delta table is made when its first row arrives"}]
    entries = []
    if renamed:
        entries.append({"column": "", "effect": "rows go to the Delta table of the new topic from then on; the old one stays as it is"})
    old, new = _fields(before), _fields(after)
    for name, schema in new.items():
        effect = (
            "added; NULL in rows written before, until the table is dumped again" if name not in old else _type_change(old[name], schema)
        )
        if effect is not None:
            entries.append({"column": name, "effect": effect})
    entries += [{"column": name, "effect": "kept; NULL in every row written from then on"} for name in old if name not in new]
    return entries


def _fields(plan: TablePlan) -> dict[str, Schema]:
    row = next(f.schema for f in plan.value_schema.fields if f.name == "after")
    return {f.name: f.schema for f in row.fields}


def _type_change(old: Schema, new: Schema) -> str | None:
    if (old.kind, old.name, old.parameters) == (new.kind, new.name, new.parameters):
        return None
    if old.kind in INTEGERS and new.kind in INTEGERS and old.name == new.name:
        wider = INTEGERS.index(new.kind) > INTEGERS.index(old.kind)
        return "widened" if wider else "kept as wide as it is"
    if (old.kind, new.kind) == (Kind.FLOAT32, Kind.FLOAT64):
        return "widened"
    if (old.kind, new.kind) == (Kind.FLOAT64, Kind.FLOAT32):
        return "kept as wide as it is"
    if old.name == new.name == DECIMAL:
        return "widened as far as precision and scale need"
    if (old.kind, old.name) == (new.kind, new.name) == (Kind.STRING, old.name):
        return None
    return STOPS
