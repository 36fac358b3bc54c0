"""Topics that are made again while the sink is away, topics of many partitions, and what is cleaned beside the writes."""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dblog_sink.config import job_options
from dblog_sink.delta.session import another
from dblog_sink.job.losses import CheckpointOffsets
from dblog_sink.job.vacuum import Vacuum
from dblog_sink.kafka import brokers, source
from dblog_sink.observe.progress import Progress
from dblog_sink.reconcile.dump_coverage import Coverage, Range
from sink.harness import Record, change
from sink.stories.play import Play

_HOUR_S = 3600.0
_DAY_S = 24 * _HOUR_S


@dataclass
class Broker:
    """One topic of one partition, which may be deleted and made again. Offsets are places in ``records``."""

    topic: str
    id: str = "t1"
    records: list[Record] = field(default_factory=list)

    def made_again(self) -> None:
        """Delete the topic and create it."""
        self.id, self.records = self.id + "'", []

    def ends(self, *_: Any) -> tuple[dict, dict]:
        """Answer what the brokers say about first and last offsets."""
        return {self.topic: {0: 0}}, {self.topic: {0: len(self.records)}}

    def topic_ids(self, *given: Any) -> dict[str, str]:
        """Answer the ids of topics."""
        return dict.fromkeys(given[-1], self.id)


def topics_made_again(play: Play) -> None:
    """Delete and create the topic while the sink is away; the connector dumps again, more or fewer rows than were read before."""
    dice, sink = play.dice, play.sink
    table = play.schema(("id", "long"), ("v", "string"))
    broker = Broker(table.topic)
    checkpoint = Path(job_options.parse(sink.given).checkpoint_path)
    rows: dict[int, str] = {}
    at = batch = 0

    def send(key: int, op: str | None = None) -> None:
        nonlocal at
        at += 1
        if op is None:
            op, rows[key] = "u" if key in rows else "c", f"v{at}"
        record = change(table, op, {"id": key, "v": rows[key]}, at=at, sequenced=True)
        broker.records.append(replace(record, offset=len(broker.records)))

    def committed() -> int:
        done = [int(one.name) for one in (checkpoint / "commits").glob("*") if one.name.isdigit()]
        if not done:
            return 0
        text = (checkpoint / "offsets" / str(max(done))).read_text()
        return int(json.loads(text.splitlines()[-1])[table.topic]["0"])

    def read(count: int) -> None:
        """Read so many records at most, as a query does by its checkpoint."""
        nonlocal batch
        begin = committed()
        end = min(begin + count, len(broker.records))
        if begin >= end:
            return
        for name in ("offsets", "commits"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({table.topic: {"0": end}}))
        sink.batch_id = batch
        play.write(*broker.records[begin:end])
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")
        batch += 1

    with patch.object(brokers, "ends", broker.ends), patch.object(source, "topic_ids", broker.topic_ids):
        for _ in range(dice.randint(3, 8)):
            send(dice.randrange(4))
        while committed() < len(broker.records):
            read(dice.randint(1, 4))
        for _ in range(dice.randint(1, 2)):
            play.merged()
            play.restart()
            broker.made_again()
            sink.topic_id = broker.id
            for key in list(rows):
                if dice.random() < 0.7:  # a change of which the former topic took the record along
                    at += 1
                    rows[key] = f"v{at}"
                send(key, "r")
            for _ in range(dice.randint(0, 8)):
                send(dice.randrange(6))
            play.done.append(f"made again, {len(broker.records)} records where {committed()} were read")
            offsets = CheckpointOffsets(sink.spark, job_options.parse(sink.given))

            def pass_losses(offsets: CheckpointOffsets = offsets) -> None:
                parts = sink.pipeline.parts
                offsets.pass_losses(parts.control.state, parts.book, parts.progress, sink.pipeline.arrivals)

            play.surely(pass_losses)
            while committed() < len(broker.records):
                read(dice.randint(1, 5))
            for topic in list(sink.book.parked()):
                play.unpark(topic)
        play.merged()
        play.expect(table, [{"id": key, "v": v} for key, v in rows.items()])


def many_partitions(play: Play) -> None:
    """Lose the checkpoint of a topic of hundreds of partitions; all of it is read again."""
    dice, sink = play.dice, play.sink
    partitions, mode = dice.choice([(500, "append"), (1500, "mirror")])
    sink.settings |= {"table.t.mode": mode, "control.interval.s": "0"}
    table = play.schema(("id", "int"), ("v", "string"))

    def records(at: int, those: range) -> list[Record]:
        return [change(table, "c", {"id": n, "v": "a"}, at=at + n, partition=n, sequenced=True) for n in those]

    first = records(100, range(partitions))
    play.write(*first)
    play.merged()
    play.restart()
    sink.next_offsets.clear()
    if mode == "mirror":
        sink.query_id, sink.batch_id = "another checkpoint", 0
    began_s = time.monotonic()
    play.write(*first, *(replace(one, offset=1) for one in records(5000, range(partitions - dice.randint(1, 20), partitions))))
    play.merged()
    took_s = time.monotonic() - began_s
    count = sink.read(table).count()
    new = sum(1 for (_, partition), end in sink.next_offsets.items() if end == 2 and partition >= 0)
    play.sure(count == partitions + (new if mode == "append" else 0), f"{count} rows of {partitions} partitions, {new} of them with two")
    play.sure(took_s < _PLAN_S, f"a batch over {partitions} partitions took {took_s:.0f} s")


