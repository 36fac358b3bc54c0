"""Random DDL over the tables of a plan on PostgreSQL.

What the log of PostgreSQL cannot show is not drawn, or only with the rows that show it: rows that ALTER ... TYPE ... USING writes anew with the type of
before, rows of a partition that is detached under the name of its root.
"""

from __future__ import annotations

import copy
import dataclasses
import random
from collections.abc import Iterable

from chaos.converters import SINK_CONVERTERS
from chaos.effects import Effect, Statement, Tables
from chaos.postgres.settings import PUBLICATION, Settings
from chaos.postgres.statements import any_table
from chaos.postgres.tables import PARTITION_END, PARTS, Column, PostgresTable, new_column, number_column
from support import postgres_generated as made

DDL = {
    "add_column": 8,
    "add_default": 3,
    "drop_column": 3,
    "drop_and_add": 2,
    "rename_column": 2,
    "retype": 3,
    "loosen": 1,
    "rename_table": 1,
    "made_again": 2,
    "swap": 1,
    "copy_and_swap": 2,
    "new_value": 2,
    "new_partition": 2,
    "attach": 1,
    "detach": 1,
    "identity": 2,
    "primary_key": 6,
    "index": 1,
    "comment": 1,
    "rebuild": 2,
    "truncate": 1,
    "new_table": 2,
    "mixed": 3,
}
"""Kinds of DDL, and how often."""
PARTITION_WIDTH = 200


def ddl(chance: random.Random, model: Tables, settings: Settings, *, number: int) -> tuple[str, list[Statement]]:
    """Statements of one kind of DDL; none where no table fits it."""
    kind = chance.choices(list(DDL), list(DDL.values()))[0]
    table = any_table(chance, model)
    if kind in ("new_partition", "attach", "detach"):
        ranged = sorted((t for t in model.values() if t.partition == "range"), key=lambda t: t.born)
        if not ranged:
            kind = "add_column"
        else:
            table = chance.choice(ranged)
    return kind, _Made(chance, table, settings, kind, number).statements(model)


