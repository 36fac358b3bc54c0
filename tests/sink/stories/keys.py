"""Rows exchange the columns that ``table.<rule>.keys`` names, and truncates come before the first row."""

from __future__ import annotations

from typing import Any

from sink.harness import Record, change
from sink.stories.play import Play


def exchanged_keys(play: Play) -> None:
    """Exchange, shift, move and delete keys; a change that does not fit may lie between, in quarantine."""
    dice, sink = play.dice, play.sink
    sink.settings |= {"table.t.keys": "k", "table.t.evolution": "ignore"}
    columns: list[tuple[str, Any]] = [("k", "int"), ("v", ["null", "string"])]
    table, wide = (play.schema(*columns, ("n", n), key=()) for n in ("int", "long"))
    rows = {k: f"r{k}" for k in range(1, 6)}
    at = bad = 0

    def row(k: int, v: str) -> dict[str, Any]:
        return {"k": k, "v": v, "n": 0}

    def moved(pairs: list[tuple[int, int]]) -> list[Record]:
        """Move rows in one statement, which the source does in any order."""
        nonlocal at
        records, values = [], {old: rows[old] for old, _ in pairs}
        for old in values:
            del rows[old]
        for old, new in dice.sample(pairs, len(pairs)):
            at += 1
            rows[new] = values[old]
            records.append(change(table, "u", row(new, values[old]), before=row(old, values[old]), at=at))
        return records

    play.write(*(change(table, "c", row(k, v), at=0, row_number=k) for k, v in rows.items()))
    for number in range(dice.randint(2, 4)):
        batch: list[Record] = []
        match dice.choice(["cycle", "cycle", "shift", "move", "unfit"]):
            case "cycle":
                some = dice.sample(sorted(rows), dice.randint(2, 3))
                batch += moved(list(zip(some, [*some[1:], some[0]], strict=True)))
            case "shift":
                batch += moved([(k, k + 1) for k in sorted(rows)])
            case "move":
                batch += moved([(dice.choice(sorted(rows)), 100 + number)])
                k = dice.choice(sorted(rows))
                at += 1
                batch.append(change(table, "d", row(k, rows.pop(k)), at=at))
            case "unfit":
                k = dice.choice(sorted(rows))
                batch += moved([(k, 200 + number)])
                at, bad = at + 1, bad + 1
                before, rows[200 + number] = rows[200 + number], f"z{number}"
                unfit = row(200 + number, f"z{number}") | {"n": 2**40}
                batch.append(change(wide, "u", unfit, before=row(200 + number, before), at=at))
                batch += moved([(200 + number, 300 + number)])
        play.write(*batch)
    play.merged()
    play.expect(table, [row(k, v) for k, v in rows.items()], order="k")
    play.sure(len(sink.quarantined()) == bad, f"{bad} records of quarantine: {len(sink.quarantined())}")


def first_truncates(play: Play) -> None:
    """Truncate a table before any row of it came; rows that are older come late."""
    dice = play.dice
    table = play.schema(("id", "long"), ("v", "string"))
    rows: dict[int, str] = {}

    def truncate(at: int) -> Record:
        return Record(topic=table.topic, key=None, value=table.value_bytes("t", pos=at))

    at = 10
    for _ in range(dice.randint(1, 2)):
        play.write(truncate(at))
        at += 10
    last = at - 10
    if dice.random() < 0.5:
        play.restart()
    late = change(table, "c", {"id": 9, "v": "older"}, at=last - 5, partition=1)
    for number in range(dice.randint(2, 4)):
        batch = [late] if number == 0 and dice.random() < 0.7 else []
        for key in dice.sample(range(5), 2):
            at += 1
            op = "u" if key in rows else "c"
            rows[key] = f"v{at}"
            batch.append(change(table, op, {"id": key, "v": rows[key]}, at=at))
        if number and dice.random() < 0.2:
            at += 1
            rows.clear()
            batch.append(truncate(at))
        play.write(*batch)
    play.merged()
    play.expect(table, [{"id": key, "v": v} for key, v in rows.items()])
