"""Each kind of work, measured. Time and CPU lie between the first record in the topic and the last, so no start of a program is in them."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import psycopg2
import pymysql
from confluent_kafka import Consumer, TopicPartition
from cost import Meter
from demo.topics import Topics, delete_topics
from engines import LIMIT_S, POLL_S, Engine, Variant
from stack.process import wait_until
from tables import DATABASE, SIGNALS, Source
from works import CatchUp, Dump, DumpBeside, Latency, Restart

POKE = "poke"
"""A table beside the one that is measured: a record of it shows that a connector follows the log, and stores an offset."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one contestant; what the work does not ask is None."""

    records: int
    wall_s: float
    cpu_s: float | None = None
    peak_mib: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


class Field:
    """Where the engines are compared: the source, the broker and the engines."""

    def __init__(self, source: Source, bootstrap: str, report: Callable[[str], None]) -> None:
        self.source, self.bootstrap, self.report = source, bootstrap, report
        source.create(POKE, source.shape("NARROW"))

    def topic(self, name: str, table: str) -> Topics:
        return Topics(self.bootstrap, [f"{name}.{DATABASE}.{table}"])

    def follow(self, connectors: Sequence[tuple[Variant, str]], tables: list[str]) -> None:
        """Connectors that read the log of the tables from now on; returns when each has written a record of it."""
        for variant, name in connectors:
            variant.engine.create(name, [*tables, POKE], mode="no_data", options=variant.options)
        waiting = {name: self.topic(name, POKE) for _, name in connectors}
        give_up_at = time.monotonic() + LIMIT_S
        while waiting:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"waited {LIMIT_S:g} s for {', '.join(waiting)} to follow the log")
            for variant, name in connectors:
                variant.engine.rest.state(name)  # raises when it has failed
            self.source.execute(self.source.shape("NARROW").insert(POKE, "1"))
            time.sleep(1)
            waiting = {name: topics for name, topics in waiting.items() if topics.records() == 0}

    def end(self, variant: Variant, name: str) -> None:
        variant.engine.delete(name)
        self.source.drop_slot(name)
        delete_topics(self.bootstrap, f"{name}.")

    def between_first_and_last(
        self, engine: Engine, name: str, table: str, records: int, begin: Callable[[], None], *, stop: bool = True
    ) -> Measured:
        """Begin, and measure until the topic, empty before, holds ``records``; more of them are an error, as fewer are."""
        topics = self.topic(name, table)
        assert topics.records() == 0, f"{name} wrote before it was asked to"
        engine.forget_peak()
        begin()
        wait_until(lambda: topics.records() > 0, timeout_s=LIMIT_S, what=f"the first record of {name}", pause_s=POLL_S)
        meter, began_s, began = Meter.of(engine.pids()), time.monotonic(), topics.records()
        wait_until(lambda: topics.records() >= records, timeout_s=LIMIT_S, what=f"{records} records of {name}", pause_s=POLL_S)
        wall_s, used_s = time.monotonic() - began_s, meter.used_s()
        peak = engine.peak_mib()
        if stop:
            engine.stop(name)
        assert topics.records() == records, f"{name} wrote {topics.records()} records, and there are {records}"
        return Measured(records - began, wall_s, used_s, peak)


def catch_up(field: Field, work: CatchUp, variants: Sequence[Variant], *, units: int, rounds: int) -> dict[str, list[Measured]]:
    """All connectors are made and stopped, the backlog is written once, and they read it one after the other."""
    source, table = field.source, work.name
    source.create(table, source.shape(work.shape))
    if base := work.base(units):
        source.write_many(table, source.shape(work.shape), base, log=False, numbered=True)
    entrants = [(variant, f"{work.name}_{variant.key}_{at}") for at in range(rounds) for variant in variants]
    field.follow(entrants, [table])
    for variant, name in entrants:
        variant.engine.stop(name)
    began_s = time.monotonic()
    work.write(source, table, units)
    records = units * work.records_per_unit
    field.report(f"{work.name}: {records:,} records lie in the binlog after {time.monotonic() - began_s:.0f} s")
    results: dict[str, list[Measured]] = {variant.key: [] for variant in variants}
    for variant, name in entrants:
        engine = variant.engine
        begin = lambda engine=engine, name=name: engine.resume(name)  # noqa: E731
        results[variant.key].append(field.between_first_and_last(engine, name, table, records, begin))
        field.report(f"  {name}: {reported(results[variant.key][-1])}")
        field.end(variant, name)
    source.execute(f"DROP TABLE {DATABASE}.{table}")
    return results


