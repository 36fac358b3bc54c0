"""The kinds of trouble on MySQL and MariaDB: rows that are taken back, rows that go without a record, replicas that lack what was read."""

from __future__ import annotations

import dataclasses
import random

from chaos.effects import Statement, Tables
from chaos.kinds import LEFT_ALONE, REPAIRED, STARTING, WAY, Kind, way
from chaos.mysql import statements
from chaos.mysql.settings import DEFAULTS, Settings

KINDS = {
    "taken_back": Kind(share=0.3),
    "xa_taken_back": Kind(share=0.25, clashes=REPAIRED),
    "two_phases": Kind(share=0.2),
    "removed": Kind(share=0.35, clashes=REPAIRED),
    "lacking": Kind(share=0.15, steps=False, fault=True, servers=True, clashes=REPAIRED),
    "behind": Kind(share=0.1, steps=False, fault=True, servers=True),
    "large_left_out": Kind(share=0.2, fault=True, clashes=REPAIRED),
    "stalled": Kind(share=0.08, steps=False, fault=True, prevails=True, clashes=STARTING),
    "handover": Kind(share=0.1, fault=True, alone=True, prevails=True, clashes=LEFT_ALONE),
}
"""Each kind, and how often a seed has it."""
ONLY_MARIADB = frozenset({"two_phases"})
ROWS = 60
PARTS = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (40), PARTITION p2 VALUES LESS THAN MAXVALUE)"
TABLES = {
    "taken_back": (
        "CREATE TABLE y_plain (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MyISAM",
        "CREATE TABLE y_memory (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY",
    ),
    "two_phases": (
        "CREATE TABLE y_signed (id INT PRIMARY KEY, a INT)",
        "INSERT INTO y_signed VALUES (1, -5)",
        "CREATE TABLE y_swapped (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO y_swapped VALUES (1, 1, 2)",
    ),
    "removed": (
        f"CREATE TABLE y_parts (id INT PRIMARY KEY, v INT) {PARTS}",
        f"INSERT INTO y_parts VALUES {', '.join(f'({n}, {n})' for n in range(ROWS))}",
        "CREATE TABLE y_out (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE y_again (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO y_again VALUES {', '.join(f'({n}, {n})' for n in range(ROWS))}",
    ),
    "large_left_out": (
        "CREATE TABLE y_large (id INT PRIMARY KEY, n INT NOT NULL, body MEDIUMTEXT)",
        f"INSERT INTO y_large VALUES {', '.join(f'''({n}, 0, REPEAT('{n} ', 900))''' for n in range(200))}",
    ),
    "handover": WAY,
}
"""What makes the tables of each kind, with their first rows."""


def with_kinds(settings: Settings, kinds: tuple[str, ...], flavor: str) -> Settings:
    """Return the settings as these kinds need them."""
    options = dict(settings.options)
    if "removed" in kinds:
        options["skipped.operations"] = "t"  # the default, with which no record tells of a TRUNCATE
    if "lacking" in kinds or "behind" in kinds:
        options["snapshot.mode"] = "when_needed"
    if "large_left_out" in kinds:
        options["snapshot.include.collection.list"] = r"(?!{schema}\.y_large$).*"
    # Of what else a server can write to its log, Debezium does not read all.
    log = DEFAULTS[flavor] if "handover" in kinds else settings.log
    return dataclasses.replace(settings, options=options, log=log)


def step(kind: str, chance: random.Random, model: Tables, masked: frozenset[str], settings: Settings, *, number: int) -> list[Statement]:
    """Return the statements of one step of a kind."""
    match kind:
        case "taken_back":
            return _taken_back(chance, model, masked, number)
        case "xa_taken_back":
            return _xa_taken_back(chance, model, masked, settings, number)
        case "two_phases":
            return _two_phases(chance, number)
        case "removed":
            return [Statement(sql, "removed") for sql in _removed(chance, model, number)]
        case "large_left_out":
            first = chance.randrange(200)
            sql = f"UPDATE y_large SET n = n + 1 WHERE id BETWEEN {first} AND {first + chance.randint(0, 60)}"
            return [Statement("SET SESSION binlog_row_image = 'NOBLOB'", "border"), Statement(sql, "large_left_out")]
        case "handover":
            return [Statement(sql, "border" if sql in ("BEGIN", "COMMIT") else kind) for sql in way(chance, number)]
    raise AssertionError(kind)


def _of(*parts: str | list[Statement]) -> list[Statement]:
    return [one for part in parts for one in ([Statement(part, "border")] if isinstance(part, str) else part)]


