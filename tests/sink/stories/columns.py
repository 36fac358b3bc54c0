"""Columns are renamed in any order that statements allow, are added with a default, or are selected later than they were made."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from sink.harness import Record, change
from sink.stories.play import Play
from support.registry_server import RegistryServer

_NAMES = ("a", "b", "c", "d")
_INT = ["null", "int"]


def reported(registry: RegistryServer, statement: str) -> Record:
    """Return a record of the topic of schema changes."""
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in ("databaseName", "schemaName", "ddl")]
    name, namespace = "SchemaChangeValue", "io.debezium.connector.mysql"
    schema = {"type": "record", "name": name, "namespace": namespace, "fields": fields, "connect.name": f"{namespace}.{name}"}
    out = io.BytesIO()
    out.write(b"\0" + registry.register(json.dumps(schema)).to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"databaseName": "shop", "schemaName": None, "ddl": statement})
    return Record(topic="p", key=None, value=out.getvalue())


def renames(play: Play) -> None:
    """Rename columns by statements that permute them; each value stays in the column that the source has it in."""
    dice = play.dice
    names = list(_NAMES[: dice.randint(2, 3)])
    met, at, rows = {tuple(names)}, 0, {}
    schemas = [play.schema(("id", "long"), *((name, _INT) for name in names))]

    def row(key: int, values: list[int], of: list[str]) -> dict[str, Any]:
        return {"id": key} | dict(zip(of, values, strict=True))

    def written(keys: list[int], op: str) -> list[Record]:
        nonlocal at
        records = []
        for key in keys:
            at += 1
            rows[key] = [100 * at + n for n in range(len(names))]
            records.append(change(schemas[-1], op, row(key, rows[key], names), at=at))
        return records

    play.write(*written([1, 2, 3], "c"))
    for number in range(dice.randint(1, 3)):
        to = dice.sample(_NAMES, len(names))
        if tuple(to) in met:  # a name that comes back leaves open how far the table is
            continue
        met.add(tuple(to))
        pairs = [f"RENAME COLUMN {old} TO {new}" for old, new in zip(names, to, strict=True) if old != new]
        statement = f"ALTER TABLE t {', '.join(pairs)}"
        play.done.append(statement)
        before, names = names, to
        late = change(schemas[-1], "r", row(1, [-1] * len(before), before), at=0)  # older than the row that is there
        schemas.append(play.schema(("id", "long"), *((name, _INT) for name in names)))
        report = reported(play.registry, statement)
        match dice.choice(["before", "with", "after"]):
            case "before":
                play.write(report)
                play.write(*written([2], "u"), late)
            case "with":
                play.write(report, *written([2, 10 + number], "u"), late)
            case "after":
                play.sink.history.setdefault("p", [])
                play.sink.history["p"] = [*play.sink.history["p"], report]
                play.write(*written([2], "u"), late)
                play.write(report)
    play.merged()
    play.expect(schemas[0], [row(key, values, names) for key, values in rows.items()])


def defaults(play: Play) -> None:
    """Add columns with a default, which older rows have in the source too, and select others later, of which older rows are unknown."""
    dice, sink = play.dice, play.sink
    late = dice.choice(["columns.exclude", "evolution", ""])
    added = dice.random() < 0.6
    status = ("status", {"type": "string", "connect.default": "new"})
    n = ("n", [{"type": "int", "connect.default": 5}, "null"])
    plain = [("id", "long"), ("v", "string")]
    first, second = play.schema(*plain), play.schema(*plain, status)
    expected = {1: {"id": 1, "v": "a"}, 2: {"id": 2, "v": "b", "status": "paid"}, 3: {"id": 3, "v": "c", "status": "sent"}}
    play.done.append(f"{f'status left out by {late}' if late else 'status added'}{', n added' if added else ''}")
    if late:
        sink.settings[f"table.t.{late}"] = "status" if late == "columns.exclude" else "ignore"
    play.write(change(first, "c", expected[1], at=1))
    play.write(change(second, "c", expected[2], at=2))
    if late:
        play.merged()
        play.restart()
        del sink.settings[f"table.t.{late}"]
    play.write(change(second, "c", expected[3], at=3))
    if late:  # what the rows of before have there nobody knows
        expected[2] |= {"status": None}
    expected[1] |= {"status": None if late else "new"}
    if added:
        third = play.schema(*plain, status, n)
        for one in expected.values():
            one["n"] = 5
        expected[4] = {"id": 4, "v": "d", "status": "sent", "n": None}
        play.write(change(third, "c", expected[4], at=4))
        if dice.random() < 0.5:
            expected[5] = {"id": 5, "v": "late", "status": "old", "n": 5}
            play.write(change(second, "r", {"id": 5, "v": "late", "status": "old"}, at=3))
    play.merged()
    play.expect(first, expected.values())
