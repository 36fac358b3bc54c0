"""A worker's membership of its Kafka consumer group, and the lease that follows from it
(``core/lease.py`` has the rules).

One thread polls the consumer, commits claims and reads the claims of others. It never waits for the
herder's thread, nor that thread for it: a slow request must not cost the lease, and a broker that
hangs must not stop requests. The group's protocol is ``cooperative-sticky``, so a worker that joins
or leaves takes the partition from nobody. But brokers accept no claim while the group waits for a
member, so a worker that stops leaves the group at once.

A second consumer, which is not a member, reads the claims. ``committed()`` of the member would wait
for a rebalance to end, and the rebalance waits for the member to be polled. (The admin client's
``list_consumer_group_offsets`` crashes the process if a group's coordinator has just moved,
confluent-kafka 2.16.)
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from dblog.clock import lease_clock_s
from dblog.core.lease import Claim, Leadership, read_claim
from dblog.kafka.clientlog import ClientLog
from dblog.kafka.instance import Instance
from dblog.kafka.othergroups import OtherGroups, OtherLeader

_log = structlog.get_logger("dblog.kafka.group")

_POLL_S = 0.1
_JOINING_POLL_S = 0.01
"""Poll timeout while joining. A poll lasts its full timeout even after a callback, and joining
takes several callbacks.
"""
_LOOK_S = 0.5
_JOIN_SOON_S = 2.0
"""Seconds after the start without reading the group's claim. A worker that is alone joins faster
than a coordinator that is just being found answers.
"""
_LOOK_LIMIT_S = 1.0
REOPEN_S = 2.0
_LEAVE_S = 2.0
"""Time to leave the group, added to one heartbeat: with it all members learn of the rebalance, and
the coordinator answers nothing until they have joined again.
"""
_CLOSE_S = 10.0
_ANSWER_SHARE = 0.25
"""Share of the silence after which a claim without an answer no longer blocks the next one. A late
answer still counts.
"""
_STALLED_S = 30.0
"""Seconds that a client may go without an answer that others get, before a new one replaces it."""
_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  librdkafka's local codes are spelled so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._PARTITION_EOF,  # noqa: SLF001
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Errors that pass by themselves, or that other log lines show."""

_ENDS_CONSUMER = frozenset({KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID})  # noqa: SLF001
"""Errors after which a consumer is of no further use. Another member has its place, or a claim that
waited for lost brokers was sent without its member id.
"""

_NO_INSTANCES = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})  # noqa: SLF001
"""Errors of brokers before 2.3, and of lookalikes, that know no static members."""


@dataclass(frozen=True, slots=True)
class Standing:
    """This worker's role in its group, as one value."""

    leads: bool = False
    term: int = 0
    again: bool = False
    """True if this worker led the previous term too and knows of no leader in between."""
    leader: str = ""
    """URL of the leading worker. Empty if no worker leads or the leader is unknown."""
    silence_s: float = 0.0
    problem: str = ""
    """Reason why this worker is not in the group: the brokers refuse it, or another group runs its
    connectors. Empty if it is.
    """
    remedy: str = ""
    """Remedy for the problem, if known."""

    @property
    def known(self) -> bool:
        """True if it is decided who leads, or why this worker cannot."""
        return self.leads or bool(self.leader or self.problem)


