"""A dump that compares shows exactly which rows of a table are not its source's, whatever happens on the way, and is silent on what it cannot know."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from dblog_sink.config import job_options
from dblog_sink.delta import log_cleanup
from dblog_sink.query.verified import answer, verified
from sink.harness import Record, Sink, change
from sink.reconcile.test_ghosts import LOW_MS, MARKERS, dumped, logged, looked, row, stopped_once_at, table
from support.chunk_markers import chunk_marker, in_avro, in_json
from support.envelopes import TableSchema
from support.json_lines import json_lines
from support.registry_server import RegistryServer

Row = dict[str, Any]


def shown(one: TableSchema, rows: Iterable[Row]) -> bytes:
    """The fingerprints of these rows."""
    value = one.value_schema["fields"][0]["type"][1]
    return b"".join(part for given in rows for part in (_part(one.key_schema, given), _part(value, given)))


def _part(schema: dict[str, Any], given: Row) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {field["name"]: given[field["name"]] for field in schema["fields"]})
    return hashlib.md5(out.getvalue(), usedforsecurity=False).digest()[:8]


def compared(
    one: TableSchema, chunk_id: str, rows: Iterable[Row], *, low: int, dump: str = "v1", as_json: bool = False, **facts: Any
) -> Record:
    """The marker of a chunk that had these rows, which no change in its window touched."""
    rows = list(rows)
    schemas = {"key": json.dumps(one.key_schema), "row": json.dumps(one.value_schema["fields"][0]["type"][1])}
    given: dict[str, Any] = {"fingerprints": shown(one, rows), "schemas": schemas} | facts
    made = chunk_marker(one.topic, chunk_id=chunk_id, low=(1, low << 23), read=len(rows), dump=dump, mode="verify", ts_ms=LOW_MS, **given)
    return Record(topic=MARKERS, key=None, value=in_json(made) if as_json else in_avro(one.registry, made))


def whole(one: TableSchema, rows: Iterable[Row], *, low: int = 200, dump: str = "v1", **facts: Any) -> list[Record]:
    """A whole dump of these rows: a chunk for the first of them and one for the others."""
    first, *others = rows
    return [
        compared(one, f"{dump}/1", [first], low=low, dump=dump, begins=True, upto="[1]", **facts),
        compared(one, f"{dump}/2", others, low=low + 10, dump=dump, after="[1]", upto="[9]", final=True, **facts),
    ]


def verdicts(sink: Sink) -> list[tuple[str, str, str]]:
    """Table, result, reason."""
    return [(line["table"], line["result"], line["why"]) for line in _lines(sink)]


def counts(sink: Sink) -> dict[str, int]:
    """Of the last verdict, what is not 0."""
    last = _lines(sink)[-1]
    return {name: last[name] for name in ("equal", "differing", "missing", "invented", "changed") if last[name]}


def named(sink: Sink, one: TableSchema) -> set[tuple[str, str | None, str | None]]:
    """What the newest verdict names: what is wrong, the key, and the end of the chunk."""
    (found,) = verified(sink.spark, job_options.parse(sink.given), table=one.topic)
    return {(each["sign"], each["key"], each["upto"]) for each in found.keys}


def _lines(sink: Sink) -> list[dict[str, Any]]:
    lines = json_lines(sink.folder / "progress.jsonl")
    return [line for line in lines if line["kind"] == "verified"]


def rewritten(sink: Sink, one: TableSchema, rows: list[tuple[Any, ...]]) -> None:
    """Somebody writes these rows in place of the table's own."""
    kinds = "id BIGINT, v STRING, _dblog_seq1 BIGINT, _dblog_seq2 BIGINT"
    sink.spark.createDataFrame(rows, kinds).write.format("delta").mode("overwrite").save(sink.path(one))


@pytest.fixture
def counting(sink: Sink) -> Sink:
    sink.settings |= {"chunks.wait.s": "0", "topics.pattern": r"p\..*"}
    return sink


