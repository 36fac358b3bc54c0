"""Random writes and transactions over the tables of a plan on PostgreSQL, as SQL text without parameters, so that a plan can be printed and run again.

Rows are numbered: ``id`` is the number, a text or binary key follows from it. Statements of several sessions meet on the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from chaos.effects import Statement, Tables
from chaos.postgres.tables import PostgresTable

NUMBERS = 120
"""Rows have numbers below this, until a key is updated."""
COPY = "COPY"
"""A statement that begins so has the columns in brackets and then the rows as VALUES, which the server prints in the form of COPY first."""
Write = Callable[[random.Random, PostgresTable, frozenset[str]], str]


def column_names(table: PostgresTable, masked: frozenset[str]) -> str:
    """The columns that a statement writes, as SQL lists them."""
    return ", ".join(f'"{name}"' for name in table.without(masked).named)


def _into(table: PostgresTable, masked: frozenset[str]) -> str:
    return f'INSERT INTO "{table.name}" ({column_names(table, masked)}) VALUES'


def _rows(chance: random.Random, table: PostgresTable, masked: frozenset[str], count: int, numbers: int = NUMBERS) -> str:
    return ", ".join(table.row(chance, number, masked) for number in chance.sample(range(numbers), min(count, numbers)))


def _some(chance: random.Random) -> str:
    return f"id = {chance.randrange(NUMBERS)}"


def _assignments(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    able = [c for c in table.columns if c.given]
    chosen = chance.sample(able, min(len(able), chance.randint(1, 3)))
    drawn = [(c, c.value(chance)) for c in chosen]
    return (
        ", ".join(f'"{c.name}" = {literal}' for c, literal in drawn if f"{table.born}.{c.name}" not in masked) or f'id = "{table.name}".id'
    )


def insert(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f"{_into(table, masked)} {_rows(chance, table, masked, chance.randint(1, 4))} ON CONFLICT DO NOTHING"


def insert_strict(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f"{_into(table, masked)} {_rows(chance, table, masked, 1)}"


def replace(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    """All columns of rows that are there, new rows otherwise."""
    rows = _rows(chance, table, masked, chance.randint(1, 3))
    names = [name for name in table.without(masked).named if name not in table.key] or ["id"]
    also = ", ".join(f'"{name}" = EXCLUDED."{name}"' for name in names)
    return f"{_into(table, masked)} {rows}" + (f" ON CONFLICT ({table.key_list}) DO UPDATE SET {also}" if table.key else "")


def large(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f"{_into(table, masked)} {_rows(chance, table, masked, 150, 200)} ON CONFLICT DO NOTHING"


def upsert(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    also = f" ON CONFLICT ({table.key_list}) DO UPDATE SET {_assignments(chance, table, masked)}" if table.key else ""
    return f"{_into(table, masked)} {_rows(chance, table, masked, 2)}{also}"


def update(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f'UPDATE "{table.name}" SET {_assignments(chance, table, masked)} WHERE {_some(chance)}'


def update_many(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    first = chance.randrange(NUMBERS)
    return f'UPDATE "{table.name}" SET {_assignments(chance, table, masked)} WHERE id BETWEEN {first} AND {first + chance.randint(3, 60)}'


def update_keys(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    """Several keys change in one statement; the server refuses one that another row has."""
    first = chance.randrange(NUMBERS)
    where = f"WHERE id BETWEEN {first} AND {first + chance.randint(1, 6)}"
    new = {
        "text": ("\"k\" || '1'", 'left("k", 3)', 'upper("k")', "\"k\" || ' '", 'lower("k")'),
        "uuid": ('md5("k"::text)::uuid',),
        "bytea": ("\"k\" || '\\x00'::bytea", 'substr("k", 1, 2)'),
    }.get(table.shape)
    if new is not None:
        return f'UPDATE "{table.name}" SET "k" = {chance.choice(new)} {where}'
    first_of = next((c for c in table.columns if c.name == table.key[0]), None) if table.key else None
    if first_of is not None and chance.random() < 0.5 and f"{table.born}.{first_of.name}" not in masked:
        return f'UPDATE "{table.name}" SET "{first_of.name}" = {first_of.value(chance)} {where}'
    return f'UPDATE "{table.name}" SET id = id + {chance.choice([1, 7, 200, 1000, -1, -300])} {where}'


def delete(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f'DELETE FROM "{table.name}" WHERE {_some(chance)}'


def delete_many(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    first = chance.randrange(NUMBERS)
    return f'DELETE FROM "{table.name}" WHERE id BETWEEN {first} AND {first + chance.randint(2, 15)}'


def nothing(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f'UPDATE "{table.name}" SET id = id WHERE {_some(chance)}'


def copy(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    first = chance.randrange(900)
    rows = ", ".join(table.row(chance, number, masked) for number in range(first, first + chance.randint(1, 20)))
    return f'{COPY} "{table.name}" ({column_names(table, masked)}) FROM (VALUES {rows})'


def message(chance: random.Random, table: PostgresTable, masked: frozenset[str]) -> str:
    return f"SELECT pg_logical_emit_message({chance.choice(['true', 'false'])}, 'chaos', 'm{chance.randrange(1000)}')"


WRITES: dict[str, tuple[int, Write]] = {
    "insert": (8, insert),
    "insert_strict": (2, insert_strict),
    "replace": (5, replace),
    "large": (1, large),
    "upsert": (3, upsert),
    "update": (10, update),
    "update_many": (3, update_many),
    "update_keys": (3, update_keys),
    "delete": (5, delete),
    "delete_many": (2, delete_many),
    "nothing": (1, nothing),
    "copy": (2, copy),
    "message": (1, message),
}
"""Kinds of writes, how often, and how they are made."""
ADDING = frozenset({"insert", "insert_strict", "large", "copy", "message"})
"""Those that a table takes of which the log shows no old rows."""

WRAPPERS = {"alone": 5, "transaction": 6, "guarded": 3, "savepoint": 2, "rollback": 1, "prepared": 2, "prepared_rollback": 1}
"""Kinds of transactions, and how often. ``guarded`` has each statement in a subtransaction, and goes on behind one that is refused."""
GUARD = "SAVEPOINT guard"


def writes(chance: random.Random, model: Tables, masked: frozenset[str], *, count: int) -> list[Statement]:
    """Statements over random tables of the model."""
    out = []
    for _ in range(count):
        table = any_table(chance, model)
        able = {kind: weight for kind, (weight, _) in WRITES.items() if table.changeable or kind in ADDING}
        kind = chance.choices(list(able), list(able.values()))[0]
        dice = random.Random(chance.getrandbits(64))  # how much a statement draws must not matter to the next one
        out.append(Statement(WRITES[kind][1](dice, table, masked), kind, (table.born,)))
    return out


def any_table(chance: random.Random, model: Tables) -> PostgresTable:
    """One of them, whatever their names are by now."""
    found: PostgresTable = chance.choice(sorted(model.values(), key=lambda table: table.born))
    return found


def transaction(chance: random.Random, model: Tables, masked: frozenset[str], *, number: int) -> tuple[str, list[Statement]]:
    """A transaction and its kind. Its statements can be taken out one by one (masks); what holds them together stays."""
    wrapper = chance.choices(list(WRAPPERS), list(WRAPPERS.values()))[0]
    body = writes(chance, model, masked, count=1 if wrapper == "alone" else chance.randint(1, 5))
    undone = writes(chance, model, masked, count=2) if wrapper == "savepoint" else []

    def word(sql: str) -> Statement:
        return Statement(sql, "border")

    match wrapper:
        case "alone":
            return wrapper, body
        case "savepoint":
            half = len(body) // 2
            return wrapper, [
                word("BEGIN"), *body[:half], word("SAVEPOINT s1"), *undone, word("ROLLBACK TO SAVEPOINT s1"), *body[half:], word("COMMIT"),
            ]  # fmt: skip
        case "guarded":
            guarded = [one for statement in body for one in (word(GUARD), statement)]
            return wrapper, [word("BEGIN"), *guarded, word("COMMIT")]
    name = f"'x{number}'"
    end = {
        "transaction": ["COMMIT"],
        "rollback": ["ROLLBACK"],
        "prepared": [f"PREPARE TRANSACTION {name}", f"COMMIT PREPARED {name}"],
        "prepared_rollback": [f"PREPARE TRANSACTION {name}", f"ROLLBACK PREPARED {name}"],
    }[wrapper]
    return wrapper, [word("BEGIN"), *body, *map(word, end)]
