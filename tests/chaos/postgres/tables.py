"""Random tables of a chaos plan on PostgreSQL: every column type, every shape of key and replica identity, partitions, large values.

Columns and their values come from ``support.postgres_generated``, which also knows how a record's value is put back into the server. DDL changes these
tables by ``chaos.effects``.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from dataclasses import dataclass, field

from support import postgres_generated as made
from support.postgres_generated import Kind

SHAPES = ("single", "single", "composite", "composite", "text", "text", "uuid", "bytea", "unique", "keyless")
"""How rows are identified. Every table has an ``id`` beside, by which statements find rows."""
OWN_KEY = {"text": "text", "uuid": "uuid", "bytea": "bytea"}
"""Shapes with a key column ``k``, and its type."""
COLLATIONS = ('"C"', '"und-x-icu"', '"de-x-icu"', '"sv-x-icu"', "nocase")
PREPARATION = (
    *made.PREPARATION,
    "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
)
"""Statements that the database needs."""
FAMILIES = {"numbers": 4, "texts": 5, "bits and networks": 2, "times": 4, "ranges and shapes": 2, "unknown": 1, "arrays": 3, "large": 3}
"""How often a column is of each."""
LARGE_BYTES = (100, 1900, 2500, 9000)
"""Above two thousand bytes a value is stored apart from its row."""
ALPHABET = "aAbB0 ßöéž,;'\"\\\tÅz漢😀"
PARTS = 3
"""So many partitions a table begins with."""
PARTITION_END = 1000
"""Rows of a table that is partitioned by range have numbers below this, as long as it gets no further partition."""


def _large_text(r: random.Random) -> str:
    size = r.choice(LARGE_BYTES)
    return made.text("".join(r.choice("abcdefghijklmnopqrstuvwxyzäß漢") for _ in range(50)) * (size // 50))


LARGE = (
    Kind(ddl="text", literal=_large_text, back=made.TEXT.back),
    Kind(ddl="bytea", literal=lambda r: f"'\\x{(r.randbytes(50) * (r.choice(LARGE_BYTES) // 50)).hex()}'::bytea", back=made.BYTEA.back),
    Kind(ddl="jsonb", literal=lambda r: f"jsonb_build_object('n', {r.randrange(9)}, 'long', {_large_text(r)}::text)", back=made.JSONB.back),
)
FLOAT_KEY = dataclasses.replace(made.FLOAT8, literal=lambda r: f"'{r.uniform(-10, 10)!r}'::float8")
NUMERIC_KEY = dataclasses.replace(made.NUMERIC_10_2, literal=lambda r: f"'{made.decimal(r, 10, 2)}'::numeric", unfit=lambda _: None)
KEYS = (
    made.INT2, made.INT4, made.INT8, made.OID, made.BOOL, made.TEXT, made.VARCHAR, made.BPCHAR, made.CITEXT, made.UUID, made.BYTEA, made.TIMESTAMPTZ,
    made.INET, made.MACADDR, made.INT4RANGE, made.LTREE, made.MOOD, made.BIT_12, FLOAT_KEY, NUMERIC_KEY,
)  # fmt: skip
"""Types of the column that a composite key begins with: those of which no mode makes two values one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """``given``: whether statements write it."""

    name: str
    kind: Kind
    nullable: bool = True
    suffix: str = ""
    given: bool = True
    recorded: bool = True
    """Whether records have it: not so with a generated one."""

    @property
    def definition(self) -> str:
        return f'"{self.name}" {self.kind.ddl}{self.suffix}{"" if self.nullable or not self.given else " NOT NULL"}'

    def value(self, chance: random.Random) -> str:
        """A literal: NULL now and then."""
        return "NULL" if self.nullable and chance.random() < 0.1 else self.kind.literal(chance)


