"""Who runs a group's connectors, and until when. Pure: times are passed in, of one clock that never stands still.

Kafka's group coordinator gives the only partition of the config topic to one member. That alone is no fence: a member that was paused believes for a
while that it still has what another one got. So a member leads only under a **lease**. It commits a claim (its name and a rising number) to the group,
which the coordinator takes from members of its present generation, of which only the partition's owner sends one. A claim that was taken is a lease from
the moment it was *sent*, for ``lease_s``, and what runs under it ends at that moment by itself. Whoever gets the partition next reads the last claim, and
waits until that has stood unchanged for ``silence_s``, longer than the lease, by its own clock: then the last lease has ended, whatever became of its
holder and whatever the coordinator thinks. A leader that stops in order commits a claim without a name: nobody needs to wait for it, nor for a run that is
known to have ended. # I7
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

LEASE_SHARE = 0.8
"""Of the silence that others wait for. The rest is for clocks that run differently and for the end of a process to take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a leader commits to its group."""

    number: int
    leader: str
    """URL of the worker; empty: it has stopped in order."""
    incarnation: str
    """Which run of that worker."""
    silence_s: float
    """How long the claim must have stood unchanged before another one may lead."""

    def metadata(self) -> str:
        """The text that is committed; the number is the offset."""
        return json.dumps({"leader": self.leader, "incarnation": self.incarnation, "silence.ms": round(self.silence_s * 1000)})


def read_claim(number: int, metadata: str | None) -> Claim | None:
    """What was committed; None when nothing was, or by somebody else's consumer."""
    if number < 0:
        return None
    try:
        match json.loads(metadata or ""):
            case {"leader": str(leader), "incarnation": str(incarnation), "silence.ms": int(silence_ms)}:
                return Claim(number=number, leader=leader, incarnation=incarnation, silence_s=silence_ms / 1000)
    except ValueError:
        pass
    return Claim(number=number, leader="", incarnation="", silence_s=0.0)


class Leadership:
    """One worker's part in it. All times are seconds of one clock."""

    def __init__(self, *, leader: str, incarnation: str, silence_s: float, ended: Collection[str] = ()) -> None:
        """``ended``: runs of this worker that have ended for certain, and all that ran under them."""
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
        """The incarnation whose claim was seen to move: it lives."""
        self.until_s = 0.0
        """End of the lease; 0 when there is none."""
        self.term = 0
        """Rises whenever this worker leads after it did not: what was believed before is to be read again."""
        self.again = False
        """Whether nobody else is known to have led between the term before and this one."""
        self._others_led = True

    def assign(self) -> None:
        """The partition is ours; claims that were read before it may be old."""
        self.assigned = True
        self._looked = False

    def lose(self) -> None:
        """The partition is another's, or may be."""
        self.assigned = False
        self._looked = False
        self.until_s = 0.0

    def observe(self, claim: Claim | None, *, asked_while_assigned: bool, at_s: float) -> None:
        """The group's last claim, as of an answer that came now."""
        self._others_led = self._others_led or (claim is not None and claim.incarnation != self._incarnation)
        if claim != self._seen:
            if claim is not None and self._seen is not None and claim.incarnation == self._seen.incarnation:
                self._renewing = claim.incarnation
            self._seen, self._seen_at_s = claim, at_s
        self._looked = self._looked or (asked_while_assigned and self.assigned)

    def make_way(self) -> None:
        """Somebody outside of the group leads."""
        self._others_led = True

    @property
    def other(self) -> Claim | None:
        """The claim of another worker that has not stopped in order, and may still run."""
        claim = self._seen
        if claim is None or not claim.leader or claim.incarnation == self._incarnation or claim.incarnation in self._ended:
            return None
        return claim

    @property
    def other_is_alive(self) -> bool:
        """Whether that worker was seen to renew its claim; else it may be what an earlier run of this one left behind."""
        other = self.other
        return other is not None and other.incarnation == self._renewing

    def may_claim(self, now_s: float) -> bool:
        """Whether nobody else can still run under a lease."""
        if not self.assigned or not self._looked:
            return False
        other = self.other
        return other is None or now_s >= self._seen_at_s + other.silence_s

    def next_claim(self, *, release: bool = False) -> Claim:
        """What to commit next."""
        number = 0 if self._seen is None else self._seen.number + 1
        leader = "" if release else self._leader
        return Claim(number=number, leader=leader, incarnation=self._incarnation, silence_s=self._silence_s)

    def taken(self, claim: Claim, *, sent_at_s: float, now_s: float) -> None:
        """The coordinator has taken our claim."""
        self._seen, self._seen_at_s = claim, now_s
        until_s = sent_at_s + self.lease_s
        if not self.assigned or not claim.leader or until_s <= now_s:
            return
        if self.until_s <= now_s:
            self.term += 1
            self.again, self._others_led = not self._others_led, False
        self.until_s = max(self.until_s, until_s)

    def leads(self, now_s: float) -> bool:
        """Whether the lease holds."""
        return now_s < self.until_s