@pytest.mark.parametrize("healed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["found", "and healed"])
def test_rows_that_were_damaged_deleted_and_invented_are_found_and_named_and_no_others(
    counting: Sink, registry: RegistryServer, healed: bool
) -> None:
    sink, items = counting, table(registry, "items")
    sink.batch(*logged(items, 1, 2, 3, 4, 5, 6), *logged(items, 8, op="d"))
    rows = [(1, "a", 1, 101 << 23), (2, "damaged", 1, 102 << 23), *((key, "a", 1, (100 + key) << 23) for key in (4, 5, 6)), (77, "x", 1, 5)]
    rewritten(sink, items, rows)

    # 4 was changed in the window of its chunk, 5 and 6 behind it; 7 came later, 8 is another one than the deleted row.
    first, last = whole(items, [row(key) for key in (1, 2, 3, 5, 6, 8)])
    since = [*logged(items, 4, at=210, op="u", value="b"), *logged(items, 5, at=300, op="u", value="b"), *logged(items, 6, at=300, op="d")]
    met = stopped_once_at(sink, "compared")
    sink.killed()
    sink.batch(first, *since, *logged(items, 7, at=300), last)
    looked(sink.killed(), items)

    assert met == ["compared"]
    assert verdicts(sink) == [("shop.items", "differing", "")]
    assert counts(sink) == {"equal": 1, "differing": 1, "missing": 2, "invented": 1, "changed": 4}
    assert named(sink, items) == {
        ("differing", '{"id":2}', None),
        ("missing", None, "[9]"),
        ("invented", '{"id":77}', None),
    }
    lines, status = answer(verified(sink.spark, job_options.parse(sink.given), table="shop.items"), as_json=False)
    assert lines[0].startswith("shop.items: differing: 1 equal, 1 differing, 2 missing, 1 invented, 4 changed; dump v1, ")
    missing = "  missing: a key after [1] and up to [9]"
    assert (sorted(lines[1:]), status) == (['  differing: {"id":2}', '  invented: {"id":77}', missing, missing], 1)
    assert "damaged" not in (sink.folder / "progress.jsonl").read_text()
    assert all(log_cleanup.may_clean(sink.spark, f"{sink.base}/_dblog/{name}") for name in ("fingerprints", "verified"))

    if not healed:
        return
    # After a repair the next one finds nothing; a verdict is given once, and nothing is kept of what was compared.
    sink.killed()
    repair = {"dump": "d1", "mode": "repair", "ts_ms": LOW_MS}
    brought = (*dumped(items, 1, 2, 3, 8, low=400, value="a"), *dumped(items, 4, 5, low=400, value="b"), *dumped(items, 7, low=400))
    made = chunk_marker(items.topic, chunk_id="r", low=(1, 400 << 23), read=7, begins=True, final=True, **repair)
    sink.batch(*brought, Record(topic=MARKERS, key=None, value=in_avro(registry, made)))
    looked(sink, items)
    left = [row(1), row(2), row(3), row(4, "b"), row(5, "b"), row(7, "dumped"), row(8)]
    sink.batch(*whole(items, left, low=500, dump="v2", as_json=True))
    looked(sink, items)
    assert (verdicts(sink)[1:], counts(sink)) == ([("shop.items", "equal", "")], {"equal": 7})
    lines, status = answer(verified(sink.spark, job_options.parse(sink.given)), as_json=True)
    assert [(json.loads(line)["result"], status) for line in lines] == [("equal", 0)]
    assert sink.spark.read.format("delta").load(f"{sink.base}/_dblog/fingerprints").count() == 0


def results(sink: Sink) -> dict[str, tuple[str, str, dict[str, int]]]:
    """By table without its database, the last result, its reason, and what was counted."""
    return {
        line["table"].removeprefix("shop."): (
            line["result"],
            line["why"],
            {name: line[name] for name in ("equal", "differing", "missing", "invented", "changed") if line[name]},
        )
        for line in _lines(sink)
    }


@pytest.mark.long
def test_what_cannot_be_compared_is_unknown_and_says_why(counting: Sink, registry: RegistryServer) -> None:
    sink = counting
    names = ("changes", "hidden", "hurt", "keyed", "cast", "middle", "old", "lost", "part", "empty", "emptied", "none", "broken")
    tables = {name: table(registry, name) for name in names}
    sink.settings |= {
        "table.a.match": r"shop\.changes",
        "table.a.mode": "append",
        "table.b.match": r"shop\.(hidden|hurt)",
        "table.b.columns.exclude": "v",
        "table.c.match": r"shop\.keyed",
        "table.c.keys": "v",
    }
    there = [record for name, one in tables.items() if name not in ("none", "empty") for record in logged(one, 1, 2)]
    sink.batch(*there, *logged(tables["empty"], 1), *logged(tables["empty"], 1, op="d", at=102))
    sink.spark.sql(f"ALTER TABLE delta.`{sink.path(tables['cast'])}` ADD COLUMN v__v2 BIGINT")
    sink.spark.sql(f"DELETE FROM delta.`{sink.path(tables['hurt'])}` WHERE id = 2")
    dumps = {name: whole(one, [row(1), row(2)]) for name, one in tables.items()}
    dumps["middle"] = dumps["middle"][1:]
    dumps["old"] = whole(tables["old"], [row(1), row(2)], fingerprints=None, schemas=None)
    dumps["part"] = whole(tables["part"], [row(1)], scope="predicate")
    nothing = {"begins": True, "final": True, "upto": None}
    dumps["empty"], dumps["emptied"] = ([compared(tables[name], name, [], low=200, **nothing)] for name in ("empty", "emptied"))
    dumps["broken"] = whole(tables["broken"], [row(1), row(2)], schemas={"key": "{", "row": "{"})

    sink.batch(*(record for one in dumps.values() for record in one))
    sink.pipeline.arrivals.lose(["p.shop.lost"])
    looked(sink.killed(), *tables.values())

    assert results(sink) == {
        "changes": ("unknown", "the table is a list of changes (mode append), not the source's rows", {}),
        "hidden": ("unknown", "only its keys are compared: column v: it is left out (columns.include, columns.exclude)", {}),
        "hurt": ("differing", "only its keys are compared: column v: it is left out (columns.include, columns.exclude)", {"missing": 1}),
        "keyed": ("unknown", "its keys cannot be compared: the source's key is (id), and the table's is (v)", {}),
        "cast": ("unknown", "only its keys are compared: column v: its values are in more than one column (evolution.incompatible)", {}),
        "middle": ("unknown", "its first chunk was not met", {}),
        "old": ("unknown", "its markers have no fingerprints; use a newer worker", {}),
        "lost": ("unknown", "records of the topic were lost while it ran, or right before", {}),
        "part": ("equal", "", {"equal": 1, "changed": 1}),
        "empty": ("equal", "", {}),
        "emptied": ("differing", "", {"invented": 2}),
        "none": ("unknown", "there is no table", {}),
        "broken": ("unknown", "its keys cannot be compared: a schema in its markers cannot be read", {}),
    }
    # What is missing of a dump may come: the verdict of before was not the last one.
    sink.killed()
    sink.batch(*whole(tables["middle"], [row(1), row(2)])[:1], *whole(tables["emptied"], [row(1)], low=400, dump="v2")[:1])
    looked(sink, *tables.values())
    assert results(sink)["middle"] == ("equal", "", {"equal": 2})
    sink.batch(*whole(tables["emptied"], [row(1), row(2)], low=500, dump="v3"))
    looked(sink, *tables.values())
    last = [(line["dump"], line["result"]) for line in _lines(sink)][-2:]
    assert sorted(last) == [("v2", "unknown"), ("v3", "equal")]  # overtaken
    left = sink.spark.read.format("delta").load(f"{sink.base}/_dblog/fingerprints").select("topic").distinct().collect()
    assert left == []


@pytest.mark.long
def test_a_dump_that_the_version_before_met_the_beginning_of_is_compared(counting: Sink, registry: RegistryServer) -> None:
    sink, items = counting, table(registry, "items")
    first, last = whole(items, [row(1), row(2)])
    sink.batch(*logged(items, 1, 2), first)
    sink.restarted()
    path = f"{sink.base}/_dblog/fingerprints"
    earlier = sink.spark.read.format("delta").load(path).drop("low_ts_ms")
    earlier.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)

    sink.batch(last)
    looked(sink, items)

    assert verdicts(sink) == [("shop.items", "equal", "")]