class _Made:
    """Statements of one kind for one table."""

    def __init__(self, chance: random.Random, table: PostgresTable, settings: Settings, kind: str, number: int) -> None:
        self.chance, self.table, self.settings, self.kind, self.number = chance, table, settings, kind, number
        self.alter = f'ALTER TABLE "{table.name}"'
        self.sink = settings.converter in SINK_CONVERTERS
        """Whether the sink reads the topics: it stops where a topic's keys become others, as documented."""

    def of(self, *steps: str | tuple[str, Effect | None], tables: tuple[str, ...] = ()) -> list[Statement]:
        pairs = [(step, None) if isinstance(step, str) else step for step in steps]
        return [Statement(sql, self.kind, tables or (self.table.born,), effect) for sql, effect in pairs]

    def whole(self, *steps: str | tuple[str, Effect | None], tables: tuple[str, ...] = ()) -> list[Statement]:
        """All of them in one transaction, or none."""
        return [Statement("BEGIN", "border"), *self.of(*steps, tables=tables), Statement("COMMIT", "border")]

    def published(self, name: str) -> list[str]:
        """What has the publication have a table, where it lists its tables."""
        if self.settings.autocreate != "filtered":
            return []
        add = f'ALTER PUBLICATION {PUBLICATION} ADD TABLE "{name}"'
        return [f"DO $$ BEGIN {add}; EXCEPTION WHEN duplicate_object THEN END $$"]

    def effect(self, what: str, name: str = "", to: str = "", column: object = None) -> Effect:
        return Effect(what, self.table.name, name, to, column)  # type: ignore[arg-type]

    def set(self, name: str, value: object) -> Effect:
        return self.effect("set", name, column=value)

    def statements(self, model: Tables) -> list[Statement]:
        chance, table, number, alter = self.chance, self.table, self.number, self.alter
        free = [c for c in table.columns if c.name not in table.key and c.given]
        chosen = chance.choice(free) if free else None
        match self.kind:
            case "add_column":
                column = dataclasses.replace(new_column(chance, f"n{number}"), nullable=True)
                return self.of((f"{alter} ADD {column.definition}", self.effect("add", column=column)))
            case "add_default":
                column = number_column(chance, f"n{number}")
                return self.of((f"{alter} ADD {column.definition}", self.effect("add", column=column)))
            case "mixed":
                return self.mixed()
            case "rename_table":
                sql = f'{alter} RENAME TO "r{number}"'
                return self.of((sql, self.effect("rename_table", to=f"r{number}")))
            case "made_again":
                return self.made_again()
            case "swap":
                return self.swap(any_table(chance, model))
            case "copy_and_swap":
                return self.copy_and_swap() if not table.parts and table.key else []
            case "new_value":
                of_mood = [c for c in table.columns if c.kind.ddl == "mood" and c.name not in table.key]
                used = [f'UPDATE "{table.name}" SET "{c.name}" = \'m{number}\' WHERE id < 40' for c in of_mood]
                return self.of(f"ALTER TYPE public.mood ADD VALUE 'm{number}'", *used)
            case "new_partition" | "attach" | "detach":
                return self.partition()
            case "identity":
                return self.identity()
            case "primary_key":
                return self.primary_key()
            case "index":
                return self.of(f'CREATE INDEX "x{number}" ON "{table.name}" (id)', f'DROP INDEX "x{number}"')
            case "comment":
                return self.of(f"COMMENT ON TABLE \"{table.name}\" IS 'n{number}'")
            case "rebuild":
                name = f'"{table.name}"'
                return self.of(chance.choice([f"VACUUM FULL {name}", f"VACUUM {name}", f"ANALYZE {name}", f"REINDEX TABLE {name}"]))
            case "truncate":
                others = chance.choice([[], [], [any_table(chance, model)]])
                names = dict.fromkeys([table.name, *(t.name for t in others)])
                born = tuple(dict.fromkeys([table.born, *(t.born for t in others)]))
                return self.of("TRUNCATE " + ", ".join(f'"{name}"' for name in names), tables=born)
            case "new_table":
                new = f"s{number}"
                return self.whole(
                    f'CREATE TABLE "{new}" (LIKE "{table.name}" INCLUDING ALL)',
                    *self.published(new),
                    *self.copied(new, " WHERE id < 30"),
                ) + (self.of(f'DROP TABLE "{new}"') if chance.random() < 0.5 else [])
        return [] if chosen is None else self.of_column(chosen)

    def of_column(self, chosen: Column) -> list[Statement]:
        """What changes one that is neither of the key nor generated."""
        alter, name, number = self.alter, f'"{chosen.name}"', self.number
        match self.kind:
            case "drop_column":
                return self.of((f"{alter} DROP {name}", self.effect("drop", chosen.name)))
            case "drop_and_add":
                # The same name: old rows have NULL in it, or the new column's default. The log does not show the change where the type is the same, too.
                again = number_column(self.chance, chosen.name)
                if self.chance.random() < 0.4:
                    again = dataclasses.replace(chosen, nullable=True)
                elif chosen.kind.ddl in ("int", "integer"):
                    again = Column(name=chosen.name, kind=made.NUMERIC, suffix=self.chance.choice(["", " DEFAULT 1.5"]))
                return self.of((f"{alter} DROP {name}, ADD {again.definition}", self.effect("modify", chosen.name, column=again)))
            case "rename_column":
                return self.of((f'{alter} RENAME {name} TO "m{number}"', self.effect("rename_column", chosen.name, f"m{number}")))
            case "loosen":
                loose = dataclasses.replace(chosen, nullable=True)
                return self.of((f"{alter} ALTER {name} DROP NOT NULL", self.effect("modify", chosen.name, column=loose)))
            case "retype":
                return self.retype(chosen)
        raise AssertionError(self.kind)

    def retype(self, chosen: Column) -> list[Statement]:
        wider = {"smallint": made.INT4, "integer": made.INT8, "int": made.INT8, "bigint": made.NUMERIC, "real": made.FLOAT8}
        kind, using = wider.get(chosen.kind.ddl, made.TEXT), ""
        if kind is made.TEXT:
            using = f' USING left("{chosen.name}"::text, 100)'
        if kind.ddl == chosen.kind.ddl:
            return []
        # A numeric may be one that a record cannot express.
        column = dataclasses.replace(chosen, kind=kind, suffix="", nullable=True)
        name = f'"{chosen.name}"'
        sql = f"{self.alter} ALTER {name} DROP DEFAULT, ALTER {name} DROP NOT NULL, ALTER {name} TYPE {kind.ddl}{using}"
        return self.of((sql, self.effect("modify", chosen.name, column=column)))

    def copied(self, new: str, where: str = "") -> Iterable[str]:
        names = ", ".join(f'"{name}"' for name in self.table.named)
        return (f'INSERT INTO "{new}" ({names}) SELECT {names} FROM "{self.table.name}"{where}',)

    def made_again(self) -> list[Statement]:
        """Dropped and made again in one transaction; with its rows truncated before, or with what a reader has of them left to the reader."""
        emptied = self.chance.random() < 0.5
        now = copy.deepcopy(self.table)
        now.made_with, now.again = "", now.again or not emptied
        now.parts = [f"{now.born}_p{n}" for n in range(PARTS if now.partition else 0)]
        return self.whole(
            *([f'TRUNCATE "{now.name}"'] if emptied else []),
            f'DROP TABLE "{now.name}"',
            (now.create, self.effect("instead", column=now)),
            *(sql for name in (now.name, *now.parts) for sql in self.published(name)),
            f'INSERT INTO "{now.name}" ({", ".join(chr(34) + name + chr(34) for name in now.named)}) VALUES {now.row(self.chance, 1, frozenset())}',
        )

    def mixed(self) -> list[Statement]:
        """Rows of one transaction in front of a change of their table, behind it, and behind one that is undone."""
        table, name, number = self.table, f'"{self.table.name}"', self.number
        column = number_column(self.chance, f"n{number}")
        names = ", ".join(f'"{one}"' for one in table.named)
        first = 120 + 8 * self.chance.randrange(10)
        insert = f"INSERT INTO {name} ({names}) VALUES"
        rows = [f"{insert} {table.row(self.chance, first + at, frozenset())} ON CONFLICT DO NOTHING" for at in range(4)]
        written = [f'UPDATE {name} SET "{column.name}" = 7 WHERE id < {number}'] if table.changeable else []
        return self.whole(
            rows[0],
            (f"{self.alter} ADD {column.definition}", self.effect("add", column=column)),
            rows[1],
            *written,
            "SAVEPOINT undone",
            f"{self.alter} ADD \"u{number}\" text DEFAULT 'undone'",
            rows[2],
            "ROLLBACK TO undone",
            rows[3],
        )

    def swap(self, other: PostgresTable) -> list[Statement]:
        """Two tables exchange their names: what a reader has of the one before stays with it."""
        table = self.table
        if other is table or (self.sink and (table.shape, table.key) != (other.shape, other.key)):
            return []
        between = f"w{self.number}"
        marked = [Effect("set", name, "again", column=True) for name in (table.name, other.name)]
        return self.whole(
            (f'{self.alter} RENAME TO "{between}"', marked[0]),
            (f'ALTER TABLE "{other.name}" RENAME TO "{table.name}"', marked[1]),
            (f'ALTER TABLE "{between}" RENAME TO "{other.name}"', self.effect("swap", to=other.name)),
            tables=(table.born, other.born),
        )

    def copy_and_swap(self) -> list[Statement]:
        """A copy with another column takes the table's place; it has all of its rows."""
        table, new, old = self.table, f"c{self.number}", f"o{self.number}"
        column = Column(name=f"g{self.number}", kind=made.INT4)
        return self.whole(
            f'LOCK TABLE "{table.name}"',
            f'CREATE TABLE "{new}" (LIKE "{table.name}" INCLUDING ALL)',
            f'ALTER TABLE "{new}" ADD {column.definition}',
            *self.published(new),
            *self.copied(new),
            f'ALTER TABLE "{new}" REPLICA IDENTITY FULL',
            f'{self.alter} RENAME TO "{old}"',
            (f'ALTER TABLE "{new}" RENAME TO "{table.name}"', self.effect("add", column=column)),
            (f"COMMENT ON TABLE \"{table.name}\" IS 'copied'", self.set("identity", "full")),
        ) + (self.of(f'DROP TABLE "{old}"') if self.chance.random() < 0.5 else [])

    def partition(self) -> list[Statement]:
        table = self.table
        first = PARTITION_END + PARTITION_WIDTH * self.number
        bounds = f"FOR VALUES FROM ({first}) TO ({first + PARTITION_WIDTH})"
        new = f"{table.born}_p{self.number}"
        names = ", ".join(f'"{name}"' for name in table.named)
        rows = f"VALUES {table.row(self.chance, first, frozenset())}, {table.row(self.chance, first + 1, frozenset())}"
        identity = f'ALTER TABLE "{new}" REPLICA IDENTITY {"FULL" if table.identity == "full" else "DEFAULT"}'
        if self.kind == "new_partition":
            return self.whole(
                (f'CREATE TABLE "{new}" PARTITION OF "{table.name}" {bounds}', self.set("parts", [*table.parts, new])),
                identity,
                *self.published(new),
                f'INSERT INTO "{table.name}" ({names}) {rows}',
            )
        if self.kind == "attach":
            early = not self.settings.by_root or self.chance.random() < 0.5
            by_itself = f'INSERT INTO "{new}" ({names}) {rows}'
            return self.whole(
                f'CREATE TABLE "{new}" (LIKE "{table.name}" INCLUDING ALL)',
                identity,
                *self.published(new),
                *([by_itself] if early else []),
                (f'{self.alter} ATTACH PARTITION "{new}" {bounds}', self.set("parts", [*table.parts, new])),
                *([] if early else [by_itself]),
            )
        if len(table.parts) <= 2:
            return []
        gone = table.parts[-1]
        return self.whole(
            f'LOCK TABLE "{table.name}"',
            *([f'DELETE FROM "{gone}"'] if self.settings.by_root else []),
            (f'{self.alter} DETACH PARTITION "{gone}"', self.set("parts", table.parts[:-1])),
            *self.published(gone),
        )

    def identity(self) -> list[Statement]:
        table = self.table
        able = (
            ["full"]
            if table.shape == "keyless"
            else ["index", "full"]
            if table.shape == "unique"
            else ["default", "full", "full", "nothing"]
        )
        now = self.chance.choice(able)
        first, *others = table.set_identity(now)
        return self.whole((first, self.set("identity", now)), *others)

    def primary_key(self) -> list[Statement]:
        """Rows get other keys: what a reader has by the keys of before stays with it."""
        table = self.table
        if self.sink or table.shape not in ("single", "composite"):
            return []
        able = [c for c in table.columns if c.kind in (made.INT4, made.INT8, made.TEXT, made.UUID) and not c.nullable and c.given]
        keys = [("id",), *((c.name, "id") for c in able), *(("id", c.name) for c in able)]
        key = self.chance.choice([k for k in keys if k != table.key] or [("id",)])
        if key == table.key:
            return []
        listed = ", ".join(f'"{name}"' for name in key)
        return self.whole(
            (f'{self.alter} DROP CONSTRAINT "{table.born}_key"', self.set("again", value=True)),
            (f'{self.alter} ADD CONSTRAINT "{table.born}_key" PRIMARY KEY ({listed})', self.set("key", key)),
        )