def dump(field: Field, work: Dump, variants: Sequence[Variant], *, units: int, rounds: int) -> dict[str, list[Measured]]:
    """Each contestant makes a new connector on the same table; nothing is written meanwhile."""
    source, table = field.source, work.name
    source.create(table, source.shape(work.shape))
    source.write_many(table, source.shape(work.shape), units, log=False)
    source.execute(source.analyze(table))
    field.report(f"{work.name}: {units:,} rows lie in the table")
    results: dict[str, list[Measured]] = {variant.key: [] for variant in variants}
    for at in range(rounds):
        for variant in variants:
            engine, name = variant.engine, f"{work.name}_{variant.key}_{at}"
            begin = lambda engine=engine, name=name, variant=variant: engine.create(  # noqa: E731
                name, [table], mode="initial", options=variant.options
            )
            results[variant.key].append(field.between_first_and_last(engine, name, table, units, begin))
            field.report(f"  {name}: {reported(results[variant.key][-1])}")
            field.end(variant, name)
    source.execute(f"DROP TABLE {DATABASE}.{table}")
    return results


LIVE = "live"
"""The table that is written while another one is dumped."""


def dump_beside(field: Field, work: DumpBeside, variants: Sequence[Variant], *, units: int, rounds: int) -> dict[str, list[Measured]]:
    """Each contestant follows the log, which small transactions come into at an even pace, and is asked by a signal for a large table."""
    source, table = field.source, work.name
    source.create(table, source.shape(work.shape))
    source.create(LIVE, source.shape("LATENCY"))
    source.create(SIGNALS, source.shape("SIGNAL"))
    source.write_many(table, source.shape(work.shape), units, log=False)
    source.execute(source.analyze(table))
    field.report(f"{work.name}: {units:,} rows lie in the table")
    results: dict[str, list[Measured]] = {variant.key: [] for variant in variants}
    for at in range(rounds):
        for variant in variants:
            engine, name = variant.engine, f"{work.name}_{variant.key}_{at}"
            options = {**variant.options, "signal.data.collection": f"{DATABASE}.{SIGNALS}"}
            field.follow([(replace(variant, options=options), name)], [table, LIVE, SIGNALS])
            with Arrivals(field, name, per_s=work.per_s) as arrivals:
                measured = field.between_first_and_last(engine, name, table, units, lambda: source.ask(table), stop=False)
                delays_us = arrivals.of_the_last(measured.wall_s)
            centiles = statistics.quantiles(delays_us, n=100)
            results[variant.key].append(replace(measured, p50_ms=centiles[49] / 1000, p99_ms=centiles[98] / 1000))
            field.report(f"  {name}: {reported(results[variant.key][-1])}")
            field.end(variant, name)
    source.execute(*(f"DROP TABLE {DATABASE}.{each}" for each in (table, LIVE, SIGNALS)))
    return results


