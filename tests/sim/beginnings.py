"""Schedules that begin with one event at a certain place of a reader's way, which others come to once in a million: the reader goes on alone for some turns,
then comes the event, then whoever must take it goes on alone. What follows is a schedule like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from dblog.core.dumprequests import Wanted
from sim.source import CAPTURED
from sim.threads import HUB

if TYPE_CHECKING:
    from sim.play import Play

SHARE = 0.02
"""Of all schedules, for each."""

TURNS = 20
"""From a reader's start to its first window, and a little further."""

LOOKS = 3
"""How often a reader looks which rows are wanted, up to its first window."""

ALONE_TURNS = 100
"""Enough for whoever is to do one thing."""

TABLE = CAPTURED[0]


class Beginning(Enum):
    """How a schedule begins."""

    ANY = "as its dice fall"
    CHOSEN = "a reader is about to read the chosen rows of a table, and an ALTER has the table dumped wholly"
    PAUSED = "a reader is about to read for a dump that goes ahead of the connector's own, and the dump is paused"


def beginning_of(chance: float) -> Beginning:
    """By a die of one throw."""
    if chance < SHARE:
        return Beginning.CHOSEN
    return Beginning.PAUSED if chance < 2 * SHARE else Beginning.ANY


def begin(play: Play) -> None:
    """Play what the schedule begins with."""
    match play.beginning:
        case Beginning.CHOSEN:
            looks = play.server.conditions_asked + 1 + int(play.aside() * LOOKS)
            _alone("dump-0", ALONE_TURNS, until=lambda: play.server.conditions_asked >= looks)
            play.source.rewrite(TABLE)
            _alone("log", ALONE_TURNS)
        case Beginning.PAUSED:
            request = play.ask(tables=(f"s\\.{TABLE.name}",), keys=None, priority=1, parallelism=1)
            _alone("desk", ALONE_TURNS)
            _alone(f"dump-{int(play.aside() * 2)}", int(play.aside() * TURNS))
            play.order(replace(request, revision=request.revision + 1, wanted=Wanted.PAUSED))
            _alone("desk", ALONE_TURNS)
        case Beginning.ANY:
            pass


def _alone(name: str, turns: int, *, until: Callable[[], bool] = lambda: False) -> None:
    """That thread goes on, and no other, until it waits or ends."""
    for _ in range(turns):
        task = next((task for task in HUB.ready if task.name == name), None)
        if task is None or until():
            return
        HUB.run(task)
