"""What a plan draws from on PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chaos import faults
from chaos.effects import Statement, Tables
from chaos.kinds import Kind
from chaos.postgres import ddl, kinds, statements, tables
from chaos.postgres.settings import Settings, settings_of
from chaos.postgres.tables import PostgresTable

FAULTS = (*faults.KINDS, "switch_wal", "end_walsender", "end_walsender", "end_sessions")


@dataclass(slots=True)
class PostgresDrawing:
    """Implements ``chaos.drawing.Drawing`` for one plan."""

    fault_kinds: tuple[str, ...] = FAULTS
    ddl_s: float = 0.8
    kinds: ClassVar[Mapping[str, Kind]] = kinds.KINDS
    _settings: Settings | None = None

    def tables(self, chance: random.Random, *, count: int) -> list[PostgresTable]:
        return tables.tables(chance, count=count)

    def settings(self, chance: random.Random, mask: frozenset[str], tables: list[PostgresTable]) -> Settings:
        self._settings = settings_of(chance, mask, tables)
        return self._settings

    def fill(self, chance: random.Random, table: PostgresTable, number: int, mask: frozenset[str]) -> Statement:
        names = statements.column_names(table, mask)
        return Statement(f'INSERT INTO "{table.name}" ({names}) VALUES {table.row(chance, number, mask)}', "fill", (table.born,))

    def transaction(self, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> tuple[str, list[Statement]]:
        return statements.transaction(chance, model, mask, number=number)

    def ddl(self, chance: random.Random, model: Tables, *, number: int) -> tuple[str, list[Statement]]:
        assert self._settings is not None, "settings are drawn first"
        return ddl.ddl(chance, model, self._settings, number=number)

    def with_kinds(self, settings: Settings, wanted: tuple[str, ...], tables: list[PostgresTable]) -> Settings:
        self._settings = kinds.with_kinds(settings, wanted, tables)
        return self._settings

    def own_tables(self, kind: str) -> tuple[str, ...]:
        return kinds.TABLES.get(kind, ())

    def kind_step(self, kind: str, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> list[Statement]:
        assert self._settings is not None, "settings are drawn first"
        return kinds.step(kind, chance, model, mask, self._settings, number=number)
