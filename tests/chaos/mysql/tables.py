"""Random tables of a chaos plan: every column type of both servers, every shape of key; what an INSERT, an UPDATE and a SELECT of them contain.

Columns and their values come from ``support.generated_tables``, which also knows what a record has for the server's text of a value. DDL changes
these tables by ``chaos.effects``.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field

from support import generated_tables as made
from support.generated_tables import Made

SHAPES = ("single", "single", "composite", "text", "text", "binary", "unique", "keyless")
"""How rows are identified. Every table has an ``id`` beside, by which statements find rows."""

CHARSETS = (
    "utf8mb4", "utf8mb3", "latin1", "latin2", "ascii", "greek", "cp1251", "koi8r", "gbk", "gb2312", "big5", "sjis", "cp932", "ujis", "euckr", "ucs2",
    "utf16", "utf16le", "utf32", "hebrew", "tis620", "swe7", "cp1250",
)  # fmt: skip
GENERAL = {
    "latin1": "latin1_swedish_ci", "gbk": "gbk_chinese_ci", "gb2312": "gb2312_chinese_ci", "big5": "big5_chinese_ci", "sjis": "sjis_japanese_ci",
    "cp932": "cp932_japanese_ci", "ujis": "ujis_japanese_ci", "euckr": "euckr_korean_ci", "tis620": "tis620_thai_ci", "swe7": "swe7_swedish_ci",
}  # fmt: skip
KEY_LENGTH = 40


def collations(chance: random.Random) -> list[tuple[str, str]]:
    """(character set, collation) pairs in a random order: for each set its binary one and the one of its language."""
    pairs = [(name, f"{name}_bin") for name in CHARSETS] + [(name, GENERAL.get(name, f"{name}_general_ci")) for name in CHARSETS]
    chance.shuffle(pairs)
    return pairs


@dataclass(slots=True, kw_only=True)
class ChaosTable:
    """One table as it is now. ``masked`` are columns that shrinking has taken away."""

    name: str
    shape: str
    columns: list[Made]
    key_charset: tuple[str, str] = ("utf8mb4", "utf8mb4_bin")
    key_column: str = ""
    """The column that a composite key begins with."""
    partition: str = ""
    tail: str = ""
    born: str = ""
    """The first name, which log and masks go by."""
    dropped_again: set[str] = field(default_factory=set)

    @property
    def create(self) -> str:
        lines = ["`id` int NOT NULL"]
        if self.shape == "text":
            lines.append(f"`k` varchar({KEY_LENGTH}) CHARACTER SET {self.key_charset[0]} COLLATE {self.key_charset[1]} NOT NULL")
        elif self.shape == "binary":
            lines.append(f"`k` varbinary({KEY_LENGTH}) NOT NULL")
        lines += [definition(c) for c in self.columns]
        match self.shape:
            case "single":
                lines.append("PRIMARY KEY (`id`)")
            case "composite":
                lines += [f"PRIMARY KEY (`{self.key_column}`, `id`)", "KEY `i` (`id`)"]
            case "text" | "binary":
                lines += ["PRIMARY KEY (`k`)", "KEY `i` (`id`)"]
            case "unique":
                lines.append("UNIQUE KEY `u` (`id`)")
            case _:
                lines.append("KEY `i` (`id`)")
        return f"CREATE TABLE `{self.name}` ({', '.join(lines)}) ROW_FORMAT=DYNAMIC{self.tail}{self.partition}"

    @property
    def key_type(self) -> str:
        """The type of the column that a composite key begins with; empty where there is none."""
        return next((c.kind.ddl for c in self.columns if c.name == self.key_column), "")

    @property
    def named(self) -> list[str]:
        """Columns that a statement may write, the key's first."""
        first = ["id", "k"] if self.shape in ("text", "binary") else ["id"]
        return first + [c.name for c in self.columns if c.given]

    def key_literal(self, number: int) -> str:
        """The key of a row: the same for the same number."""
        dice = random.Random(number * 7919 + len(self.born))
        if self.shape == "binary":
            return f"x'{(number % 65536).to_bytes(2, 'big').hex()}{dice.randbytes(dice.randint(0, 6)).hex()}'"
        charset = self.key_charset[0]
        alphabet = "aB0 " + (made.ANYTHING if charset.startswith("utf") else made.ALPHABETS.get(charset, "xyz"))
        if charset in ("ucs2", "utf8mb3"):
            alphabet = alphabet.replace("😀", "")
        return made.quoted("".join(dice.choice(alphabet) for _ in range(dice.randint(0, 5))) + str(number))

    def row(self, chance: random.Random, number: int, masked: frozenset[str]) -> str:
        """The literals of a row in the order of ``named``. A masked column's are drawn all the same: the others must not change."""
        values = [str(number)] + ([self.key_literal(number)] if self.shape in ("text", "binary") else [])
        for c in self.columns:
            if c.given:
                literal = value(chance, c)
                if f"{self.born}.{c.name}" not in masked:
                    values.append(literal)
        return "(" + ", ".join(values) + ")"

    def without(self, masked: frozenset[str]) -> ChaosTable:
        """The table as SQL has it: without masked columns."""
        return dataclasses.replace(self, columns=[c for c in self.columns if f"{self.born}.{c.name}" not in masked])