def _taken_back(chance: random.Random, model: Tables, masked: frozenset[str], number: int) -> list[Statement]:
    """Rows that the server logs and takes back; what it refuses of a step (MySQL, of two engines) is passed over."""
    body = statements.writes(chance, model, masked, count=chance.randint(1, 4))
    kept = statements.writes(chance, model, masked, count=1)
    other = f"INSERT INTO {chance.choice(['y_plain', 'y_memory'])} (v) VALUES ({number}), ({number})"
    aside = _of(chance.choice([other, f"CREATE TEMPORARY TABLE w{number} (a INT)"]))
    xa = f"'k{number}'"
    forms = (
        _of("BEGIN", body, aside, "ROLLBACK"),
        _of("BEGIN", kept, "SAVEPOINT a", body, aside, "ROLLBACK TO a", "COMMIT"),
        _of("BEGIN", "SAVEPOINT a", body, aside, "ROLLBACK TO a", kept, "COMMIT"),
        _of("BEGIN", kept, "SAVEPOINT a", body, "SAVEPOINT `B``x`", aside, "ROLLBACK TO `b``X`", aside, "ROLLBACK TO a", "COMMIT"),
        _of("BEGIN", body, "SAVEPOINT a", kept, aside, "ROLLBACK TO a", "ROLLBACK"),
        _of(f"XA START {xa}", body, aside, f"XA END {xa}", f"XA ROLLBACK {xa}"),
        _of(f"XA START {xa}", kept, "SAVEPOINT a", body, aside, "ROLLBACK TO a", f"XA END {xa}", f"XA PREPARE {xa}", f"XA COMMIT {xa}"),
        _of(f"CREATE TABLE y_failed{number} (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1"),
        _of(f"INSERT INTO y_plain VALUES ({number * 10}, 1), ({number * 10 + 1}, 1), ({number * 10}, 1)"),
    )
    return chance.choice(forms)


def _xa_taken_back(chance: random.Random, model: Tables, masked: frozenset[str], settings: Settings, number: int) -> list[Statement]:
    """Rows that were prepared, and so logged, and are rolled back after that."""
    # Rows of a table without a key cannot be taken away by a repair, which is all that helps where the log has no whole rows.
    able = {name: table for name, table in model.items() if table.shape != "keyless" or settings.logs_whole_rows}
    xa = f"'k{number}'"
    body = statements.writes(chance, able, masked, count=chance.randint(1, 4)) if able else []
    return _of(f"XA START {xa}", body, f"XA END {xa}", f"XA PREPARE {xa}", f"XA ROLLBACK {xa}")


def _two_phases(chance: random.Random, number: int) -> list[Statement]:
    """An ALTER that MariaDB logs when it begins and when it ends: one that fails, and one that means another thing when it is done twice."""
    failed = ("ALTER TABLE y_signed MODIFY a INT UNSIGNED", f"INSERT INTO y_signed VALUES ({number}, -6)")
    done = ("ALTER TABLE y_swapped CHANGE a b INT, CHANGE b a INT", f"INSERT INTO y_swapped (a, b) VALUES ({number}, -1)")
    return _of("SET SESSION binlog_alter_two_phase = ON", *chance.choice([failed, done]))


def _removed(chance: random.Random, model: Tables, number: int) -> list[str]:
    """Rows that go without a record, between rows that are written."""
    part = chance.randrange(3)
    low, high = ((0, 20), (20, 40), (40, 60))[part]
    random_table = f"TRUNCATE TABLE `{statements.any_table(chance, model).name}`"
    fill = f"REPLACE INTO y_parts VALUES {', '.join(f'({n}, {number})' for n in chance.sample(range(ROWS), 6))}"
    refill = f"REPLACE INTO y_again VALUES {', '.join(f'({n}, {number})' for n in chance.sample(range(ROWS), 6))}"
    bounds = ("LESS THAN (20)", "LESS THAN (40)")
    forms = (
        [f"ALTER TABLE y_parts TRUNCATE PARTITION p{part}", fill],
        [
            "ALTER TABLE y_parts DROP PARTITION p0",
            f"ALTER TABLE y_parts REORGANIZE PARTITION p1 INTO (PARTITION p0 VALUES {bounds[0]}, PARTITION p1 VALUES {bounds[1]})",
            fill,
        ],
        [
            "DELETE FROM y_out",
            f"INSERT INTO y_out VALUES {', '.join(f'({n}, {number})' for n in chance.sample(range(low, high), 3))}",
            f"ALTER TABLE y_parts EXCHANGE PARTITION p{part} WITH TABLE y_out",
        ],
        ["TRUNCATE y_again", refill],
        ["DROP TABLE y_again", "CREATE TABLE y_again (id INT PRIMARY KEY, v INT)", refill],
        ["CREATE TABLE y_next LIKE y_again", "RENAME TABLE y_again TO y_former, y_next TO y_again", "DROP TABLE y_former", refill],
        [random_table],
        [fill, refill],
        [fill, refill],
    )
    return list(chance.choice(forms))
