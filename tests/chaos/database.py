"""The database of one run: how it is made, written and looked at, and what befalls its server. Each kind of server fulfils it in a folder of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from chaos.check import Folded, Problem
from chaos.effects import Tables
from chaos.plan import Plan, Step
from demo.lake import Lake
from demo.pipeline import Connector
from stack import Kafka
from stack.database import Database

AWAY_S = 120.0
SENTINEL = "zz_end"


@dataclass(slots=True, kw_only=True)
class Journal:
    """What has happened: ``log`` writes a line of it."""

    log: Callable[[str], None]
    counts: Counter[str]
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the run is to write no more."""


class RunDatabase(ABC):
    """``model`` is the schema as it is now, which ``do`` changes with what the server has taken."""

    error: type[Exception]
    """What its driver raises."""
    lake: type[Lake] = Lake
    """How Delta tables are read."""

    def __init__(self, plan: Plan, source: Database, model: Tables, journal: Journal, *, attempt: int) -> None:
        self.plan, self.source, self.model, self.journal = plan, source, model, journal
        self.replica: Database | None = None
        self.read: Database | None = None
        """The server that the connector reads, where it is not ``source``."""
        self.name = f"chaos_{plan.seed}_{attempt}"
        """Of the database, or of the schema: what stands in topics."""

    @abstractmethod
    def own_servers(self, folder: Path, ending: contextlib.ExitStack) -> None:
        """Go over to a primary and a replica that are this run's alone: what becomes of them is of no use to others."""

    @abstractmethod
    def begin(self) -> None:
        """Settings, the connector's account, tables and their first rows."""

    @abstractmethod
    def connector(self, name: str, excluded: set[str], kafka: Kafka) -> Connector:
        """A connector of this database without these tables."""

    @abstractmethod
    def login(self) -> Any:
        """A connection as the load's sessions have it."""

    @abstractmethod
    def do(self, connection: Any, step: Step, *, begin: int = 0) -> None:
        """A step's statements. What the server refuses is passed over. Raises when the connection is lost."""

    @abstractmethod
    def go_on(self, step: Step) -> Any:
        """What is left to do of a step whose connection was lost; the new connection, if it takes one."""

    @abstractmethod
    def case(self, step: Step) -> None:
        """Replay a case of DDL."""

    @abstractmethod
    def end_load(self) -> None:
        """No session is left: end what they have left open."""

    @abstractmethod
    def sentinel(self, number: int, text: str) -> None:
        """Insert a row that nothing follows."""

    @abstractmethod
    def tables(self, excluded: set[str]) -> list[str]:
        """Tables that are there and were followed, by the names that their topics have."""

    @abstractmethod
    def compare(self, table: str, fresh: Folded) -> list[Problem]:
        """A fresh dump of a table, and the server's rows."""

    @abstractmethod
    def compared_topics(self, table: str, old: Folded, fresh: Folded) -> list[Problem]:
        """What a connector wrote in the run, and a fresh dump."""

    @abstractmethod
    def in_delta(self, table: str) -> bool:
        """Whether Delta has exactly the rows of a table."""

    @abstractmethod
    def count(self, table: str) -> int:
        """Its rows."""

    @abstractmethod
    def leave(self) -> None:
        """Take the run's things away."""

    @abstractmethod
    def restarted(self) -> None:
        """The server runs again: give it back the settings that it has lost."""

    moving: ClassVar[dict[str, str]] = {}
    """What a request for the dump of ``y_large`` has besides, so that rows move in it."""

    def part(self) -> None:
        """Have the replica get nothing more."""
        raise NotImplementedError

    def fail_over_parted(self) -> None:
        """End the primary; ``source`` is the replica, which lacks its last transactions for good."""
        raise NotImplementedError

    def read_replica(self) -> None:
        """Have the connector read the replica, which lacks what was read."""
        raise NotImplementedError

    def join(self) -> None:
        """Have the replica get the rest, and be the primary."""
        raise NotImplementedError

    def promote(self) -> None:
        """Make the standby that is read the primary, with all that was written."""
        raise NotImplementedError

    def change_way(self, statements: tuple[str, ...]) -> None:
        """Change the table of the hand-overs, where the log does not describe it by itself."""
        del statements

    @abstractmethod
    def fail_over(self) -> None:
        """The replica has everything, the primary ends, and ``source`` is the replica."""

    def logged_in(self, connect: Callable[[], Any], away: type[Exception]) -> Any:
        """A connection; a server that is away is waited for."""
        deadline_s = time.monotonic() + AWAY_S
        while True:
            try:
                return connect()
            except away:
                if time.monotonic() > deadline_s or self.journal.over.is_set():
                    raise
                time.sleep(0.2)
