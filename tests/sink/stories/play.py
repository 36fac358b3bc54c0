"""A sink that a story feeds batch by batch, while it is killed, started anew and lands what it gets, all by dice."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dblog_sink.errors import DefiniteError
from pyspark.sql import SparkSession
from sink.harness import Record, Sink
from support.envelopes import TableSchema
from support.registry_server import RegistryServer

_ATTEMPTS_MAX = 12
_STEPS = 40


class Kill(DefiniteError):  # noqa: N818  the process is gone: not an error that anything may try again
    """The process ended here."""


class Difference(AssertionError):  # noqa: N818  it is what the campaign looks for
    """The tables are not what the source has."""


@dataclass
class Play:
    """One story over a folder of its own. ``dice`` are the story's; ``done`` tells what happened."""

    session: SparkSession
    folder: Path
    registry: RegistryServer
    dice: random.Random
    sink: Sink = field(init=False)
    done: list[str] = field(default_factory=list)
    _step: int = 0
    _kills: set[int] = field(default_factory=set)
    _dice: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.dice.random())
        self.sink = Sink(self.session, self.registry, self.folder)
        self.sink.settings |= {
            "trigger.interval.s": self._dice.choice(["0", "1000"]),
            "merge.rows.min": self._dice.choice(["1", "1000000"]),
            "rewrite.rows.max": self._dice.choice(["0", "50000"]),
            "control.interval.s": self._dice.choice(["0", "1000"]),
            "table.t.match": ".*",
        }
        self._kills = {self._dice.randrange(1, _STEPS) for _ in range(self._dice.randrange(3))}
        self.sink.reached = self._reached

    def schema(self, *columns: tuple[str, Any], topic: str = "p.shop.t", **given: Any) -> TableSchema:
        """Return one version of a table."""
        return TableSchema(topic=topic, columns=columns, registry=self.registry, **given)

    def write(self, *records: Record) -> None:
        """Write the next batch, again after each kill; now and then what landed waits, or the process is a new one."""
        sink, drained = self.sink, self._dice.random() < 0.7
        batch = self._with_offsets(records)

        def attempt() -> None:
            sink.writer(sink.frame(batch), sink.batch_id)
            if drained:
                sink.drain()

        self.surely(attempt)
        sink.batch_id += 1
        if self._dice.random() < 0.3:
            self.restart()

    def divided(self, records: Sequence[Record], pieces: int) -> None:
        """Write the records, in their order, in so many batches at most."""
        bounds = sorted(self._dice.randrange(len(records) + 1) for _ in range(pieces - 1))
        for low, high in zip([0, *bounds], [*bounds, len(records)], strict=True):
            if low < high:
                self.write(*records[low:high])

    def restart(self) -> None:
        """End the process in order, or by a kill on the way."""
        self.done.append("restarted")
        try:
            self.sink.restarted()
        except Kill:
            self.sink.killed()

    def merged(self) -> None:
        """Merge all that has landed."""

        def attempt() -> None:
            self.sink.writer  # noqa: B018  a sink that was restarted last begins again
            self.sink.drain()

        self.surely(attempt)

    def unpark(self, topic: str) -> None:
        """Resume a table that is parked, again after a kill in it."""
        self.surely(lambda: self.sink.book.unpark(topic))

    def close(self) -> None:
        """Let go of what the sink holds, whatever happened."""
        self._kills.clear()
        with suppress(Exception):
            self.sink.killed()

    def expect(self, table: TableSchema, expected: Iterable[dict[str, Any]], *, order: str = "id") -> None:
        """Compare the mirror with the source's rows."""
        found = self.sink.rows(table, order=order)
        wanted = sorted(expected, key=lambda row: (row[order] is not None, row[order]))
        if found != wanted:
            more, less = ([row for row in one if row not in other][:4] for one, other in ((found, wanted), (wanted, found)))
            msg = f"{table.topic}: not expected {more}; missing {less}"
            raise Difference(msg)

    def sure(self, holds: bool, what: str) -> None:
        """Raise Difference, with this sentence, where something does not hold."""
        if not holds:
            raise Difference(what)

    def surely(self, attempt: Any) -> None:
        """Do it, again after each kill in it."""
        for _ in range(_ATTEMPTS_MAX):
            try:
                attempt()
            except Kill:
                self.sink.killed()
            else:
                return
        msg = f"not done in {_ATTEMPTS_MAX} attempts"
        raise Difference(msg)

    def _reached(self, step: str) -> None:
        self._step += 1
        if self._step in self._kills:
            self.done.append(f"killed at {step}")
            raise Kill(step)

    def _with_offsets(self, records: Iterable[Record]) -> list[Record]:
        """Give each record its offset now: a batch that is repeated is the same."""
        ends, found = self.sink.next_offsets, []
        for record in records:
            at = (record.topic, record.partition)
            offset = ends.get(at, 0) if record.offset is None else record.offset
            ends[at] = offset + 1
            found.append(replace(record, offset=offset))
        return found