_PLAN_S = 100.0


def vacuums(play: Play) -> None:
    """Vacuum and list folders between commits, as after days; what no commit names goes, and all rows stay."""
    dice, sink = play.dice, play.sink
    sink.settings["rewrite.rows.max"] = dice.choice(["0", "50000"])
    table = play.schema(("id", "long"), ("v", "string"))
    folder, rows = Path(sink.path(table)), {}
    for at in range(1, dice.randint(3, 6)):
        key = dice.randrange(4)
        record = change(table, "u" if key in rows else "c", {"id": key, "v": f"v{at}"}, at=at)
        rows[key] = f"v{at}"
        play.write(record)
        play.merged()
        left = folder / f"part-00000-left-behind-{at}.parquet"
        left.write_bytes(next(folder.glob("*.parquet")).read_bytes())
        for one in (left, *folder.glob("*.parquet")):
            os.utime(one, (time.time() - 40 * _DAY_S,) * 2)
        if dice.random() < 0.6:
            play.surely(lambda: _vacuum(play, folder, dice))
            play.sure(not left.exists(), "a file that no commit names is there after two weeks of VACUUM")
    play.expect(table, [{"id": key, "v": v} for key, v in rows.items()])


def _vacuum(play: Play, folder: Path, dice: random.Random) -> None:
    """Give the table its turns of two weeks."""
    now_s = [dice.randrange(1, 1_000_000) * 1.0]
    session = another(play.session)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    vacuum = Vacuum(
        session,
        paths=lambda: {"shop.t": str(folder)},
        compact=lambda _topic: None,
        control=play.sink.control,
        progress=Progress(None),
        interval_h=24.0,
        keep_h=lambda _path: 1.0,
        share_max=1.0,
        now_s=lambda: now_s[0],
        look_every_s=0.0,
    )
    for _ in range(3):
        vacuum.look()
        now_s[0] += 7 * _DAY_S


def folded_chunks(play: Play) -> None:
    """Follow a dump of thousands of chunks with room for hundreds: it covers its table where all of them together do."""
    dice = play.dice
    count, room = dice.randint(2500, 6000), dice.randint(1200, 2000)
    of = ("p.shop.t", "shop.t", "d1")
    in_order = [_range(n, n, count) for n in range(count)]
    for n in range(1, count - 8, 8):  # several readers are at work, after the first chunk
        in_order[n : n + 8] = dice.sample(in_order[n : n + 8], 8)
    again = sorted(dice.sample(range(1, count - 1), 5))
    for n in again:  # a worker that is started again reads some a second time
        in_order.insert(n, replace(_range(n - 1, n - 1, count), chunk_id=f"again/{n}"))
    ranges = [replace(one, low=(1, at)) for at, one in enumerate(in_order, start=1)]
    many, few = Coverage(), Coverage()
    found: dict[str, list[tuple[Any, bool]]] = {"many": [], "few": []}
    for one in ranges:
        for name, coverage in (("many", many), ("few", few)):
            coverage.add(of, one)
            coverage.prove(of[0], one.chunk_id)
            if name == "few":
                coverage.forget(room)
    for name, coverage in (("many", many), ("few", few)):
        found[name] = [(one.upto, one.proven) for one in coverage.decide()]
    play.done.append(f"{count} chunks, room for {room}")
    play.sure(found["few"] == found["many"] != [], f"{count} chunks cover at {found['many']}, with room for {room} at {found['few']}")


def _range(n: int, at: int, count: int) -> Range:
    return Range(
        chunk_id=f"r/{n}",
        low=(1, at),
        after=f"[{n}]" if n else None,
        upto=f"[{n + 1}]",
        begins=n == 0,
        final=n == count - 1,
        opened_ms=at,
        ts_ms=at,
    )


def month(play: Play) -> None:
    """Commit for days to a table of the sink's own and to a hot one; what a look at its log lists is bounded."""
    from sink.long_run import Month  # here, for an older sink has not what it imports

    dice = play.dice
    own = dice.random() < 0.5
    run = Month(
        play.session,
        play.folder / "month" / "_dblog" / ("control" if own else "hot"),
        days=dice.choice([1.0, 2.0, 3.0]),
        every_s=dice.choice([60.0, 120.0, 300.0]),
        log_h=24.0 if own else dice.choice([24.0, 36.0, 48.0]),
        name="_dblog/control" if own else "_dblog/hot",
    )
    run()
    play.done.append(str(run.facts))
    play.sure(run.names_most <= run.bound, f"{run.names_most} names in a log, {run.bound} at most")