class Arrivals:
    """Single-row transactions at an even pace, and a consumer that waits for each; leave it, and both end."""

    def __init__(self, field: Field, name: str, *, per_s: int) -> None:
        self._field, self._name, self._per_s = field, name, per_s
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._listen)]
        self._seen: list[tuple[float, int]] = []
        """When each arrived, by the monotonic clock in seconds, and its delay in microseconds."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self._seen) > 5 * self._per_s, timeout_s=LIMIT_S, what=f"{self._name} to follow the writes")
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._field.source.end_paced()
        for thread in self._threads:
            thread.join()

    def of_the_last(self, seconds: float) -> list[int]:
        """The delays of what has arrived in so many seconds until now; raises AssertionError where the log has not kept pace with the writes."""
        since_s = time.monotonic() - seconds
        found = [delay_us for at_s, delay_us in list(self._seen) if at_s >= since_s]
        assert len(found) > seconds * self._per_s / 2, f"{self._name} brought {len(found)} records of the log in {seconds:.0f} s"
        return found

    def _write(self) -> None:
        with contextlib.suppress(pymysql.err.OperationalError, psycopg2.Error):  # it is ended before its time
            self._field.source.write_paced(LIVE, per_s=self._per_s, seconds=2 * LIMIT_S)

    def _listen(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._field.bootstrap, "group.id": f"{self._name}-consumer", "enable.auto.commit": False})
        consumer.assign([TopicPartition(f"{self._name}.{DATABASE}.{LIVE}", 0, 0)])
        try:
            while not self._ending.is_set():
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    self._seen.append((time.monotonic(), time.time_ns() // 1000 - _long(message.key())))
        finally:
            consumer.close()


def latency(field: Field, work: Latency, variants: Sequence[Variant], *, seconds: float, rounds: int) -> dict[str, list[Measured]]:
    """The key of a row is the moment of its insert, the consumer's clock is the same one. The first fifth of a run warms up and does not count."""
    source, table = field.source, work.name
    results: dict[str, list[Measured]] = {variant.key: [] for variant in variants}
    for at in range(rounds):
        for variant in variants:
            engine, name = variant.engine, f"{work.name}_{variant.key}_{at}"
            source.create(table, source.shape("LATENCY"))
            field.follow([(variant, name)], [table])
            source.execute(source.shape("LATENCY").insert(table, "1"))
            topics = field.topic(name, table)
            wait_until(lambda topics=topics: topics.records() == 1, timeout_s=LIMIT_S, what=f"the first row of {name}")
            results[variant.key].append(_delays(field, engine, name, table, per_s=work.per_s, seconds=seconds))
            field.report(f"  {name}: {reported(results[variant.key][-1])}")
            field.end(variant, name)
            source.execute(f"DROP TABLE {DATABASE}.{table}")
    return results


def _delays(field: Field, engine: Engine, name: str, table: str, *, per_s: int, seconds: float) -> Measured:
    consumer = Consumer({"bootstrap.servers": field.bootstrap, "group.id": f"{name}-consumer", "enable.auto.commit": False})
    consumer.assign([TopicPartition(f"{name}.{DATABASE}.{table}", 0, 1)])
    writer = threading.Thread(target=field.source.write_paced, args=(table,), kwargs={"per_s": per_s, "seconds": seconds})
    engine.forget_peak()
    total, warm = int(per_s * seconds), int(per_s * seconds / 5)
    delays_us: list[int] = []
    seen, meter, began_s = 0, None, 0.0
    try:
        writer.start()
        give_up_at = time.monotonic() + LIMIT_S
        while seen < total:
            message = consumer.poll(0.5)
            if message is None or message.error():
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"{name} wrote {seen} of {total} records")
                continue
            now_us = time.time_ns() // 1000
            seen += 1
            if seen == warm:
                meter, began_s = Meter.of(engine.pids()), time.monotonic()
            elif seen > warm:
                delays_us.append(now_us - _long(message.key()))
    finally:
        writer.join()
        consumer.close()
    assert meter is not None
    wall_s = time.monotonic() - began_s
    centiles = statistics.quantiles(delays_us, n=100)
    return Measured(len(delays_us), wall_s, meter.used_s(), engine.peak_mib(), centiles[49] / 1000, centiles[98] / 1000)


def _long(key: bytes) -> int:
    """The one field of the key: a zigzag varint behind the byte 0 and the schema's number (Avro specification, Confluent wire format)."""
    number, shift = 0, 0
    for byte in key[5:]:
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1)