@pytest.mark.long
def test_kills_a_second_sink_and_a_parked_table_change_no_verdict(counting: Sink, registry: RegistryServer) -> None:
    sink, items, parked = counting, table(registry, "items"), table(registry, "parked")
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000"}  # all of it lands, and waits for its merge
    met = stopped_once_at(sink, "fingerprints_kept", "compared")
    sink.batch(*logged(items, 1, 2), *logged(parked, 1, 2))
    sink.book.park(parked.topic, "asked for")
    sink.killed()
    first, last = whole(items, [row(1, "new"), row(2)])
    batch = (*logged(items, 1, at=140, op="u", value="new"), first, *whole(parked, [row(1), row(3)]))
    with pytest.raises(OSError, match="fingerprints_kept"):
        sink.land(*batch)
    sink.killed()
    sink.repeat(sink.batch_id, batch)
    sink.batch_id += 1
    sink.query_id = "q2"  # another checkpoint, which reads all of it again
    sink.restarted()
    sink.land(*batch, last)
    looked(sink.killed(), items, parked)
    looked(sink, items, parked)

    assert met == ["fingerprints_kept", "compared"]
    assert verdicts(sink) == [("shop.parked", "waits", "the table is parked: asked for"), ("shop.items", "equal", "")]
    assert counts(sink) == {"equal": 2}

    sink.book.unpark(parked.topic)
    looked(sink.killed(), items, parked)
    assert verdicts(sink)[2:] == [("shop.parked", "differing", "")]
    assert counts(sink) == {"equal": 1, "missing": 1, "invented": 1}


