"""What a plan draws from, which each kind of database has in a folder of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Protocol

from chaos.effects import Statement, Tables
from chaos.kinds import Kind


class Drawing(Protocol):
    """Throws the dice that it is given, and does nothing else."""

    @property
    def fault_kinds(self) -> tuple[str, ...]:
        """The faults; one that stands twice is drawn twice as often."""

    @property
    def ddl_s(self) -> float:
        """The session of DDL begins something about this often."""

    def tables(self, chance: random.Random, *, count: int) -> list[Any]:
        """A schema."""

    def settings(self, chance: random.Random, mask: frozenset[str], tables: list[Any]) -> Any:
        """The server's settings and the connector's, as they fit these tables."""

    def fill(self, chance: random.Random, table: Any, number: int, mask: frozenset[str]) -> Statement:
        """A row that is there before the connector."""

    def transaction(self, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> tuple[str, list[Statement]]:
        """A transaction and its kind. Its statements can be taken out one by one (masks); what holds them together stays."""

    def ddl(self, chance: random.Random, model: Tables, *, number: int) -> tuple[str, list[Statement]]:
        """Statements of one kind of DDL."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of trouble of this server."""

    def with_kinds(self, settings: Any, kinds: tuple[str, ...], tables: list[Any]) -> Any:
        """Return the settings as these kinds need them; what fits a table is set in it."""

    def own_tables(self, kind: str) -> tuple[str, ...]:
        """Return the statements that make the tables of a kind."""

    def kind_step(self, kind: str, chance: random.Random, model: Tables, mask: frozenset[str], *, number: int) -> list[Statement]:
        """Return the statements of one step of a kind."""