class Membership:
    """A member of one group.

    ``start`` and ``close`` belong to one thread; the callbacks run in the membership's own.
    """

    def __init__(
        self,
        *,
        group: str,
        topic: str,
        url: str,
        consumer_settings: Mapping[str, str],
        silence_s: float,
        heartbeat_s: float,
        rebalance_s: float,
        others: OtherGroups | None = None,
        instance: Instance | None = None,
    ) -> None:
        """Describe the membership; ``start`` joins the group.

        ``others`` is checked for another group that runs the same connectors: while there is one,
        this worker neither joins its group nor leads. ``instance`` is the static member that this
        worker continues over restarts.
        """
        self.group = group
        self.silence_s = silence_s
        self._claim_partition = TopicPartition(topic, 0)
        self._url = url
        self._consumer_settings = consumer_settings
        self._heartbeat_s = min(heartbeat_s, silence_s / 3)
        self._others = others
        self._rebalance_s = max(rebalance_s, silence_s)
        self._renew_s = min(self._heartbeat_s, silence_s / 8)
        self._instance = instance
        self._leadership = Leadership(
            leader=url,
            incarnation=uuid.uuid4().hex if instance is None else instance.run,
            silence_s=silence_s,
            ended=() if instance is None else instance.ended,
        )
        self._on_change: Callable[[], None] = lambda: None
        self._on_lease: Callable[[float], None] = lambda _until_s: None
        self._on_revoked: Callable[[], None] = lambda: None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._standing = Standing()
        self._problem = ""
        self._remedy = ""
        self._sent: dict[int, tuple[Claim, float]] = {}
        """Unanswered claims by their number, each with the time it was sent."""
        self._sent_at_s = 0.0
        self._number = -1
        """Number of the last claim sent. Each has its own, so answers cannot be confused."""
        self._released = False
        self._look_from_s = 0.0
        self._unclaimed_since_s: float | None = None
        """Time since which no claim was answered. None if the last one was."""
        self._unjoined_since_s: float | None = None
        """Time since which the coordinator has been silent. None while in the group."""
        self._read_s = 0.0
        """Time when the second consumer last read the group's claim."""
        self._unread_since_s: float | None = None
        """Time since which that fails, or None."""
        self.rebalances = 0
        """Number of assignments by the group's coordinator, including empty ones."""

    def start(self, *, on_change: Callable[[], None], on_lease: Callable[[float], None], on_revoked: Callable[[], None]) -> None:
        """Join the group.

        ``on_lease`` gets each new end of the lease. ``on_revoked`` must return only when nothing
        runs any more. ``on_change`` is called after each change of ``standing``.
        """
        self.report_to(on_change=on_change, on_lease=on_lease, on_revoked=on_revoked)
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)
        self._thread.start()

    def report_to(self, *, on_change: Callable[[], None], on_lease: Callable[[float], None], on_revoked: Callable[[], None]) -> None:
        """Set the callbacks. Call before the thread starts."""
        self._on_change, self._on_lease, self._on_revoked = on_change, on_lease, on_revoked

    def close(self) -> None:
        """Leave the group. Nothing may still run under the lease: the next leader does not wait."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(self._heartbeat_s + _LEAVE_S + _CLOSE_S)

    @property
    def claims(self) -> bool:
        """True if this worker owns the partition.

        It claims once another worker's last claim has stood still long enough.
        """
        return self._leadership.assigned

    @property
    def standing(self) -> Standing:
        """The standing now. A lease that has ended no longer leads, even if the thread sleeps."""
        standing = self._standing
        if standing.leads and not self._leadership.leads(lease_clock_s()):
            return Standing(term=standing.term)
        return standing

    # The methods below run in the membership's thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._waits_for_other_group():
                    self._live()
            except KafkaException as e:
                self._join_again(str(e.args[0].str() if e.args and isinstance(e.args[0], KafkaError) else e), _log.warning)
            except Exception as e:  # noqa: BLE001  a worker without this thread would stand by forever
                self._join_again(repr(e), _log.exception)

    def _waits_for_other_group(self) -> bool:
        """Return True, after a pause, if another group runs our config topic's connectors. # I7"""
        other = None if self._others is None else self._others.before_joining()
        if other is None:
            return False
        self._log_other_leader(other)
        # The jitter keeps two groups that have both made way from coming back together.
        self._stopping.wait(REOPEN_S * random.uniform(0.7, 1.3))  # noqa: S311  jitter
        return True

    def makes_way(self) -> bool:
        """Return True if another group got a leader while nobody led in ours. # I7

        Asked before the first claim of each term, because a worker that was silent for a session no
        longer knows about other groups.
        """
        if self._others is None or self._leadership.leads(lease_clock_s()) or not self._claims_now():
            return False
        other = self._others.before_leading()
        if other is not None:
            self._log_other_leader(other)
        return other is not None

    def _log_other_leader(self, other: OtherLeader) -> None:
        # Log one line for each leader; the moment between two leaders is not reported.
        if other.problem != self._problem and (other.url or not self._problem):
            _log.error("another group of workers uses this worker's topics", group=self.group, reason=other.problem, remedy=other.remedy)
        self._problem, self._remedy = other.problem, other.remedy
        self._leadership.make_way()
        self.publish()

    def _join_again(self, reason: str, log: Callable[..., object]) -> None:
        self._problem, self._remedy = reason, ""
        log("membership of the group ended; joining again", group=self.group, reason=reason, next_try_s=REOPEN_S)
        try:
            self._lost()
        except Exception:  # noqa: BLE001  the lease must end after any error
            # The lease ends by itself at its time.
            _log.exception("the end of the lease could not be reported", group=self.group)
        self.publish()
        self._stopping.wait(REOPEN_S)

    def _live(self) -> None:
        shared = {
            **self._consumer_settings,
            "group.id": self.group,
            "group.protocol": "classic",
            "reconnect.backoff.max.ms": "2000",
            "enable.auto.commit": "false",
        }
        self._look_from_s = lease_clock_s() + _JOIN_SOON_S
        self._unclaimed_since_s = self._unread_since_s = None
        self._unjoined_since_s = lease_clock_s()
        reader = Consumer({**shared, "log_level": "2"})
        consumer = Consumer(
            {
                **shared,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": str(round(self.silence_s * 1000)),
                "heartbeat.interval.ms": str(round(self._heartbeat_s * 1000)),
                "max.poll.interval.ms": str(round(self._rebalance_s * 1000)),
                "allow.auto.create.topics": "false",
                "on_commit": self.on_commit,
                **({} if self._instance is None else {"group.instance.id": self._instance.id}),
            },
            logger=ClientLog(f"group {self.group}"),
        )
        try:
            consumer.subscribe([self._claim_partition.topic], on_assign=self.on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
            makes_way = False
            while not makes_way and not self._stopping.is_set():
                message = consumer.poll(_POLL_S if self._standing.known else _JOINING_POLL_S)
                if message is not None and (error := message.error()) is not None:
                    self._on_error(error)
                self.observe(reader)
                if self._reader_stalls():
                    reader = self._instead_of(reader, shared)
                self.require_answers()
                makes_way = self.makes_way()
                if not makes_way:
                    self.renew(consumer)
                    self.publish()
            # Nobody in our group leads when it makes way. A released claim shows that. Without it
            # the group's next worker would take this one for a standby of its leader.
            self._leave(consumer, release=makes_way or self._leadership.leads(lease_clock_s()))
        finally:
            self._sent.clear()
            consumer.close()
            reader.close()

    def _reader_stalls(self) -> bool:
        return self._unread_since_s is not None and lease_clock_s() - self._unread_since_s >= _STALLED_S

    def _instead_of(self, stalled: Consumer, settings: Mapping[str, str]) -> Consumer:
        _log.warning("the reader of the group's leader stalled; a new one continues", group=self.group, limit_s=_STALLED_S)
        self._unread_since_s = None
        stalled.close()
        return Consumer({**settings, "log_level": "2"})

    def require_answers(self) -> None:
        """Raise KafkaException if this member gets no answers while another client does, so that a
        new member joins.

        The stuck member might otherwise keep the partition of the group's claims, and nobody would
        lead.
        """
        now_s = lease_clock_s()
        if now_s - self._read_s >= _STALLED_S / 2:
            return  # unknown whether the brokers answer
        claimless_s = 0.0 if self._unclaimed_since_s is None else now_s - self._unclaimed_since_s
        jobless_s = 0.0 if self._unjoined_since_s is None else now_s - self._unjoined_since_s
        if claimless_s >= max(_STALLED_S, 2 * self.silence_s) or jobless_s >= self._rebalance_s + _STALLED_S:
            waited_s = max(claimless_s, jobless_s)
            reason = f"the group's coordinator has answered this member nothing for {waited_s:.0f} s, though it answers another client"
            raise KafkaException(KafkaError(KafkaError._FAIL, reason))  # noqa: SLF001  its public name

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self._unjoined_since_s = None
        consumer.incremental_assign([TopicPartition(each.topic, each.partition, OFFSET_END) for each in partitions])
        if partitions:
            # Another consumer reads the records; this one only has to be a member.
            consumer.pause(partitions)
        if self._holds_claim(partitions):
            self._leadership.assign()
        self._problem = self._remedy = ""
        self._look_from_s = 0.0

    def _holds_claim(self, partitions: list[TopicPartition]) -> bool:
        return any((each.topic, each.partition) == (self._claim_partition.topic, self._claim_partition.partition) for each in partitions)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._holds_claim(partitions) and self._leadership.assigned:
            self._lost()
            self._on_revoked()

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._unjoined_since_s = lease_clock_s()
        if partitions:
            self._lost()

    def _lost(self) -> None:
        self._leadership.lose()
        self._on_lease(0.0)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in _PASSING:
            return
        if self._instance is not None and error.code() in _NO_INSTANCES:
            _log.info("the brokers know no static members, so a killed worker will be waited for", group=self.group, reason=error.str())
            self._instance = None
            raise KafkaException(error)
        if error.fatal() or error.code() in _ENDS_CONSUMER:
            raise KafkaException(error)
        if error.str() != self._problem:
            _log.warning("the brokers refuse this worker in its group", group=self.group, reason=error.str())
        self._problem, self._remedy = error.str(), ""

    def renew(self, consumer: Consumer) -> None:
        if self._claims_now():
            self._commit(consumer, self._leadership.next_claim())

    def _claims_now(self) -> bool:
        now_s = lease_clock_s()
        return not self._awaits_answer(now_s) and now_s - self._sent_at_s >= self._renew_s and self._leadership.may_claim(now_s)

    def _awaits_answer(self, now_s: float) -> bool:
        return bool(self._sent) and now_s - self._sent_at_s < self.silence_s * _ANSWER_SHARE

    def _commit(self, consumer: Consumer, claim: Claim) -> None:
        self._sent_at_s = lease_clock_s()
        self._number = max(self._number + 1, claim.number)
        claim = replace(claim, number=self._number)
        # A later answer would grant a lease that has already ended.
        self._sent = {number: sent for number, sent in self._sent.items() if self._sent_at_s - sent[1] < self.silence_s}
        self._sent[claim.number] = claim, self._sent_at_s
        self._unclaimed_since_s = self._unclaimed_since_s or self._sent_at_s
        claimed = TopicPartition(self._claim_partition.topic, self._claim_partition.partition, claim.number, claim.metadata())
        try:
            consumer.commit(offsets=[claimed], asynchronous=True)
        except KafkaException:
            del self._sent[claim.number]

    def on_commit(self, error: KafkaError | None, committed: list[TopicPartition]) -> None:
        sent = next((self._sent.pop(each.offset) for each in committed if each.offset in self._sent), None)
        failed = error or next((each.error for each in committed if each.error is not None), None)
        if failed is None or failed.code() > 0:  # a broker's error; librdkafka's own are negative
            self._unclaimed_since_s = None
        if sent is None:
            return
        if failed is not None:
            _log.info("the lease was not renewed; trying again", group=self.group, reason=failed.str())
            return
        claim, sent_at_s = sent
        self._released = not claim.leader
        self._leadership.taken(claim, sent_at_s=sent_at_s, now_s=lease_clock_s())
        if claim.leader and self._leadership.until_s:
            self._on_lease(self._leadership.until_s)

    def observe(self, reader: Consumer) -> None:
        """Read the group's claim from time to time while this worker does not lead."""
        now_s = lease_clock_s()
        if self._leadership.leads(now_s):
            self._unread_since_s = None  # a leader does not look, so an earlier failed look says nothing
            return
        if self._awaits_answer(now_s) or now_s < self._look_from_s:
            return
        try:
            committed = reader.committed([self._claim_partition], timeout=_LOOK_LIMIT_S)[0]
        except KafkaException as e:
            _log.debug("the group's leader cannot be read", group=self.group, reason=str(e))
            self._unread_since_s = self._unread_since_s or now_s
        else:
            self._read_s, self._unread_since_s = lease_clock_s(), None
            if committed.error is None:
                claim = read_claim(committed.offset, committed.metadata)
                # No other step of this thread has run in between: a partition that is ours now was
                # ours when asked.
                self._leadership.observe(claim, asked_while_assigned=self._leadership.assigned, at_s=lease_clock_s())
        self._look_from_s = lease_clock_s() + _LOOK_S

    def publish(self) -> None:
        leadership, now_s = self._leadership, lease_clock_s()
        if leadership.leads(now_s):
            standing = Standing(leads=True, term=leadership.term, again=leadership.again, leader=self._url)
        else:
            other = leadership.other
            # An earlier run of this worker is waited for like a start, because there is no other
            # worker to send a request to. A claim that is still renewed comes from another worker.
            leader = other.leader if other is not None and (other.leader != self._url or leadership.other_is_alive) else ""
            silence_s = other.silence_s if other is not None else 0.0
            standing = Standing(term=leadership.term, leader=leader, silence_s=silence_s, problem=self._problem, remedy=self._remedy)
        if standing != self._standing:
            self._standing = standing
            self._on_change()

    def _leave(self, consumer: Consumer, *, release: bool) -> None:
        """Release the claim and leave the group, so that the other members need not wait.

        Closing the consumer does not leave the group. librdkafka keeps a static member's place for
        a session (KIP-345), and sends nothing for a member without a partition; each rebalance
        would wait for such a place. Both leave at once when unsubscribed, and then have no member
        id.
        """
        limit_s = lease_clock_s() + self._heartbeat_s + _LEAVE_S
        self._released = False
        while (self._sent or (release and self._leadership.assigned and not self._released)) and lease_clock_s() < limit_s:
            if not self._sent:
                self._commit(consumer, self._leadership.next_claim(release=True))
            consumer.poll(_POLL_S)
        self._leadership.lose()
        consumer.unsubscribe()
        while consumer.memberid() and lease_clock_s() < limit_s:
            consumer.poll(_JOINING_POLL_S)