@pytest.mark.long
def test_rows_are_compared_as_the_table_has_them_now_after_columns_were_added_widened_and_renamed(
    counting: Sink, registry: RegistryServer
) -> None:
    sink = counting
    kinds: dict[str, Any] = {"id": "int", "n": ["null", "int"], "v": ["null", "string"]}
    before = TableSchema(topic="p.shop.items", columns=list(kinds.items()), registry=registry)
    later = {"id": "long", "n": ["null", "long"], "v": ["null", "string"], "added": {"type": "int", "connect.default": 7}}
    after = replace(before, columns=list(later.items()))
    old = [{"id": key, "n": -key, "v": "a"} for key in (1, 2, 3, 4)]
    sink.batch(*(change(before, "c", one, at=100 + one["id"], sequenced=True) for one in old))
    new = {"id": 5, "n": 2**40, "v": "b", "added": 8}
    sink.batch(compared(before, "v1/1", old[:2], low=200, begins=True, upto="[2]"))
    # The columns change while the dump runs: the second chunk has the new ones, and rows of before have the default.
    grown = [one | {"added": 7} for one in old[2:]]
    sink.batch(change(after, "c", new, at=210, sequenced=True))
    rest = compared(after, "v1/2", [*grown, new], low=220, after="[2]", upto="[5]", final=True, schemas=_schemas(after, key_of=before))
    sink.batch(rest)
    sink.spark.sql(f"UPDATE delta.`{sink.path(before)}` SET added = 9 WHERE id = 4")
    sink.spark.sql(f"UPDATE delta.`{sink.path(before)}` SET n = 4294967295 WHERE id = 2")
    looked(sink, before)

    assert verdicts(sink) == [("shop.items", "differing", "")]
    assert counts(sink) == {"equal": 3, "differing": 2}
    assert named(sink, before) == {("differing", '{"id":2}', None), ("differing", '{"id":4}', None)}


def _schemas(one: TableSchema, *, key_of: TableSchema) -> dict[str, str]:
    return {"key": json.dumps(key_of.key_schema), "row": json.dumps(one.value_schema["fields"][0]["type"][1])}


@pytest.mark.long
def test_histories_soft_deletes_doubled_rows_and_deletes_without_a_record_are_judged_as_what_they_are(
    counting: Sink, registry: RegistryServer
) -> None:
    sink = counting
    names = ("versions", "marked", "doubled", "compacted", "truncated")
    tables = {name: table(registry, name) for name in names}
    sink.settings |= {"table.h.match": r"shop\.versions", "table.h.mode": "history"}
    sink.settings |= {"table.m.match": r"shop\.marked", "table.m.soft.delete": "gone"}
    sink.compacted = {tables["compacted"].topic}
    sink.batch(*(record for one in tables.values() for record in logged(one, 1, 2, 3)))
    both = [tables["versions"], tables["marked"]]
    sink.batch(*(record for one in both for record in (*logged(one, 1, at=120, op="u", value="b"), *logged(one, 2, at=120, op="d"))))
    doubled = sink.read(tables["doubled"]).where("id = 2")
    doubled.write.format("delta").mode("append").save(sink.path(tables["doubled"]))
    dumps = {name: whole(one, [row(1), row(2), row(3)]) for name, one in tables.items()}
    for one in both:
        dumps[one.topic.removeprefix("p.shop.")] = whole(one, [row(1, "b"), row(2), row(3)])
    null = Record(topic=tables["compacted"].topic, key=tables["compacted"].key_bytes({"id": 2}), value=None)
    truncate = change(tables["truncated"], "t", row(0), at=300, sequenced=True)
    later = [record for one in both for record in logged(one, 3, at=400, op="d")]

    sink.batch(*(record for one in dumps.values() for record in one), null, replace(truncate, key=None), *later)
    looked(sink, *tables.values())

    assert results(sink) == {
        "versions": ("differing", "", {"equal": 1, "missing": 1, "changed": 1}),
        "marked": ("differing", "", {"equal": 1, "missing": 1, "changed": 1}),
        "doubled": ("differing", "", {"equal": 2, "differing": 1}),
        "compacted": ("equal", "", {"equal": 2, "changed": 1}),
        "truncated": ("equal", "", {"changed": 3}),
    }
