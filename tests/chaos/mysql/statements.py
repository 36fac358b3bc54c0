"""Random statements and transactions over the tables of a plan, as SQL text without parameters, so that a plan can be printed and run again.

Rows are numbered: ``id`` is the number, a text or binary key follows from it. Statements of several sessions meet on the same numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from chaos.effects import Effect, Statement
from chaos.mysql.tables import ChaosTable, definition, new_column, value

NUMBERS = 120
"""Rows have numbers below this, until a key is updated."""
Write = Callable[[random.Random, ChaosTable, frozenset[str]], str]


def column_names(table: ChaosTable, masked: frozenset[str]) -> str:
    """The columns that a statement writes, as SQL lists them."""
    return ", ".join(f"`{name}`" for name in table.without(masked).named)


def _rows(chance: random.Random, table: ChaosTable, masked: frozenset[str], count: int) -> str:
    return ", ".join(table.row(chance, chance.randrange(NUMBERS), masked) for _ in range(count))


def _some(chance: random.Random) -> str:
    return f"`id` = {chance.randrange(NUMBERS)}"


def _assignments(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    able = [c for c in table.columns if c.given]
    chosen = chance.sample(able, min(len(able), chance.randint(1, 3)))
    drawn = [(c, value(chance, c)) for c in chosen]
    return ", ".join(f"`{c.name}` = {literal}" for c, literal in drawn if f"{table.born}.{c.name}" not in masked) or "`id` = `id`"


def insert(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"INSERT IGNORE INTO `{table.name}` ({column_names(table, masked)}) VALUES {_rows(chance, table, masked, chance.randint(1, 4))}"


def insert_strict(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"INSERT INTO `{table.name}` ({column_names(table, masked)}) VALUES {_rows(chance, table, masked, 1)}"


def replace(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"REPLACE INTO `{table.name}` ({column_names(table, masked)}) VALUES {_rows(chance, table, masked, chance.randint(1, 3))}"


def large(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"REPLACE INTO `{table.name}` ({column_names(table, masked)}) VALUES {_rows(chance, table, masked, 150)}"


def upsert(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    rows = _rows(chance, table, masked, 2)
    return f"INSERT INTO `{table.name}` ({column_names(table, masked)}) VALUES {rows} ON DUPLICATE KEY UPDATE {_assignments(chance, table, masked)}"


def update(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"UPDATE `{table.name}` SET {_assignments(chance, table, masked)} WHERE {_some(chance)}"


def update_many(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    first = chance.randrange(NUMBERS)
    return f"UPDATE `{table.name}` SET {_assignments(chance, table, masked)} WHERE `id` BETWEEN {first} AND {first + chance.randint(3, 60)}"


def update_keys(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    """Several keys change in one statement: each to one that another row has just left, where the order allows it."""
    first = chance.randrange(NUMBERS)
    where = f"WHERE `id` BETWEEN {first} AND {first + chance.randint(1, 6)}"
    if table.shape in ("text", "binary"):
        new = chance.choice(["CONCAT(`k`, '1')", "LEFT(`k`, 3)", "UPPER(`k`)", "CONCAT(`k`, ' ')"])
        return f"UPDATE IGNORE `{table.name}` SET `k` = {new} {where}"
    step = chance.choice([1, 7, 1000, -1])
    return f"UPDATE IGNORE `{table.name}` SET `id` = `id` + {step} {where} ORDER BY `id` {'DESC' if step > 0 else 'ASC'}"


def delete(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"DELETE FROM `{table.name}` WHERE {_some(chance)}"


def delete_many(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    first = chance.randrange(NUMBERS)
    return f"DELETE FROM `{table.name}` WHERE `id` BETWEEN {first} AND {first + chance.randint(2, 15)}"


def nothing(chance: random.Random, table: ChaosTable, masked: frozenset[str]) -> str:
    return f"UPDATE `{table.name}` SET `id` = `id` WHERE {_some(chance)}"


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
}
"""Kinds of writes, how often, and how they are made."""

WRAPPERS = {"alone": 5, "transaction": 6, "savepoint": 2, "rollback": 1, "xa": 2, "xa_one_phase": 1, "xa_rollback": 1}
"""Kinds of transactions, and how often."""


def writes(chance: random.Random, model: dict[str, ChaosTable], masked: frozenset[str], *, count: int) -> list[Statement]:
    """Statements over random tables of the model."""
    names, weights = list(WRITES), [weight for weight, _ in WRITES.values()]
    out = []
    for _ in range(count):
        table = any_table(chance, model)
        kind = chance.choices(names, weights)[0]
        dice = random.Random(chance.getrandbits(64))  # how much a statement draws must not matter to the next one
        out.append(Statement(WRITES[kind][1](dice, table, masked), kind, (table.born,)))
    return out


def any_table(chance: random.Random, model: dict[str, ChaosTable]) -> ChaosTable:
    """One of them, whatever their names are by now."""
    return chance.choice(sorted(model.values(), key=lambda table: table.born))


def transaction(chance: random.Random, model: dict[str, ChaosTable], masked: frozenset[str], *, number: int) -> tuple[str, list[Statement]]:
    """A transaction and its kind. Its statements can be taken out one by one (masks); what holds them together stays."""
    wrapper = chance.choices(list(WRAPPERS), list(WRAPPERS.values()))[0]
    body = writes(chance, model, masked, count=1 if wrapper == "alone" else chance.randint(1, 5))
    undone = writes(chance, model, masked, count=2) if wrapper == "savepoint" else []

    def word(sql: str) -> Statement:
        return Statement(sql, "border")

    match wrapper:
        case "alone":
            return wrapper, body
        case "transaction":
            return wrapper, [word("BEGIN"), *body, word("COMMIT")]
        case "rollback":
            return wrapper, [word("BEGIN"), *body, word("ROLLBACK")]
        case "savepoint":
            half = len(body) // 2
            return wrapper, [
                word("BEGIN"), *body[:half], word("SAVEPOINT s1"), *undone, word("ROLLBACK TO SAVEPOINT s1"), *body[half:], word("COMMIT"),
            ]  # fmt: skip
    name = f"'x{number}'"
    end = {
        "xa": [f"XA PREPARE {name}", f"XA COMMIT {name}"],
        "xa_one_phase": [f"XA COMMIT {name} ONE PHASE"],
        # Rows are logged when they are prepared; a connector refuses to go on when they are rolled back behind that: its rule, so not drawn.
        "xa_rollback": [f"XA ROLLBACK {name}"],
    }[wrapper]
    return wrapper, [word(f"XA START {name}"), *body, word(f"XA END {name}"), *map(word, end)]


# --- DDL -------------------------------------------------------------------------------------------------------------

DDL = {
    "add_column": 8,
    "drop_column": 3,
    "drop_and_add": 2,
    "rename_column": 2,
    "loosen": 2,
    "move": 2,
    "default": 2,
    "convert": 1,
    "index": 2,
    "comment": 1,
    "rebuild": 1,
    "truncate": 1,
    "rename_table": 1,
    "ghost": 2,
    "side_table": 1,
    "case": 3,
}
"""Kinds of DDL, and how often."""


def ddl(flavor: str, chance: random.Random, model: dict[str, ChaosTable], *, number: int, cases: int) -> tuple[str, list[Statement]]:
    """Statements of one kind of DDL. A ``case`` is a number of a case of ``support.ddl_cases``, which the run replays in a database of its own."""
    kind = chance.choices(list(DDL), list(DDL.values()))[0]
    table = any_table(chance, model)
    free = [c for c in table.columns if c.name != table.key_column and c.suffix == ""]
    chosen = chance.choice(free) if free else None
    alter = f"ALTER TABLE `{table.name}`"
    extra = chance.choice(["", "", "", ", ALGORITHM=COPY", ", ALGORITHM=INPLACE"])
    position = chance.choice(["", "", " FIRST", " AFTER `id`"])
    column = new_column(flavor, chance, f"n{number}")

    def of(*steps: tuple[str, Effect | None]) -> list[Statement]:
        return [Statement(sql, kind, (table.born,), effect) for sql, effect in steps]

    match kind:
        case "case":
            return kind, [Statement(str(chance.randrange(cases)), kind)]
        case "add_column":
            # A NOT NULL column fills the rows that are there with its type's zero, which some types do not have.
            return kind, of((f"{alter} ADD COLUMN {definition(column)}{position}{extra}", Effect("add", table.name, column=column)))
        case "default":
            column = _number(chance, column.name)
            return kind, of((f"{alter} ADD COLUMN {definition(column)}{position}{extra}", Effect("add", table.name, column=column)))
        case "truncate":
            return kind, of((f"TRUNCATE TABLE `{table.name}`", Effect("empty", table.name)))
        case "convert":
            # Into a set without a character the server writes ? for it, also in keys, and the log has no row of that.
            # MySQL leaves the members of an ENUM or SET as bytes of the old one, which are no text in the new one.
            if any(c.kind.ddl.startswith(("enum", "set")) and "utf8mb4" not in c.kind.ddl for c in table.columns):
                return kind, []
            return kind, of((f"{alter} CONVERT TO CHARACTER SET utf8mb4", None))
        case "index":
            return kind, of((f"{alter} ADD INDEX `x{number}` (`id`){extra}", None), (f"{alter} DROP INDEX `x{number}`", None))
        case "comment":
            return kind, of((f"{alter} COMMENT = 'n{number}'", None))
        case "rebuild":
            return kind, of(
                (chance.choice([f"{alter} ENGINE=InnoDB", f"OPTIMIZE TABLE `{table.name}`", f"ANALYZE TABLE `{table.name}`"]), None)
            )
        case "rename_table":
            new = f"r{number}"
            sql = chance.choice([f"RENAME TABLE `{table.name}` TO `{new}`", f"{alter} RENAME TO `{new}`"])
            return kind, of((sql, Effect("rename_table", table.name, to=new)))
        case "side_table":
            name = f"s{number}"
            return kind, of(
                (f"CREATE TABLE `{name}` LIKE `{table.name}`", None),
                (f"INSERT INTO `{name}` (`id`) VALUES (1)", None),
                (f"DROP TABLE `{name}`", None),
            )
        case "ghost":
            return kind, _ghost(chance, table, column, number) if table.shape != "keyless" else []
    if chosen is None:
        return kind, []
    name = f"`{chosen.name}`"
    match kind:
        case "drop_column":
            return kind, of((f"{alter} DROP COLUMN {name}{extra}", Effect("drop", table.name, chosen.name)))
        case "drop_and_add":
            # The same name, another type: old rows have NULL in it, or the new type's default.
            again = _number(chance, chosen.name)
            sql = f"{alter} DROP COLUMN {name}, ADD COLUMN {definition(again)}"
            return kind, of((sql, Effect("modify", table.name, chosen.name, column=again)))
        case "rename_column":
            return kind, of(
                (f"{alter} RENAME COLUMN {name} TO `m{number}`", Effect("rename_column", table.name, chosen.name, f"m{number}"))
            )
        case "loosen":
            loose = type(chosen)(name=chosen.name, kind=chosen.kind, nullable=True)
            return kind, of((f"{alter} MODIFY COLUMN {definition(loose)}{extra}", Effect("modify", table.name, chosen.name, column=loose)))
    return kind, of((f"{alter} MODIFY COLUMN {definition(chosen)}{position or ' FIRST'}", None))


def _number(chance: random.Random, name: str):
    """A column of whole numbers, with a default or without."""
    from support.generated_tables import Kind, Made

    kind = Kind(ddl="int", literal=lambda r: str(r.randrange(1000)), record=lambda text, _: int(text), zero=lambda _: 0)
    suffix = chance.choice(["", " DEFAULT 5", " DEFAULT (1 + 41)"])
    return Made(name=name, kind=kind, nullable=suffix == "" or chance.random() < 0.5, suffix=suffix)


def _ghost(chance: random.Random, table: ChaosTable, column, number: int) -> list[Statement]:
    """gh-ost's sequence. What is written between copy and swap is brought over afterwards, so that the new table has every row of the old one."""
    ghost, old, log = f"_{table.name}_gho{number}", f"_{table.name}_del{number}", f"_{table.name}_ghc{number}"
    names = ", ".join(f"`{name}`" for name in table.named)

    def of(sql: str, effect: Effect | None = None) -> Statement:
        return Statement(sql, "ghost", (table.born,), effect)

    return [
        of(f"CREATE TABLE `{log}` (id bigint auto_increment, last_update timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
           " hint varchar(64) charset ascii NOT NULL, value varchar(4096) charset ascii NOT NULL, PRIMARY KEY (id), UNIQUE KEY hint_uidx (hint)) COMMENT='x'"),
        of(f"INSERT INTO `{log}` (id, hint, value) VALUES (1, 'state', 'Migrated') ON DUPLICATE KEY UPDATE last_update = NOW(), value = VALUES(value)"),
        of(f"CREATE TABLE `{ghost}` LIKE `{table.name}`"),
        of(f"ALTER TABLE `{ghost}` ADD COLUMN `g{number}` int NULL"),
        of(f"INSERT IGNORE INTO `{ghost}` ({names}) SELECT {names} FROM `{table.name}` LOCK IN SHARE MODE"),
        of(f"RENAME TABLE `{table.name}` TO `{old}`, `{ghost}` TO `{table.name}`", Effect("add", table.name, column=_plain(f"g{number}"))),
        of(f"REPLACE INTO `{table.name}` ({names}) SELECT {names} FROM `{old}`"),
        of(f"DROP TABLE `{old}`, `{log}`" if chance.random() < 0.5 else f"DROP TABLE `{log}`"),
    ]  # fmt: skip


def _plain(name: str):
    from support.generated_tables import Kind, Made

    return Made(name=name, kind=Kind(ddl="int", literal=lambda r: str(r.randrange(9)), record=lambda t, _: int(t)), nullable=True)
