"""What a plan draws from on MySQL and MariaDB."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from chaos import faults
from chaos.effects import Statement, Tables
from chaos.kinds import Kind
from chaos.mysql import kinds, statements, tables
from chaos.mysql.settings import Settings, settings_of
from chaos.mysql.tables import ChaosTable


@dataclass(slots=True)
class MySqlDrawing:
    """Implements ``chaos.drawing.Drawing``; ``cases`` is how many cases of DDL the server has."""

    flavor: str
    cases: int = 1
    ddl_s: float = 2.0
    _settings: Settings | None = None

    @property
    def fault_kinds(self) -> tuple[str, ...]:
        return (*faults.KINDS, "flush_logs")

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return {name: kind for name, kind in kinds.KINDS.items() if name not in kinds.ONLY_MARIADB or self.flavor == "mariadb"}

    def tables(self, chance: random.Random, *, count: int) -> list[ChaosTable]:
        return tables.tables(self.flavor, chance, count=count)

    def settings(self, chance: random.Random, mask: frozenset[str], tables: list[ChaosTable]) -> Settings:
        return settings_of(self.flavor, chance, mask).for_keys([table.key_type for table in tables])

    def fill(self, chance: random.Random, table: ChaosTable, number: int, mask: frozenset[str]) -> Statement:
        sql = f"REPLACE INTO `{table.name}` ({statements.column_names(table, mask)}) VALUES {table.row(chance, number, mask)}"
        return Statement(sql, "fill", (table.born,))

    def transaction(self, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> tuple[str, list[Statement]]:
        return statements.transaction(chance, model, mask, number=number)

    def ddl(self, chance: random.Random, model: Tables, *, number: int) -> tuple[str, list[Statement]]:
        return statements.ddl(self.flavor, chance, model, number=number, cases=self.cases)

    def with_kinds(self, settings: Settings, wanted: tuple[str, ...], tables: list[ChaosTable]) -> Settings:
        del tables
        self._settings = kinds.with_kinds(settings, wanted, self.flavor)
        return self._settings

    def own_tables(self, kind: str) -> tuple[str, ...]:
        return kinds.TABLES.get(kind, ())

    def kind_step(self, kind: str, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> list[Statement]:
        assert self._settings is not None, "settings are drawn first"
        return kinds.step(kind, chance, model, mask, self._settings, number=number)
