"""Transactions over three tables, how their records may arrive, and the tables' content after each: the model of the manifest's tests.

Every transaction moves an amount from an account of one table to one of another, and lists it in a third: the sum over both tables is the same after
each of them, and after no part of one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from sink.harness import Record, change
from support.envelopes import TableSchema, TransactionTopic
from support.registry_server import RegistryServer

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNTS = 4
SUM = 2 * ACCOUNTS * 100


def gtid(number: int) -> str:
    return f"{SOURCE}:{number}"


@dataclass(frozen=True)
class State:
    """What the tables hold after a transaction."""

    left: Mapping[int, int]
    right: Mapping[int, int]
    transfers: tuple[int, ...]
    position: tuple[int, int]


@dataclass
class Source:
    """A source whose transactions are made one by one."""

    registry: RegistryServer
    prefix: str = "p"
    left: TableSchema = field(init=False)
    right: TableSchema = field(init=False)
    transfers: TableSchema = field(init=False)
    transactions: TransactionTopic = field(init=False)
    records: list[Record] = field(default_factory=list)
    """In the order in which they were sent."""
    states: dict[str, State] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        account = [("id", "int"), ("v", "int")]
        self.left, self.right = (
            TableSchema(topic=f"{self.prefix}.bank.{name}", columns=account, registry=self.registry) for name in ("left", "right")
        )
        self.transfers = TableSchema(topic=f"{self.prefix}.bank.transfers", columns=[("n", "int")], key=(), registry=self.registry)
        self.transactions = TransactionTopic(topic=f"{self.prefix}.transaction", registry=self.registry)
        self._now: tuple[dict[int, int], dict[int, int], list[int]] = ({}, {}, [])

    @property
    def settings(self) -> dict[str, str]:
        return {
            "topics.pattern": rf"{self.prefix}\..*",
            "topics.exclude": rf"{self.prefix}\.elsewhere\..*",
            "topics.transaction": self.transactions.topic,
            "manifest.interval.s": "1",
            "table.right.match": r"bank\.right",
            "table.right.mode": "history",
        }

    def opened(self) -> None:
        """The transaction that makes all accounts."""
        rows = [(table, "c", key, 100) for table in (self.left, self.right) for key in range(ACCOUNTS)]
        for _, _, key, value in rows:
            self._now[0][key] = self._now[1][key] = value
        self._transaction(rows, listed=False)

    def moved(self, dice: random.Random) -> None:
        """One amount moves. Now and then an account is closed and opened elsewhere, or a table that the sink does not read has a part in it."""
        left, right, _ = self._now
        amount = dice.randint(1, 50)
        one, other = dice.choice(sorted(left)), dice.choice(sorted(right))
        left[one] -= amount
        right[other] += amount
        rows = [(self.left, "u", one, left[one]), (self.right, "u", other, right[other])]
        if dice.random() < 0.3 and len(left) > 1:  # all that was left goes to the other table, and the account is closed
            closed = dice.choice(sorted(left))
            right[other] += left.pop(closed)
            rows += [(self.left, "d", closed, 0), (self.right, "u", other, right[other])]
        elif dice.random() < 0.3:
            new = max(left) + 1
            left[new] = 0
            rows.append((self.left, "c", new, 0))
        self._transaction(rows, listed=dice.random() < 0.7, others=dice.randint(0, 2))

    def _transaction(self, rows: Sequence[tuple[TableSchema, str, int, int]], *, listed: bool, others: int = 0) -> None:
        self.number += 1
        name = gtid(self.number)
        counts: dict[str, int] = {"elsewhere.audit": others} if others else {}
        self._send(self.begin(name))
        position = (1, 0)
        parts = [*rows, *([(self.transfers, "c", self.number, 0)] if listed else [])]
        for n, (table, op, key, value) in enumerate(parts):
            collection = table.topic.removeprefix(f"{self.prefix}.")
            counts[collection] = counts.get(collection, 0) + 1
            row = {"n": key} if table is self.transfers else {"id": key, "v": value}
            at = self.number * 1000 + n
            position = (1, at << 23)
            order = (name, n + 1 + others, counts[collection])
            self._send(change(table, op, row, at=at, sequenced=True, transaction=order, ts_ms=self.ts_ms))
        if listed:
            self._now[2].append(self.number)
        self._send(self.end(name, counts))
        self.states[name] = State(dict(self._now[0]), dict(self._now[1]), tuple(self._now[2]), position)

    @property
    def ts_ms(self) -> int:
        """The source's clock."""
        return 1_700_000_000_000 + self.number * 1000

    def begin(self, name: str) -> Record:
        return Record(
            topic=self.transactions.topic,
            key=self.transactions.key_bytes(name),
            value=self.transactions.value_bytes(name, ts_ms=self.ts_ms),
        )

    def end(self, name: str, counts: Mapping[str, int]) -> Record:
        value = self.transactions.value_bytes(name, counts, ts_ms=self.ts_ms)
        return Record(topic=self.transactions.topic, key=self.transactions.key_bytes(name), value=value)

    def dumped(self, table: TableSchema, rows: Mapping[int, int], *, at: int) -> None:
        """Rows of a dump at a low watermark."""
        for key, value in rows.items():
            self._send(change(table, "r", {"id": key, "v": value}, at=at, sequenced=True, ts_ms=self.ts_ms))

    def _send(self, record: Record) -> None:
        self.records.append(replace(record, at=BEGAN + timedelta(milliseconds=10 * len(self.records))))


def arrived(records: Sequence[Record], dice: random.Random, *, batches: int, resent: int) -> list[list[Record]]:
    """The records in batches: in each topic in their order, topics as fast as it happens; stretches come twice, as after a restart of the source."""
    lines: dict[str, list[Record]] = {}
    for record in records:
        lines.setdefault(record.topic, []).append(record)
    for line in lines.values():
        for _ in range(resent):
            end = dice.randrange(1, len(line))
            line[end:end] = line[max(0, end - dice.randint(1, 6)) : end]
        line[:] = [replace(record, offset=n) for n, record in enumerate(line)]
    made: list[list[Record]] = []
    for number in range(batches):
        batch = []
        for line in lines.values():
            count = len(line) if number == batches - 1 else min(len(line), int(dice.random() * 2.2 * len(line) / (batches - number)))
            batch += line[:count]
            del line[:count]
        made.append(batch)
    return made
