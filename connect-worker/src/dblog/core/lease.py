"""Decides which worker runs a group's connectors, and until when. Pure: the caller passes all
times, from one monotonic clock.

Kafka's group coordinator assigns the only partition of the config topic to one member. That alone
is no fence: a member that was paused believes for a while that it still owns a partition that
another member owns by now. So a member leads only under a **lease**.

A member commits a claim, its name and a rising number, to the group. The coordinator accepts
commits from members of the current generation, and only the partition's owner sends one. An
accepted claim is a lease for ``lease_s``, counted from the moment when it was *sent*. Everything
that runs under the lease ends by itself at its end.

The next owner of the partition reads the last claim. It waits until that claim has stood unchanged
for ``silence_s``, longer than the lease, by its own clock. Then the last lease has ended, whatever
happened to its holder and whatever the coordinator believes. A leader that shuts down cleanly
commits a claim without a name, and nobody has to wait for it. Nor does anybody wait for a run that
is known to have ended. # I7
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

LEASE_SHARE = 0.8
"""Length of a lease as a share of the silence that other workers wait for. The rest allows for
clocks that run at different speeds and for the time that a process takes to stop.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The text and number that a leader commits to its group."""

    number: int
    leader: str
    """URL of the worker; empty after a clean shutdown."""
    incarnation: str
    """Identifier of the worker's run."""
    silence_s: float
    """Seconds for which the claim must stand unchanged before another worker may lead."""

    def metadata(self) -> str:
        """Return the text to commit as the offset's metadata; ``number`` is the offset."""
        return json.dumps({"leader": self.leader, "incarnation": self.incarnation, "silence.ms": round(self.silence_s * 1000)})


def read_claim(number: int, metadata: str | None) -> Claim | None:
    """Return the claim that was committed, or None if nothing was. A commit of some other consumer
    gives a claim without a leader.
    """
    if number < 0:
        return None
    try:
        match json.loads(metadata or ""):
            case {"leader": str(leader), "incarnation": str(incarnation), "silence.ms": int(silence_ms)}:
                return Claim(number=number, leader=leader, incarnation=incarnation, silence_s=silence_ms / 1000)
    except (OverflowError, RecursionError, ValueError):
        pass
    return Claim(number=number, leader="", incarnation="", silence_s=0.0)


class Leadership:
    """The state of one worker in the election. All times are seconds of one monotonic clock."""

    def __init__(self, *, leader: str, incarnation: str, silence_s: float, ended: Collection[str] = ()) -> None:
        """Start without the partition and without a lease. ``ended`` are earlier runs of this
        worker that have certainly ended, with all that ran under them.
        """
        self._leader = leader
        self._ended = frozenset(ended)
        self._incarnation = incarnation
        self._silence_s = silence_s
        self.lease_s = silence_s * LEASE_SHARE
        self.assigned = False
        self._looked = False
        self._seen: Claim | None = None
        self._seen_at_s = 0.0
        self._renewing = ""
        """Incarnation whose claim was seen to change, so that it is known to be alive."""
        self.until_s = 0.0
        """End of the lease; 0 if there is none."""
        self.term = 0
        """Number that rises each time this worker starts to lead again; state read in an earlier
        term must be read again.
        """
        self.again = False
        """True if no other worker is known to have led between the previous term and this one."""
        self._others_led = True

    def assign(self) -> None:
        """Note that this worker owns the partition now. Claims read before may be outdated."""
        self.assigned = True
        self._looked = False

    def lose(self) -> None:
        """Note that another worker owns the partition, or may own it."""
        self.assigned = False
        self._looked = False
        self.until_s = 0.0

    def observe(self, claim: Claim | None, *, asked_while_assigned: bool, at_s: float) -> None:
        """Take the group's last claim from an answer that has just arrived.

        ``asked_while_assigned`` is True if the question was sent while this worker owned the
        partition.
        """
        self._others_led = self._others_led or (claim is not None and claim.incarnation != self._incarnation)
        if claim != self._seen:
            if claim is not None and self._seen is not None and claim.incarnation == self._seen.incarnation:
                self._renewing = claim.incarnation
            self._seen, self._seen_at_s = claim, at_s
        self._looked = self._looked or (asked_while_assigned and self.assigned)

    def make_way(self) -> None:
        """Note that a worker outside of the group leads."""
        self._others_led = True

    @property
    def other(self) -> Claim | None:
        """The claim of another worker that may still run: it has not shut down cleanly. None if
        there is none.
        """
        claim = self._seen
        if claim is None or not claim.leader or claim.incarnation == self._incarnation or claim.incarnation in self._ended:
            return None
        return claim

    @property
    def other_is_alive(self) -> bool:
        """True if the other worker was seen to renew its claim. If not, the claim may be left over
        from an earlier run of this worker.
        """
        other = self.other
        return other is not None and other.incarnation == self._renewing

    def may_claim(self, now_s: float) -> bool:
        """Return True if no other worker can still run under a lease."""
        if not self.assigned or not self._looked:
            return False
        other = self.other
        return other is None or now_s >= self._seen_at_s + other.silence_s

    def next_claim(self, *, release: bool = False) -> Claim:
        """Return the claim to commit next. With ``release`` it has no leader, which ends the lease
        at once.
        """
        number = 0 if self._seen is None else self._seen.number + 1
        leader = "" if release else self._leader
        return Claim(number=number, leader=leader, incarnation=self._incarnation, silence_s=self._silence_s)

    def taken(self, claim: Claim, *, sent_at_s: float, now_s: float) -> None:
        """Take note that the coordinator has accepted our claim."""
        self._seen, self._seen_at_s = claim, now_s
        until_s = sent_at_s + self.lease_s
        if not self.assigned or not claim.leader or until_s <= now_s:
            return
        if self.until_s <= now_s:
            self.term += 1
            self.again, self._others_led = not self._others_led, False
        self.until_s = max(self.until_s, until_s)

    def leads(self, now_s: float) -> bool:
        """Return True while the lease holds."""
        return now_s < self.until_s