@dataclass(slots=True, kw_only=True)
class PostgresTable:
    """One table as it is now."""

    name: str
    shape: str
    columns: list[Column]
    key: tuple[str, ...]
    """The primary key's columns, or the unique index's."""
    identity: str = "default"
    """The replica identity: default, full, nothing, or index."""
    made_with: str = ""
    """Another replica identity that it is made with: the connector sets the one above."""
    collation: str = '"C"'
    partition: str = ""
    """``range``, ``hash`` or none."""
    parts: list[str] = field(default_factory=list)
    """Its partitions by name."""
    born: str = ""
    """The first name, which log and masks go by."""
    again: bool = False
    """Whether another table had this name before: what a reader has of that stays with it."""

    @property
    def create(self) -> str:
        lines = ['"id" int NOT NULL']
        if self.shape in OWN_KEY:
            collation = f" COLLATE {self.collation}" if self.shape == "text" else ""
            lines.append(f'"k" {OWN_KEY[self.shape]}{collation} NOT NULL')
        lines += [c.definition for c in self.columns]
        if self.key and self.shape != "unique":
            lines.append(f'CONSTRAINT "{self.born}_key" PRIMARY KEY ({self.key_list})')
        by = {"range": " PARTITION BY RANGE (id)", "hash": " PARTITION BY HASH (id)"}.get(self.partition, "")
        statements = [f'CREATE TABLE "{self.name}" ({", ".join(lines)}){by}']
        bounds = {
            "range": ("FROM (MINVALUE) TO (60)", "FROM (60) TO (500)", f"FROM (500) TO ({PARTITION_END})"),
            "hash": tuple(f"WITH (MODULUS 3, REMAINDER {n})" for n in range(3)),
        }.get(self.partition, ())
        statements += [
            f'CREATE TABLE "{part}" PARTITION OF "{self.name}" FOR VALUES {bound}' for part, bound in zip(self.parts, bounds, strict=False)
        ]
        if self.shape == "unique":
            statements.append(f'CREATE UNIQUE INDEX "{self.born}_index" ON "{self.name}" (id)')
        statements += [
            f'ALTER TABLE "{self.name}" ALTER "{c.name}" SET STORAGE EXTERNAL' for c in self.columns if any(c.kind is one for one in LARGE)
        ]
        return "; ".join([*statements, *self.set_identity(self.made_with or self.identity)])

    def set_identity(self, identity: str) -> list[str]:
        """Partitions have identities of their own."""
        text = {"default": "DEFAULT", "full": "FULL", "nothing": "NOTHING", "index": f'USING INDEX "{self.born}_index"'}[identity]
        return [f'ALTER TABLE "{name}" REPLICA IDENTITY {text}' for name in (self.name, *self.parts)]

    @property
    def key_list(self) -> str:
        return ", ".join(f'"{name}"' for name in self.key)

    @property
    def changeable(self) -> bool:
        """Whether the server takes UPDATE and DELETE while the table is published."""
        return self.identity in ("full", "index") or (self.identity == "default" and bool(self.key) and self.shape != "unique")

    @property
    def named(self) -> list[str]:
        """Columns that a statement may write, the key's first."""
        first = ["id", "k"] if self.shape in OWN_KEY else ["id"]
        return first + [c.name for c in self.columns if c.given]

    @property
    def compared(self) -> list[Column]:
        """Columns that records have."""
        first = [Column(name="id", kind=made.INT4, nullable=False)]
        if self.shape in OWN_KEY:
            kind = {"text": made.TEXT, "uuid": made.UUID, "bytea": made.BYTEA}[self.shape]
            first.append(Column(name="k", kind=kind, nullable=False))
        return first + [c for c in self.columns if c.recorded]

    def key_literal(self, number: int) -> str:
        """The key of a row: the same for the same number."""
        dice = random.Random(number * 7919 + len(self.born))
        match self.shape:
            case "uuid":
                return f"'{uuid.UUID(int=dice.getrandbits(128))}'::uuid"
            case "bytea":
                return f"'\\x{(number % 65536).to_bytes(2, 'big').hex()}{dice.randbytes(dice.randint(0, 6)).hex()}'::bytea"
        return made.text("".join(dice.choice(ALPHABET) for _ in range(dice.randint(0, 5))) + str(number))

    def row(self, chance: random.Random, number: int, masked: frozenset[str]) -> str:
        """The literals of a row in the order of ``named``. A masked column's are drawn all the same: the others must not change."""
        values = [str(number)] + ([self.key_literal(number)] if self.shape in OWN_KEY else [])
        for c in self.columns:
            if c.given:
                literal = c.value(chance)
                if f"{self.born}.{c.name}" not in masked:
                    values.append(literal)
        return "(" + ", ".join(values) + ")"

    def without(self, masked: frozenset[str]) -> PostgresTable:
        """The table as SQL has it: without masked columns."""
        return dataclasses.replace(self, columns=[c for c in self.columns if f"{self.born}.{c.name}" not in masked])


def new_column(chance: random.Random, name: str) -> Column:
    """A column of any type."""
    family = chance.choices(list(FAMILIES), list(FAMILIES.values()))[0]
    kind = chance.choice(LARGE if family == "large" else made.FAMILIES[family])
    return Column(name=name, kind=kind, nullable=chance.random() < 0.7 or takes_null(kind))


def takes_null(kind: Kind) -> bool:
    """Whether it has values that records of some mode have as NULL."""
    return any(kind.unfit(modes) is not None for modes in MODES)


MODES = [
    made.TypeModes(time_precision_mode=time_mode, decimal_handling_mode=decimals)
    for time_mode in ("adaptive", "nanoseconds")
    for decimals in ("precise", "string")
]


def number_column(chance: random.Random, name: str) -> Column:
    """A column of numbers, with a default or without."""
    suffix = chance.choice(["", " DEFAULT 5", " DEFAULT (1 + 41)", " DEFAULT (random() * 1000)::int"])
    return Column(name=name, kind=made.INT4, nullable=suffix == "" or chance.random() < 0.5, suffix=suffix)


def tables(chance: random.Random, *, count: int) -> list[PostgresTable]:
    """A schema: so many tables, no two alike."""
    out = []
    for number in range(count):
        columns = [new_column(chance, f"c{at}") for at in range(chance.choice([1, 3, 5, 8]))]
        if chance.random() < 0.3:
            kind = dataclasses.replace(made.INT4, ddl="int")
            suffix = " GENERATED ALWAYS AS (id * 2) STORED"
            generated = Column(name="g", kind=kind, suffix=suffix, given=False, recorded=False)
            columns.insert(chance.randint(0, len(columns)), generated)
        shape = chance.choice(SHAPES)
        if shape == "keyless" and number == 0:
            shape = "single"  # the first table always has a key: a plan of keyless tables proves little
        key: tuple[str, ...] = ("k",) if shape in OWN_KEY else () if shape == "keyless" else ("id",)
        if shape == "composite":
            columns.insert(0, Column(name="a", kind=chance.choice(KEYS), nullable=False))
            key = chance.choice([("a", "id"), ("id", "a")])
        identity = chance.choice(["default", "default", "default", "full", "full", "nothing"])
        if shape == "unique":
            identity = chance.choice(["index", "index", "full"])
        partition = chance.choice(["range", "hash"]) if shape in ("single", "composite") and chance.random() < 0.45 else ""
        name = f"t{number}"
        out.append(
            PostgresTable(
                name=name, born=name, shape=shape, columns=columns, key=key, identity=identity, collation=chance.choice(COLLATIONS),
                partition=partition, parts=[f"{name}_p{n}" for n in range(PARTS if partition else 0)],
            )
        )  # fmt: skip
    return out