def definition(c: Made) -> str:
    """A column's definition."""
    null = "" if c.nullable or c.suffix.startswith(" GENERATED") else " NOT NULL"
    return f"`{c.name}` {c.kind.ddl}{c.suffix}{null}"


def value(chance: random.Random, c: Made) -> str:
    """A literal for a column: NULL now and then."""
    return "NULL" if c.nullable and chance.random() < 0.1 else c.kind.literal(chance)


def new_column(flavor: str, chance: random.Random, name: str) -> Made:
    """A column of any type."""
    makers, weights = made.makers_of(flavor)
    maker = chance.choices(makers, weights)[0]
    kind = maker(chance, collations(chance)) if maker is made.text else maker(chance)
    nullable = chance.random() < 0.7 or "NULL" in kind.ddl or kind.beyond
    return Made(name=name, kind=kind, nullable=nullable)


def tables(flavor: str, chance: random.Random, *, count: int) -> list[ChaosTable]:
    """A schema: so many tables, no two alike."""
    out = []
    for number in range(count):
        columns = [new_column(flavor, chance, f"c{at}") for at in range(chance.choice([1, 3, 5, 8]))]
        if chance.random() < 0.5:
            columns.insert(chance.randint(0, len(columns)), made.special_column(chance, flavor))
        shape = chance.choice(SHAPES)
        able = [c.name for c in columns if c.kind.keyable and not c.nullable]
        if shape == "composite" and not able:
            shape = "single"
        if shape == "keyless" and number == 0:
            shape = "single"  # the first table always has a key: a plan of keyless tables proves little
        charset = chance.choice(collations(chance))
        partition = ""
        shapes = any(c.kind.ddl.split(" ")[0] in made.GEOMETRIES for c in columns)  # MySQL has no geometry in partitions
        if shape in ("single", "composite", "unique") and chance.random() < 0.3 and not shapes:
            partition = chance.choice(
                [
                    " PARTITION BY HASH (`id`) PARTITIONS 3",
                    " PARTITION BY KEY (`id`) PARTITIONS 2",
                    " PARTITION BY RANGE (`id`) (PARTITION p0 VALUES LESS THAN (50), PARTITION p1 VALUES LESS THAN MAXVALUE)",
                ]
            )
        out.append(
            ChaosTable(
                name=f"t{number}", born=f"t{number}", shape=shape, columns=columns, key_charset=charset, partition=partition,
                key_column=chance.choice(able) if shape == "composite" else "",
                tail=chance.choice(["", "", " DEFAULT CHARSET=latin1", " DEFAULT CHARSET=utf8mb3", " COMMENT='it''s chaos'"]),
            )
        )  # fmt: skip
    return out
