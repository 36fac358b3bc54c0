"""Tables beside each other: of several sources under one name, parked while others go on, and with records in quarantine that come back."""

from __future__ import annotations

from dblog_sink.delta.merge import Txn
from dblog_sink.job.commands import Command
from dblog_sink.job.replay import replay, version_of
from sink.harness import Record, change
from sink.stories.play import Play
from support.envelopes import TableSchema

_GROUP = 256
"""Batches that share a partition of the landing table."""


def one_name(play: Play) -> None:
    """Tables of several sources have one name: each has its rows, its path among those that are claimed, and is parked by itself."""
    dice, sink = play.dice, play.sink
    sink.settings["target.template"] = "{base}/{prefix}/{db}/{table}"
    sources = [f"s{n}" for n in range(1, dice.randint(2, 4) + 1)]
    # Topics in which other characters than Kafka's were replaced meet in the same way.
    tables = {one: play.schema(("id", "long"), ("v", "string"), topic=f"{one}.shop.{dice.choice(['t', 'a_b', 'a-b'])}") for one in sources}
    rows: dict[str, dict[int, str]] = {one: {} for one in sources}
    parked = dice.choice([None, *sources])
    at = 0
    for number in range(dice.randint(2, 4)):
        if number == 1 and parked is not None:
            play.merged()
            sink.book.park(tables[parked].topic, "a person asked for it")
        batch = []
        for one in sources:
            at += 1
            key = dice.randrange(3)
            op = "u" if key in rows[one] else "c"
            rows[one][key] = f"{one} {at}"
            batch.append(change(tables[one], op, {"id": key, "v": rows[one][key]}, at=at))
        play.write(*batch)
    play.merged()
    paths = {one: f"{sink.base}/{one}/{tables[one].topic.split('.', 1)[1].replace('.', '/')}" for one in sources}
    missed = set(paths.values()) - set(sink.writer.paths().values())
    play.sure(not missed, f"tables that nobody vacuums or claims: {sorted(missed)}")
    play.sure(set(sink.book.parked()) == ({tables[parked].topic} if parked else set()), f"parked: {sink.book.parked()}")
    if parked is not None:
        play.unpark(tables[parked].topic)
        play.merged()
    for one in sources:
        frame = sink.spark.read.format("delta").load(paths[one])
        found = {row["id"]: row["v"] for row in frame.collect()}
        play.sure(found == rows[one], f"{one}: {found}, and its source has {rows[one]}")


def parked(play: Play) -> None:
    """One table is parked for long and resumed; what landed for the others does not stay as long as it waits."""
    dice, sink = play.dice, play.sink
    sink.settings |= {"trigger.interval.s": "0", "merge.rows.min": "1000000", "landing.keep.h": "0"}
    tables = [play.schema(("id", "long"), ("v", "string"), topic=f"p.shop.t{n}") for n in range(dice.randint(2, 3))]
    rows: list[dict[int, str]] = [{} for _ in tables]
    at = 0

    def batch() -> list[Record]:
        nonlocal at
        records = []
        for table, its in zip(tables, rows, strict=True):
            at += 1
            key = dice.randrange(4)
            records.append(change(table, "u" if key in its else "c", {"id": key, "v": f"v{at}"}, at=at))
            its[key] = f"v{at}"
        return records

    play.write(*batch())
    play.merged()
    sink.book.park(tables[0].topic, "a person asked for it")
    for _ in range(dice.randint(2, 4)):
        play.write(*batch())
        play.merged()
        sink.batch_id += _GROUP - dice.randrange(3)
    last = dice.randrange(1, len(tables))
    at += 1
    rows[last][7] = f"v{at}"
    play.write(change(tables[last], "c", {"id": 7, "v": f"v{at}"}, at=at))
    play.merged()
    group = sink.batch_id >> 8
    landed = sink.spark.read.format("delta").load(f"{sink.base}/_dblog/landing").where(f"sequence_group % {1 << 32} < {group - 1}")
    others = {row[0] for row in landed.select("topic").distinct().collect()} - {tables[0].topic}
    play.sure(not others, f"rows that nobody waits for are still landed: of {sorted(others)}")
    play.unpark(tables[0].topic)
    play.merged()
    for table, its in zip(tables, rows, strict=True):
        play.expect(table, [{"id": key, "v": v} for key, v in its.items()])


def quarantine(play: Play) -> None:
    """Records do not fit, are kept, compacted, and are replayed when the column has become wider; other changes come meanwhile."""
    dice, sink = play.dice, play.sink
    sink.settings |= {"table.t.evolution": "ignore"}
    narrow, wide = (play.schema(("id", "long"), ("v", kind)) for kind in ("int", "long"))
    rows: dict[int, int | None] = {}
    at = 0

    def sent(table: TableSchema, key: int, v: int) -> Record:
        nonlocal at
        at += 1
        op = "u" if key in rows else "c"
        rows[key] = v
        return change(table, op, {"id": key, "v": v}, at=at, sequenced=True)

    play.write(*(sent(narrow, key, key) for key in range(3)))
    kept = dice.randint(2, 4)
    for _ in range(kept):
        play.write(sent(wide, dice.randrange(5), 2**40 + at), *(sent(narrow, dice.randrange(5, 8), at) for _ in range(dice.randrange(2))))
        if dice.random() < 0.3:
            key = dice.choice(sorted(rows))
            at += 1
            del rows[key]
            play.write(change(narrow, "d", {"id": key, "v": 0}, at=at, sequenced=True))
    play.merged()
    compact = getattr(sink.pipeline.quarantine, "compact", lambda _session, _commits, since: since)  # an older sink has none
    path = sink.pipeline.quarantine.path
    if compact(sink.spark, 1, since=None) is not None:  # not where this process has kept no record
        files = sink.spark.read.format("delta").load(path).inputFiles()
        play.sure(len(files) == 1, f"the quarantine has {len(files)} files")
    play.restart()
    sink.settings["table.t.evolution"] = "evolve"
    play.merged()
    version = version_of(sink.spark, path)
    assert version is not None
    replay(
        sink.spark,
        sink.pipeline.quarantine,
        sink.applier,
        sink.book,
        command=Command(verb="replay"),
        topics=None,
        version=version,
        txn=Txn("t/replay/1", version),
        source_logs=sink.control.state.source_logs,
    )
    play.expect(narrow, [{"id": key, "v": v} for key, v in rows.items()])
    play.sure(not sink.quarantined(), "records are in quarantine still")
