"""The kinds of trouble on PostgreSQL: keys that change places, changes that are in no log, promotions, servers that lack what was read."""

from __future__ import annotations

import dataclasses
import random

from chaos.effects import Statement, Tables
from chaos.kinds import LEFT_ALONE, REPAIRED, STARTING, WAY, Kind, way
from chaos.postgres import statements
from chaos.postgres.settings import PUBLICATION, Settings
from chaos.postgres.tables import PostgresTable

KINDS = {
    "exchanged_keys": Kind(share=0.35),
    "unlogged": Kind(share=0.3, clashes=REPAIRED),
    "lacking": Kind(share=0.12, steps=False, fault=True, servers=True, clashes=REPAIRED),
    "promotion": Kind(share=0.12, steps=False, fault=True, servers=True, clashes=REPAIRED),
    "large_left_out": Kind(share=0.2, fault=True, clashes=REPAIRED),
    "stalled": Kind(share=0.08, steps=False, fault=True, prevails=True, clashes=STARTING),
    "handover": Kind(share=0.1, fault=True, alone=True, prevails=True, clashes=LEFT_ALONE),
}
"""Each kind, and how often a seed has it."""
ROWS = 30
LARGE_ROWS = 200
KEYED = {"y_deferrable": "id", "y_message": "id"}
"""Tables whose keys change places, and the column that is the key of their records."""
LARGE = "(SELECT string_agg(md5(n::text || id::text), '') FROM generate_series(1, 90) n)"
TABLES = {
    "exchanged_keys": (
        "CREATE TABLE y_deferrable (id INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v TEXT)",
        "CREATE TABLE y_message (row SERIAL PRIMARY KEY, id INT NOT NULL, v TEXT)",
        *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in KEYED),
        *(f"INSERT INTO {name} (id, v) SELECT n, 'row ' || n FROM generate_series(1, {ROWS}) n" for name in KEYED),
    ),
    "unlogged": (
        "CREATE TABLE y_away (id INT PRIMARY KEY, v TEXT)",
        f"INSERT INTO y_away SELECT n, 'a' FROM generate_series(1, {ROWS}) n",
        "CREATE TABLE y_root (id INT PRIMARY KEY, v TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE y_low PARTITION OF y_root FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE y_high (id INT PRIMARY KEY, v TEXT)",
        f"INSERT INTO y_high SELECT n, 'a' FROM generate_series(100, {100 + ROWS}) n",
    ),
    "large_left_out": (
        "CREATE TABLE y_large (id INT PRIMARY KEY, at INT NOT NULL, n INT NOT NULL, body TEXT)",
        "ALTER TABLE y_large ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO y_large SELECT id, id, 0, {LARGE} FROM generate_series(1, {LARGE_ROWS}) id",
        "CREATE INDEX ON y_large (at, id)",
    ),
    "handover": WAY,
}
"""What makes the tables of each kind, with their first rows."""


def with_kinds(settings: Settings, kinds: tuple[str, ...], tables: list[PostgresTable]) -> Settings:
    """Return the settings as these kinds need them. A standby takes no statement, so publication and identities are there before the connector."""
    options = dict(settings.options)
    if "exchanged_keys" in kinds:
        options["message.key.columns"] = r"{schema}\.y_message:id"
    if "lacking" in kinds:
        options["snapshot.mode"] = "when_needed"
    if "large_left_out" in kinds:
        options["snapshot.include.collection.list"] = r"(?!{schema}\.y_large$).*"
    if "promotion" in kinds:
        options["read.only"] = "true"
        for table in tables:
            table.made_with = ""
        settings = dataclasses.replace(settings, autocreate="disabled", full=())
    return dataclasses.replace(settings, options=options)


def step(kind: str, chance: random.Random, model: Tables, masked: frozenset[str], settings: Settings, *, number: int) -> list[Statement]:
    """Return the statements of one step of a kind."""
    match kind:
        case "exchanged_keys":
            return _exchanged(chance, number)
        case "unlogged":
            return _unlogged(chance, model, masked, settings, number)
        case "large_left_out":
            ids = ", ".join(map(str, chance.sample(range(1, LARGE_ROWS + 1), 12)))
            return [Statement(f"UPDATE y_large SET at = {chance.choice([-1, 1]) * number}, n = n + 1 WHERE id IN ({ids})", kind)]
        case "handover":
            return [Statement(sql, "border" if sql in ("BEGIN", "COMMIT") else kind) for sql in way(chance, number)]
    raise AssertionError(kind)