def restart(field: Field, work: Restart, variants: Sequence[Variant], *, statements: int, rounds: int) -> dict[str, list[Measured]]:
    """Both follow the same DDLs of a captured table; then everything of one is killed and started again at once, a row waiting in the log."""
    source, table, changing = field.source, "restarted", "changing"
    source.create(table, source.shape("NARROW"))
    source.create(changing, source.shape("TEN"))
    entrants = [(variant, f"{work.name}_{variant.key}") for variant in variants]
    field.follow(entrants, [table, changing])
    began_s = time.monotonic()
    source.execute(*(f"ALTER TABLE {DATABASE}.{changing} ALTER COLUMN amount SET DEFAULT {n}" for n in range(statements)))
    source.execute(source.shape("NARROW").insert(table, "1"))
    field.report(f"{work.name}: {statements:,} DDLs lie in the binlog after {time.monotonic() - began_s:.0f} s")
    for variant, name in entrants:
        topics = field.topic(name, table)
        wait_until(lambda topics=topics: topics.records() >= 1, timeout_s=LIMIT_S, what=f"{name} to pass the DDLs")
        before = variant.engine.offsets(name)
        while variant.engine.offsets(name) == before:  # each row is a new position in the log; the worker stores it in its own time
            source.execute(source.shape("NARROW").insert(table, "1"))
            time.sleep(0.5)
    results: dict[str, list[Measured]] = {variant.key: [] for variant in variants}
    for _ in range(rounds):
        for variant, name in entrants:
            measured = _killed(field, variant.engine, name, table)
            results[variant.key].append(measured)
            field.report(f"  {name}: {measured.wall_s * 1000:,.0f} ms")
    for variant, name in entrants:
        field.end(variant, name)
    source.execute(f"DROP TABLE {DATABASE}.{table}", f"DROP TABLE {DATABASE}.{changing}")
    return results


def _killed(field: Field, engine: Engine, name: str, table: str) -> Measured:
    """Rows that were delivered already may come again first: the new one is known by the consumer seeing its key."""
    key = _one(field, table)
    consumer = Consumer({"bootstrap.servers": field.bootstrap, "group.id": f"{name}-restart", "enable.auto.commit": False})
    topic = TopicPartition(f"{name}.{DATABASE}.{table}", 0)
    try:
        wait_until(lambda: _seen(consumer, topic, key), timeout_s=LIMIT_S, what=f"{name} to be up to date")
        began_s = time.monotonic()
        engine.kill()
        key = _one(field, table)
        starter = threading.Thread(target=engine.start)
        starter.start()
        try:
            wait_until(lambda: _seen(consumer, topic, key), timeout_s=LIMIT_S, what=f"the first new record of {name}", pause_s=POLL_S)
            wall_s = time.monotonic() - began_s
        finally:
            starter.join()
    finally:
        consumer.close()
    return Measured(1, wall_s, p50_ms=wall_s * 1000, p99_ms=wall_s * 1000)


def _one(field: Field, table: str) -> int:
    """Insert a row; its key."""
    field.source.execute(field.source.shape("NARROW").insert(table, "1"))
    return field.source.newest(table)


def _seen(consumer: Consumer, topic: TopicPartition, key: int) -> bool:
    """The newest record of the topic has this key."""
    _, end = consumer.get_watermark_offsets(topic, timeout=5)
    if end == 0:
        return False
    consumer.assign([TopicPartition(topic.topic, topic.partition, end - 1)])
    message = consumer.poll(5)
    return message is not None and message.error() is None and _long(message.key()) >= key


def reported(m: Measured) -> str:
    """One line for the person who waits."""
    parts = [f"{m.records / m.wall_s / 1000:,.1f} k/s"]
    if m.cpu_s:
        parts.append(f"{m.records / m.cpu_s / 1000:,.1f} k per CPU-s")
    if m.peak_mib is not None:
        parts.append(f"peak {m.peak_mib:,.0f} MiB")
    if m.p50_ms is not None:
        parts.append(f"p50 {m.p50_ms:,.1f} ms, p99 {m.p99_ms:,.1f} ms")
    return ", ".join(parts)
