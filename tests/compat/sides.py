"""Both sides of a comparison: for each set of options a connector of ours and one of the peer, which follow the same statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, NewTopic
from demo.pipeline import ROOT
from demo.rest import Rest
from demo.topics import Topics
from stack.process import wait_until

FOLDER = ROOT / "build" / "compat"
LIMIT_S = 1200.0


@dataclass(frozen=True)
class Sides:
    """``prefixes`` are by mode and side; ``sentinel`` names the topic of the table whose rows show how far a connector is, by mode and prefix."""

    rest: Mapping[str, Rest]
    prefixes: Mapping[tuple[str, str], str]
    bootstrap: str
    sentinel: Callable[[str, str], str]

    def passed(self, count: int) -> None:
        """Wait until each has written so many rows of the sentinel table; raises with its trace when a connector has failed."""
        for (mode, side), prefix in self.prefixes.items():
            topics = Topics(self.bootstrap, [self.sentinel(mode, prefix)])

            def reached(side: str = side, prefix: str = prefix, topics: Topics = topics) -> bool:
                self.rest[side].state(prefix)
                return topics.records() >= count

            wait_until(reached, timeout_s=LIMIT_S, what=f"{side} in mode {mode} to reach the sentinel", pause_s=0.5)

    def dumped(self) -> None:
        """Wait until our dumps are done: the sentinel is not the last table that we dump."""
        ours = [prefix for (_, side), prefix in self.prefixes.items() if side == "ours"]
        wait_until(
            lambda: all(self.rest["ours"].dump(prefix).done for prefix in ours), timeout_s=LIMIT_S, what="our dumps to be done", pause_s=0.5
        )


def create_topics(bootstrap: str, names: list[str]) -> None:
    """All at once: each that a producer asks for by writing costs it a second."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for start in range(0, len(names), 500):
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in names[start : start + 500]]).values():
            future.result(60)
