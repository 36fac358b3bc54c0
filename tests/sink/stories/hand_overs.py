"""Debezium and dblog write one topic in turn, on each database, with and without GTIDs, also after a failover.

Each writer may send again what the other has sent already. dblog may dump the table when it takes over, and where MariaDB takes a transaction back it
sends the inverse of its rows after them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from dblog.dialects.postgres.pgoutput.position import sequence_of
from sink.harness import Record, change
from sink.stories.play import Play
from support.envelopes import TableSchema

_EPOCH = 1_530_000
_KEYS = 4
_SECOND = 1_700_000_000_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """The nth row of the source's log, in one server's numbers."""

    number: int
    op: str
    key: int
    v: str
    server: int

    @property
    def at(self) -> int:
        return 10 * (self.number + 1)


@dataclass
class Source:
    """A table of a few rows, and its log."""

    dice: random.Random
    rows: dict[int, str]
    log: list[Change]
    server: int = 1

    def write(self) -> None:
        """Change a row."""
        key, v = self.dice.randrange(_KEYS), f"v{len(self.log)}"
        if key not in self.rows:
            self._log("c", key, v)
        elif self.dice.random() < 0.3:
            self._log("d", key, self.rows[key])
        else:
            self._log("u", key, v)

    def taken_back(self) -> None:
        """Log a change of a row, and its inverse after it."""
        key, before = self.dice.randrange(_KEYS), dict(self.rows)
        if key in before:
            self._log(self.dice.choice("ud"), key, f"v{len(self.log)}")
            self._log("u" if key in self.rows else "c", key, before[key])
        else:
            self._log("c", key, f"v{len(self.log)}")
            self._log("d", key, self.rows[key])

    def _log(self, op: str, key: int, v: str) -> None:
        self.log.append(Change(number=len(self.log), op=op, key=key, v=v, server=self.server))
        if op == "d":
            del self.rows[key]
        else:
            self.rows[key] = v


class Writers:
    """The records of either writer."""

    def __init__(self, table: TableSchema, *, gtids: bool) -> None:
        self._table = table
        self._gtids = gtids
        self._postgres = table.connector == "postgresql"

    def debezium(self, one: Change) -> Record:
        row = {"id": one.key, "v": one.v}
        if self._postgres:
            return self._of_postgres(one.op, row, lsn=one.at << 3)
        return change(
            self._table,
            one.op,
            row,
            at=one.at,
            file=self._file(one.server),
            server=one.server,
            ts_ms=_SECOND + one.number * 1000,
            gtid=self._gtid(one),
        )

    def dblog(self, one: Change, *, epoch: int, op: str | None = None) -> Record:
        """``op``: another one than the change's, for a row that is dumped at its position."""
        row, op = {"id": one.key, "v": one.v}, op or one.op
        if self._postgres:
            return self._of_postgres(op, row, lsn=8 * one.at, sequence=sequence_of(epoch=epoch, lsn=one.at << 3, number=1))
        return change(
            self._table,
            op,
            row,
            at=one.at,
            file=self._file(one.server),
            server=one.server,
            ts_ms=_SECOND + one.number * 1000,
            gtid=self._gtid(one),
            sequence=(epoch << 32 | self._file(one.server), one.at << 23 | 1),
        )

    def _of_postgres(self, op: str, row: dict, *, lsn: int, sequence: tuple[int, int] | None = None) -> Record:
        value = self._table.value_bytes(
            op, before=row if op == "d" else None, after=None if op == "d" else row, lsn=None if op == "r" else lsn, sequence=sequence
        )
        return Record(topic=self._table.topic, key=self._table.key_bytes(row), value=value)

    def _file(self, server: int) -> int:
        return 9 if server == 1 else 3

    def _gtid(self, one: Change) -> str | None:
        if not self._gtids:
            return None
        if self._table.connector == "mariadb":
            return f"0-{one.server}-{one.number + 1}"
        return f"{'ab'[one.server - 1] * 8}-0000-0000-0000-000000000001:{one.number + 1}"


def hand_overs(play: Play) -> None:
    """Compare the rows after two to five stretches by either writer."""
    dice = play.dice
    connector, gtids = dice.choice(["mysql", "mariadb", "postgresql"]), dice.random() < 0.5
    table = play.schema(("id", "long"), ("v", "string"), connector=connector)
    writers, source = Writers(table, gtids=gtids), Source(dice, {}, [])
    by_dblog, epoch, stretches = dice.random() < 0.5, _EPOCH, dice.randint(2, 5)
    failover = dice.randrange(1, stretches) if connector != "postgresql" and dice.random() < 0.3 else None
    own_end = {True: 0, False: 0}
    play.done.append(f"{connector}{' with GTIDs' if gtids else ''}, {stretches} stretches{'' if failover is None else ', failover'}")
    for number in range(stretches):
        source.server = 2 if failover is not None and number >= failover else 1
        epoch += 10
        first = len(source.log)
        since = max(0, {"new": first, "last": first - 1, "own": own_end[by_dblog]}[dice.choice(["new", "new", "last", "own"])])
        again = [one for one in source.log[since:] if one.server == source.server]
        for _ in range(dice.randint(2, 4)):
            if by_dblog and connector == "mariadb" and dice.random() < 0.3:
                source.taken_back()
            else:
                source.write()
        new = source.log[first:]
        own_end[by_dblog] = len(source.log)
        if by_dblog:
            records = [writers.dblog(one, epoch=epoch) for one in (*again, *new)]
            if dice.random() < 0.4:  # a dump at the end of the stretch, at the position of the last change
                at = source.log[-1]
                dumped = [Change(number=at.number, op="r", key=key, v=v, server=at.server) for key, v in source.rows.items()]
                records += [writers.dblog(one, epoch=epoch, op="r") for one in dumped if one.key != at.key]
        else:
            records = [writers.debezium(one) for one in (*again, *new)]
        play.divided(records, dice.randint(1, 2))
        by_dblog = not by_dblog
    play.merged()
    play.sure(play.sink.book.parked() == {}, f"parked: {play.sink.book.parked()}")
    play.expect(table, [{"id": key, "v": v} for key, v in source.rows.items()])
