"""Decides whether a connector can continue at the server that answers now. One rule for all
databases. Pure.

Each connection to an address may reach another server, or the same server restored from a copy.
Everything read before has been sent already. A server that lacks part of it will differ from what
consumers hold, for good, and its log does not show that. So a dialect compares what was read with
what the server has, as sets of GTIDs or as positions in one history. This rule then gives one of
three answers: the connector goes on, it waits, or the position is lost.

  history   log after the position    what was read     it still receives        answer
  -------   -----------------------   ---------------   ----------------------   ------
  another   any                       any               any                      lost
  the same  dropped                   any               any                      lost
  the same  there                     all there         any                      goes on
  the same  there                     lacks its own     any                      lost
  the same  there                     lacks some        nothing                  lost
  the same  there                     lacks some        replays this history     waits
  the same  there                     lacks some        may, or does             waits, for a while

The wait in the last row ends ``WAIT_MAX_S`` after the lack was first seen. A limit by the age of
the transactions alone would be useless, since those of an idle database are old at once. The wait
is longer while the server reports a lag that reaches back to what was read, or that exceeds the
time waited so far. A replica whose lag is smaller, and that still lacks the transactions, follows a
server that never had them. A server that reports no lag is given the normal wait.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

WAIT_MAX_S = 600.0
"""Seconds to wait for a server that lacks what was read, beyond the lag that it reports. After
that, its replication is taken to never bring it.
"""


class Receives(enum.Enum):
    """The ways in which a server may still receive what it lacks. The value completes a sentence
    about the server.
    """

    NOTHING = "it follows no other server, so they never come"
    UNKNOWN = "it does not show whether it follows another server"
    STOPPED = "its replication is stopped"
    DISCONNECTED = "its replication does not reach the server that it follows"
    FOLLOWS = "it follows another server, from which they may come"
    REPLAYS = "it is a standby that replays the same history"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The server that answers, compared with what was read so far."""

    same_history: bool = True
    """False if something shows that the server's history does not contain the position that was
    read.
    """
    dropped: bool = False
    """True if the server has dropped log that was not read yet."""
    lacks: bool = False
    """True if the server lacks anything that was read."""
    lacks_its_own: bool = False
    """True if the server lacks something that it wrote itself."""
    receives: Receives = Receives.NOTHING
    lag_s: float | None = None
    """Seconds by which the server lags behind the server that it follows, as it reports; None if it
    reports nothing.
    """
    waited_s: float = 0.0
    """Seconds since the lack was first seen."""
    read_age_s: float | None = None
    """Age in seconds of the newest transaction that was read; None if its time is unknown."""


class Answer(enum.Enum):
    """The consequence for the connector."""

    GOES_ON = "goes on"
    WAITS = "waits"
    LOST = "lost"


class Why(enum.Enum):
    """The fact that decides the answer."""

    ALL_THERE = "all there"
    ANOTHER_HISTORY = "another history"
    DROPPED = "dropped"
    LACKS_ITS_OWN = "lacks its own"
    NEVER_COMES = "never comes"
    MAY_COME = "may come"
    WAITED_IN_VAIN = "waited in vain"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer and the fact that decided it."""

    answer: Answer
    why: Why


def verdict_on(server: Answering) -> Verdict:
    """Return the answer for a server by the module's table, read from its first row to its last."""
    if not server.same_history:
        return Verdict(Answer.LOST, Why.ANOTHER_HISTORY)
    if server.dropped:
        return Verdict(Answer.LOST, Why.DROPPED)
    if not server.lacks:
        return Verdict(Answer.GOES_ON, Why.ALL_THERE)
    if server.receives is Receives.REPLAYS:
        return Verdict(Answer.WAITS, Why.MAY_COME)
    if server.lacks_its_own:
        return Verdict(Answer.LOST, Why.LACKS_ITS_OWN)
    if server.receives is Receives.NOTHING:
        return Verdict(Answer.LOST, Why.NEVER_COMES)
    wait_max_s = WAIT_MAX_S + (server.lag_s or 0.0)
    lags_that_far = server.lag_s is not None and server.read_age_s is not None and server.read_age_s <= wait_max_s
    if server.waited_s <= wait_max_s or lags_that_far:
        return Verdict(Answer.WAITS, Why.MAY_COME)
    return Verdict(Answer.LOST, Why.WAITED_IN_VAIN)


class Waits:
    """The times at which servers began to lack something. One instance serves each process that
    starts tasks: a wait lasts over many starts and begins again with the process.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def waited_s(self, server: str, got: str, *, now_s: float) -> float:
        """Return the seconds for which the server at this address has lacked something and has
        stayed at ``got``. Another value of ``got`` is progress, so the wait begins again.
        """
        known = self._since.get(server)
        if known is None or known[0] != got:
            known = self._since[server] = got, now_s
        return now_s - known[1]

    def over(self, server: str) -> None:
        """Forget a server that lacks nothing, or for which nobody waits any more."""
        self._since.pop(server, None)
