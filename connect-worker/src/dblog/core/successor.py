"""Decide whether a connector can go on at the server that answers now. One rule for all databases. Pure.

The server behind an address can be another one at every connection, or the same one put back from a copy. What was read from the one before has been sent
already, so a server that lacks it differs from what consumers hold, for good, and its log does not show that. So a dialect compares what was read with what
the server has, as sets of GTIDs or as positions in one history, and this rule gives one of three answers: it goes on, it waits, or the position is lost.

    history   log behind the position   what was read     it still receives        answer
    -------   -----------------------   ---------------   ----------------------   ------
    another   any                       any               any                      lost
    the same  dropped                   any               any                      lost
    the same  there                     all there         any                      goes on
    the same  there                     lacks its own     any                      lost
    the same  there                     lacks some        nothing                  lost
    the same  there                     lacks some        replays this history     waits
    the same  there                     lacks some        may, or does             waits, for a while

The while is ``WAIT_MAX_S`` from the moment at which the lack was first seen: transactions of a database that rests are old at once. It is longer as long as
the server reports a lag that reaches back to what was read, or that is longer than it has been waited for: a replica that is no further behind, and lacks
them all the same, follows a server that never had them. A lag that is not reported tells nothing, and makes the while no shorter.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

WAIT_MAX_S = 600.0
"""How long a server that lacks what was read is waited for, beyond the lag that it reports, before its replication is taken to never bring it."""


class Receives(enum.Enum):
    """Whether a server can still get what it lacks; the value completes a sentence about the server."""

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
    """Whether its history has the position that was read in it, or may have: False where something shows that it has not."""
    dropped: bool = False
    """Whether it has dropped log that was not read yet."""
    lacks: bool = False
    """Whether it lacks anything that was read."""
    lacks_its_own: bool = False
    """Whether it lacks something that it has made itself."""
    receives: Receives = Receives.NOTHING
    lag_s: float | None = None
    """How far it is behind the server that it follows, by its own account; None where it reports nothing."""
    waited_s: float = 0.0
    """How long ago the lack was first seen."""
    read_age_s: float | None = None
    """Age of the newest transaction that was read; None where its time is not known."""


class Answer(enum.Enum):
    """What follows for the connector."""

    GOES_ON = "goes on"
    WAITS = "waits"
    LOST = "lost"


class Why(enum.Enum):
    """The fact that decides."""

    ALL_THERE = "all there"
    ANOTHER_HISTORY = "another history"
    DROPPED = "dropped"
    LACKS_ITS_OWN = "lacks its own"
    NEVER_COMES = "never comes"
    MAY_COME = "may come"
    WAITED_IN_VAIN = "waited in vain"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, and the fact behind it."""

    answer: Answer
    why: Why


def verdict_on(server: Answering) -> Verdict:
    """Return the answer for a server. The table above, from its first row to its last."""
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
    """Since when what is lacking is lacking. One for each process that starts a task: a wait lasts over many starts, and begins anew with the process."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def waited_s(self, server: str, got: str, *, now_s: float) -> float:
        """Return for how long the server at this address has come no further than ``got``, and is lacking something. Another text is progress, and is waited
        for from now on.
        """
        known = self._since.get(server)
        if known is None or known[0] != got:
            known = self._since[server] = got, now_s
        return now_s - known[1]

    def over(self, server: str) -> None:
        """Forget a server that lacks nothing, or that is not waited for any more."""
        self._since.pop(server, None)