def _exchanged(chance: random.Random, number: int) -> list[Statement]:
    """One transaction in which rows take each other's keys; no two have one at its end."""
    name = chance.choice(list(KEYED))
    first = chance.randint(1, ROWS - 6)
    last = first + chance.randint(1, 6)
    turned = f"UPDATE {name} SET id = {first + last} - id WHERE id BETWEEN {first} AND {last}"
    new = f"INSERT INTO {name} (id, v) VALUES ({first}, 'new {number}')"
    forms = (
        [turned],
        [turned, f"UPDATE {name} SET v = v || '.' WHERE id = {first}"],
        [f"UPDATE {name} SET id = id + 1", f"UPDATE {name} SET id = id - 1"],
        [f"UPDATE {name} SET id = {ROWS + 1} - id WHERE id BETWEEN 1 AND {ROWS}"],
        [f"UPDATE {name} SET id = id + 1", turned, f"UPDATE {name} SET id = id - 1"],
        [
            f"UPDATE {name} SET id = {last}, v = 'm {number}' WHERE id = {first}",
            f"UPDATE {name} SET id = {first} WHERE id = {last} AND v <> 'm {number}'",
        ],
        [f"UPDATE {name} SET v = 'old {number}' WHERE id = {first}", new, f"DELETE FROM {name} WHERE id = {first} AND v = 'old {number}'"],
        [f"DELETE FROM {name} WHERE id = {first}", new],
    )
    return _whole("exchanged_keys", chance.choice(forms))


def _whole(kind: str, of: list[str]) -> list[Statement]:
    return [Statement("BEGIN", "border"), *(Statement(sql, kind) for sql in of), Statement("COMMIT", "border")]


def _unlogged(chance: random.Random, model: Tables, masked: frozenset[str], settings: Settings, number: int) -> list[Statement]:
    """Changes that are in no log, or under another name, between two statements that leave all as it was."""
    table = statements.any_table(chance, model)
    away = f"INSERT INTO y_away VALUES ({100 + number}, 'b')"
    own = [Statement(sql, "unlogged") for sql in (f"UPDATE y_away SET v = 'b{number}' WHERE id % 3 = {number % 3}", away)]
    gone = [Statement(f"DELETE FROM y_away WHERE id = {chance.randint(1, ROWS)}", "unlogged")]
    body = statements.writes(chance, {table.name: table}, masked, count=2)
    name, several = chance.choice([("y_away", [*own, *gone]), (table.name, body)])

    def of(*parts: str | list[Statement]) -> list[Statement]:
        return [one for part in parts for one in ([Statement(part, "unlogged")] if isinstance(part, str) else part)]

    publish = f"ALTER PUBLICATION {PUBLICATION} SET (publish = '{{}}')"
    operations = of(
        publish.format(chance.choice(["insert", "insert, delete", "update"])), own, gone, publish.format("insert, update, delete, truncate")
    )
    attached = of(
        "ALTER TABLE y_root ATTACH PARTITION y_high FOR VALUES FROM (100) TO (100000)",
        f"UPDATE y_root SET v = 'b{number}' WHERE id BETWEEN 100 AND 110",
        f"INSERT INTO y_root VALUES ({1000 + number}, 'b')",
        "ALTER TABLE y_root DETACH PARTITION y_high",
    )
    detached = of(
        "ALTER TABLE y_root DETACH PARTITION y_low",
        f"INSERT INTO y_low VALUES ({number % 100}, 'b{number}') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
        "ALTER TABLE y_root ATTACH PARTITION y_low FOR VALUES FROM (0) TO (100)",
    )
    forms = [
        of(f'ALTER TABLE "{name}" SET UNLOGGED', several, f'ALTER TABLE "{name}" SET LOGGED'),
        operations,
        attached,
        detached,
        of("ALTER TABLE y_away ALTER v TYPE TEXT USING upper(v)"),
        of(own),
    ]
    if settings.autocreate == "filtered":
        change = f'ALTER PUBLICATION {PUBLICATION} {{}} TABLE "{name}"'
        forms += [of(change.format("DROP"), several, change.format("ADD"))] * 3
    return list(chance.choice(forms))
