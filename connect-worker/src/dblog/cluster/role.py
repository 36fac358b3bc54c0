"""This worker's role in its group: whether it leads, in which term and generation, and whether a
rival runs the same connectors.

Only the leading worker (``kafka/group.py``) runs connectors and writes their states; the others
follow the topics, answer GETs, and wait. The knowledge of a leader is dropped when it loses the
lead, and read again when it leads again. # I7
"""

from __future__ import annotations

import uuid

import structlog

from dblog.clock import Clock
from dblog.cluster.dumpstore import DumpStore
from dblog.cluster.eventloop import RETRY_S, EventLoop
from dblog.cluster.records import NUMBER_MAX, State, Status, TaskId
from dblog.cluster.stores import ConfigStore, OffsetStore, StatusStore
from dblog.errors import TransientError
from dblog.kafka.group import Membership

_log = structlog.get_logger("dblog.cluster.herder")

_TAKE_OVER_LIMIT_S = 10.0

REJOINS = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway. The workers of this group are "
    "finding out which of them runs its connectors; try again"
)


class WorkerRole:
    """This worker's role. Changed only in the herder's thread; any thread may read it."""

    def __init__(
        self,
        membership: Membership,
        *,
        worker_id: str,
        advertised_url: str,
        configs: ConfigStore,
        statuses: StatusStore,
        offsets: OffsetStore,
        loop: EventLoop,
        clock: Clock,
        dumps: DumpStore | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.run_id = uuid.uuid4().hex
        """Identity of this run of the worker, written in each status. The address alone is not
        enough: without ``listeners`` all machines have the same one.
        """
        self.generation = 1
        """Connect's generation in this worker's statuses. Above all generations that the topic held
        when this worker began to lead.
        """
        self.broken = ""
        """Reason why this worker has stopped working: one of its topics was replaced. Empty
        otherwise. The process stays, so that its health can report it.
        """
        self.rival = ""
        """Message about a worker outside our group that runs the same connectors, or empty."""
        self._membership = membership
        self._advertised_url = advertised_url
        self._configs = configs
        self._statuses = statuses
        self._offsets = offsets
        self._dumps = dumps
        self._loop = loop
        self._clock = clock
        self._term: int | None = None
        """Term in which this worker runs connectors. None while it does not."""
        self._take_over_at_s = 0.0
        self.leaderships = 0
        """Number of times that this worker has taken over."""
        self._led_term = self._led_generation = 0
        """Last term and generation in which this worker ran connectors; 0 before the first."""

    @property
    def group(self) -> str:
        """The group's name."""
        return self._membership.group

    @property
    def rebalances(self) -> int:
        """Number of the group's rebalances that this worker has seen."""
        return self._membership.rebalances

    @property
    def leader(self) -> str:
        """URL of the leading worker. Empty while it is unknown."""
        return self._membership.standing.leader

    @property
    def known(self) -> bool:
        """True if it is decided who leads."""
        return self._membership.standing.known

    @property
    def leads(self) -> bool:
        """True if this worker runs the group's connectors."""
        return self._term is not None and self._leads_in(self._term)

    @property
    def stands_by(self) -> bool:
        """True if another worker of the group runs the connectors and this one is its standby."""
        standing = self._membership.standing
        return not standing.leads and not standing.problem and bool(standing.leader)

    def waits_because(self) -> str:
        """Return why this worker runs no connectors, as a sentence for users.

        Empty if it runs them, or will in a moment.
        """
        if self.broken:
            return self.broken
        standing = self._membership.standing
        group = self._membership.group
        if standing.leads:
            return ""
        if standing.problem:
            return f"This worker cannot join the group {group} (group.id): {standing.problem}. {standing.remedy or _remedy_of(standing.problem)}"
        if standing.leader:
            same = standing.leader == self._advertised_url
            return (
                f"This worker is a standby: {standing.leader} runs the connectors of the group {group} (group.id). It takes over when that "
                f"worker has stopped, or has been silent for {standing.silence_s:g} s (session.timeout.ms)."
            ) + (" Both workers advertise the same address: give each its own rest.advertised.host.name." if same else "")
        if standing.term:
            return (
                f"This worker has lost the lead of the group {group} (group.id) and has stopped its tasks, for no broker has heard of it in "
                f"time. They go on from their offsets when the brokers answer."
            )
        return ""

    def _leads_in(self, term: int) -> bool:
        standing = self._membership.standing
        return standing.leads and standing.term == term

    # Taking and losing the lead.

    @property
    def runs_connectors(self) -> bool:
        """True from taking over until stepping down, even if the lease has ended meanwhile."""
        return self._term is not None

    def must_step_down(self) -> bool:
        """Return True if this worker runs connectors without the lead."""
        return self._term is not None and not self._leads_in(self._term)

    def step_down(self) -> None:
        """Give up the lead."""
        self._term = None

    def abandon(self, reason: str) -> None:
        """Never lead again in this run of the worker."""
        self.broken = reason

    def may_take_over(self) -> bool:
        """Return True if the membership gives the lead to this worker and it runs nothing yet."""
        may_try = not self.broken and self._clock.monotonic_s() >= self._take_over_at_s
        return self._term is None and may_try and self._membership.standing.leads

    def take_over(self) -> None:
        """Read the topics to their ends, then take over.

        Another worker may have just written to them.
        """
        term = self._membership.standing.term
        try:
            logs = [self._configs.log, self._statuses.log]
            if self._dumps is not None:
                logs.append(self._dumps.log)
            for log in logs:
                log.read_to_end(limit_s=_TAKE_OVER_LIMIT_S)
        except TransientError as e:
            _log.warning("the topics cannot be read to their ends; trying again", reason=str(e), next_try_s=RETRY_S)
            # Every turn asks whether to lead; a failed try is not repeated in each of them.
            self._take_over_at_s = self._clock.monotonic_s() + RETRY_S
            self._loop.call_later(RETRY_S, lambda: None)
            return
        if not self._leads_in(term):
            return
        unseen = self._ran_meanwhile() if self._led_term == term - 1 and self._membership.standing.again else None
        self.generation = self._led_generation = min(self._statuses.generation_max() + 1, NUMBER_MAX)
        self._term = self._led_term = term
        self.leaderships += 1
        self.rival = ""
        if unseen is not None:
            self.note_rival(*unseen)
        self._loop.reconcile_soon()
        _log.info("this worker runs the connectors", group=self._membership.group, generation=self.generation)

    # Rivals.

    def is_rivals(self, status: Status) -> bool:
        """Return True if a worker outside our group wrote the status.

        In our group nobody else leads, and earlier leaders wrote an older generation. Only RUNNING
        counts, because other statuses of a killed leader may arrive late.
        """
        return self._is_others(status) and status.state is State.RUNNING and status.generation >= self.generation and self.leads

    def _is_others(self, status: Status) -> bool:
        """Return True if another worker, or another run of this one, wrote the status."""
        return status.run != self.run_id if status.run else status.worker_id != self.worker_id

    def note_rival(self, task: TaskId, status: Status) -> None:
        """Log a rival once. The connectors run on: which of the two is meant is unknown here."""
        if not self.leads or self.rival:
            return
        group = self._membership.group
        same = status.worker_id == self.worker_id
        also = " (this worker's own address: give each its own rest.advertised.host.name)" if same else ""
        topics = f"{self._configs.log.topic}, {self._offsets.log.topic} and {self._statuses.log.topic}"
        self.rival = (
            f"The worker {status.worker_id}{also} runs task {task} too, and does not belong to the group {group} (group.id) of this worker: two groups use the "
            f"topics {topics}, so every connector runs twice. Stop the workers of one group, give them the same group.id or storage topics of their own, "
            f"then restart those that stay."
        )
        _log.error("another group of workers uses this worker's topics", reason=self.rival)

    def _ran_meanwhile(self) -> tuple[TaskId, Status] | None:
        """Return a task that another worker has begun to run since this one led, although nobody in
        its group could.

        A rival's tasks that run on write no more statuses, so only this search finds them.
        """
        for name, numbers in self._statuses.known().items():
            for number in numbers:
                status = self._statuses.task(TaskId(name, number))
                if status is not None and status.state is State.RUNNING and status.generation > self._led_generation:
                    return TaskId(name, number), status
        return None


def _remedy_of(problem: str) -> str:
    known = {
        "authorization": "Grant the worker's principal READ on the group.",
        "inconsistent group protocol": "Another program is in this group (a cluster of JVM workers?): stop it, or give this worker a group.id of its own.",
        "session timeout": "Choose a session.timeout.ms within the brokers' group.min.session.timeout.ms and group.max.session.timeout.ms.",
    }
    return next((remedy for part, remedy in known.items() if part in problem.lower()), "It tries again until it can.")
